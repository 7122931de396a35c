// A run's page that follows the run: looks how far it is, takes over new numbers, and has candidates run again.
"use strict";
(() => {
  const { token, run, version, parts, poll_s, redraw_s, judges } = JSON.parse(document.getElementById("live-data").textContent);
  const status = document.getElementById("live-status");
  let drawn = version;
  let drawnAt = performance.now();

  function takeOver(page) {
    for (const old of document.querySelectorAll("[data-live]")) {
      const fresh = page.querySelector(`[data-live="${old.dataset.live}"]`);
      if (!fresh) continue;
      const open = new Set([...old.querySelectorAll("details[open] > summary")].map((one) => one.textContent));
      for (const one of fresh.querySelectorAll("details")) one.open ||= open.has(one.firstElementChild.textContent);
      old.replaceChildren(...[...fresh.childNodes].map((node) => document.adoptNode(node)));
    }
  }

  async function look() {
    let pause_s = poll_s;
    try {
      const state = await (await fetch(`/runs/${run}/state`)).json();
      if (state.error) throw new Error(state.error);
      const more = state.parts > parts ? " More groups were logged since this page was opened: load it again." : "";
      if (state.version !== drawn && performance.now() - drawnAt > redraw_s * 1000) {
        const answer = await fetch(`/runs/${run}/numbers`);
        if (answer.ok) {
          takeOver(new DOMParser().parseFromString(await answer.text(), "text/html"));
          [drawn, drawnAt] = [state.version, performance.now()];
        }
      }
      status.textContent = `${state.words}${more}`;
      if (state.ended) pause_s *= 6;
    } catch {
      status.textContent = "The server does not answer; what stands here is the last it said.";
    }
    setTimeout(look, pause_s * 1000);
  }

  // For the browser of groups: a button beside each candidate.
  globalThis.resultsButton = judges && ((group, sql) => {
    const button = text2sql.element("button", "again", "Results beside gold's");
    button.type = "button";
    button.addEventListener("click", async () => {
      button.disabled = true;
      button.textContent = "running both …";
      try {
        const found = await text2sql.ask(`/runs/${run}/results`, token, { ...group, sql });
        const changed = "This database has changed since the run: its rows are others now.";
        const row = text2sql.element("tr", "answer-row");
        const cell = text2sql.element("td", "left");
        cell.colSpan = 5;
        if (found.changed) cell.append(text2sql.element("p", "warn", changed));
        cell.append(...text2sql.results(found));
        row.append(cell);
        button.closest("tr").after(row);
        button.remove();
      } catch (error) {
        button.disabled = false;
        button.textContent = `${error.message} Try again`;
      }
    });
    return button;
  });
  look();
})();
