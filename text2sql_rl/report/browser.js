// The browser of groups. Unpacks the JSON of browser.py once the page stands, and makes rows only when they are to be seen.
// What models and databases wrote reaches the page as text nodes only, never as markup.
"use strict";
(async () => {
  const PAGE = 20; // rows that are made at once
  const PAUSE_MS = 120; // of typing, before the list is made again
  const KEYWORDS = new Set(
    ("all and any array as asc between by case cast cross cube date desc distinct else end escape except exists extract " +
      "false filter first following from full group grouping having ilike in inner intersect interval is join last " +
      "lateral left like limit natural not null nulls offset on or order outer over partition pivot preceding qualify " +
      "range recursive right rollup row rows select semi set similar table then true unbounded union unnest using " +
      "values when where window with").split(" "),
  );
  // A string, a quoted name, a comment, a number, a word: each alternative takes its text in one way only.
  const TOKEN = /'(?:[^']|'')*'?|"(?:[^"]|"")*"?|--[^\n]*|\/\*[^]*?(?:\*\/|$)|\d+(?:\.\d+)?|[A-Za-z_]\w*/g;
  const KINDS = {
    informative: "right and wrong",
    all_correct: "all right",
    all_wrong: "all wrong",
    low_spread: "too little spread",
    unscored: "unscored",
  };

  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details[data-print]")) details.open = true;
  });
  const data = document.getElementById("groups-data");
  if (!data) return; // a run that has logged no group yet
  const find = (name) => document.getElementById(`groups-${name}`);
  if (!globalThis.DecompressionStream) {
    find("old").hidden = false;
    return;
  }
  const { strings, stages, schemas, groups } = await unpacked(data.textContent);
  const list = find("list");
  const more = find("more");
  const status = find("status");
  let lowered = null; // the pool in lower case, made when somebody searches
  let matching = [];
  let timer = 0;

  function unpacked(text) {
    const bytes = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
  }

  function element(tag, className, text) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function sql(text) {
    const code = element("code", "sql");
    let end = 0;
    for (const { 0: token, index } of text.matchAll(TOKEN)) {
      const first = token[0];
      const kind =
        first === "'" ? "string"
        : token.startsWith("--") || token.startsWith("/*") ? "comment"
        : first >= "0" && first <= "9" ? "number"
        : KEYWORDS.has(token.toLowerCase()) ? "keyword"
        : "";
      if (!kind) continue;
      code.append(text.slice(end, index), element("span", kind, token));
      end = index + token.length;
    }
    code.append(text.slice(end));
    return code;
  }

  function block(title, content) {
    const pre = element("pre");
    pre.append(content);
    return [element("p", "soft", title), pre];
  }

  function answerRow(group, [text, times, total, advantage, cause, reason, result, parts]) {
    const row = element("tr", "answer-row");
    const candidate = element("td", "left");
    candidate.append(sql(strings[text]));
    // A page that is served can have both run again.
    if (globalThis.resultsButton) candidate.append(globalThis.resultsButton(group, strings[text]));
    const why = element("td", "left", strings[reason] ? `${strings[cause]}: ${strings[reason]}` : strings[cause]);
    if (strings[result]) why.append(element("div", "soft", strings[result]));
    if (strings[parts]) {
      const points = element("ul", "parts");
      for (const part of strings[parts].split("\n")) points.append(element("li", "", part));
      why.append(points);
    }
    const signed = (advantage < 0 ? "" : "+") + advantage.toFixed(2);
    const reward = total === null ? "unscored" : total.toFixed(3);
    row.append(candidate, element("td", "", times), element("td", "", reward), element("td", "", signed), why);
    return row;
  }

  function fill(details, [, , database, , , gold, , answers]) {
    const table = element("table", "answers");
    const head = element("tr", "answer-head");
    const titles = ["candidate", "times", "reward", "advantage", "what it was"];
    titles.forEach((title, number) => {
      const cell = element("th", number % 4 ? "" : "left", title);
      cell.scope = "col";
      head.append(cell);
    });
    const group = { database: strings[database], gold_sql: strings[gold] };
    table.append(head, ...answers.map((answer) => answerRow(group, answer)));
    const scroll = element("div", "scroll");
    scroll.append(table);
    if (strings[gold]) details.append(...block("gold", sql(strings[gold])));
    details.append(scroll);
    if (database in schemas) {
      const schema = element("details");
      schema.append(element("summary", "", `schema of ${strings[database]}`));
      const pre = element("pre");
      pre.append(sql(strings[schemas[database]]));
      schema.append(pre);
      details.append(schema);
    }
  }

  function groupRow(group) {
    const [stage, step, database, kind, question, , mean] = group;
    const details = element("details");
    const summary = element("summary");
    const what = KINDS[strings[kind]] ?? strings[kind];
    const place = `${strings[stage]}, step ${step}, ${strings[database]}, ${what}, mean ${mean.toFixed(2)}`;
    summary.append(element("span", "soft", place), " ", strings[question]);
    details.append(summary);
    details.addEventListener("toggle", () => details.childElementCount === 1 && fill(details, group));
    return details;
  }

  function showMore() {
    const shown = list.childElementCount;
    list.append(...matching.slice(shown, shown + PAGE).map(groupRow));
    const left = matching.length - list.childElementCount;
    more.hidden = left === 0;
    more.textContent = `Show ${Math.min(PAGE, left)} more of ${left.toLocaleString("en")}`;
    return list.children[shown];
  }

  // Which texts of the pool hold each word: the pool is gone through once a word, however many groups there are.
  function holders(words) {
    if (words.length) lowered ??= strings.map((text) => text.toLowerCase());
    return words.map((word) => Uint8Array.from(lowered, (text) => (text.includes(word) ? 1 : 0)));
  }

  function holds(holder, [, , database, , question, gold, , answers]) {
    if (holder[question] || holder[gold] || holder[database]) return true;
    return answers.some(([text, , , , , reason]) => holder[text] || holder[reason]);
  }

  function update() {
    const chosen = (name) => (find(name).value === "" ? null : Number(find(name).value));
    const [stage, kind, cause, database] = ["stage", "kind", "cause", "database"].map(chosen);
    const from = chosen("from") ?? -Infinity;
    const to = chosen("to") ?? Infinity;
    const words = holders(find("search").value.toLowerCase().split(/\s+/).filter(Boolean));
    matching = groups.filter(
      (group) =>
        (stage === null || group[0] === stage) &&
        (kind === null || group[3] === kind) &&
        (database === null || group[2] === database) &&
        group[1] >= from &&
        group[1] <= to &&
        (cause === null || group[7].some((answer) => answer[4] === cause)) &&
        words.every((holder) => holds(holder, group)),
    );
    const rollouts = matching.reduce((sum, group) => sum + group[7].reduce((times, one) => times + one[1], 0), 0);
    const count = (number) => number.toLocaleString("en");
    status.textContent = `${count(matching.length)} of ${count(groups.length)} groups, ${count(rollouts)} rollouts`;
    list.replaceChildren();
    showMore();
  }

  function options(name, places, words = (text) => text) {
    for (const place of places) {
      const option = element("option", "", words(strings[place]));
      option.value = place;
      find(name).append(option);
    }
  }

  const sorted = (places) => [...new Set(places)].sort((a, b) => (strings[a] < strings[b] ? -1 : 1));
  options("stage", stages);
  options("kind", sorted(groups.map((group) => group[3])), (text) => KINDS[text] ?? text);
  options("cause", sorted(groups.flatMap((group) => group[7].map((answer) => answer[4]))));
  options("database", sorted(groups.map((group) => group[2])));

  const form = find("form");
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(update, PAUSE_MS);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(update));
  more.addEventListener("click", () => showMore()?.firstElementChild.focus());
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (["INPUT", "SELECT", "TEXTAREA"].includes(document.activeElement?.tagName)) return;
    event.preventDefault();
    find("search").focus();
  });
  find("browser").hidden = false;
  update();
})();
