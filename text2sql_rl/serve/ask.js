// What both served pages do: ask the server, and put results on the page.
// What models and databases wrote reaches the page as text nodes only, never as markup.
"use strict";
const text2sql = (() => {
  const element = (tag, className, text) => {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };

  async function ask(place, token, body) {
    const headers = { "Content-Type": "application/json", "X-Text2sql-Token": token };
    let answer;
    try {
      answer = await fetch(place, { method: "POST", headers, body: JSON.stringify(body) });
    } catch {
      throw new Error("The server does not answer. Is it still running?");
    }
    const content = await answer.json();
    if (!answer.ok) throw new Error(content.error);
    return content;
  }

  function resultTable(title, found, none) {
    const box = element("div", "result");
    box.append(element("p", "soft", title));
    if (!found) {
      box.append(element("p", "", none));
      return box;
    }
    const scroll = element("div", "scroll");
    const table = element("table", "rows");
    const head = element("tr");
    for (const name of found.columns) head.append(element("th", "left", name));
    table.append(head);
    found.rows.forEach((cells, number) => {
      const row = element("tr", found.lacking[number] ? "lacking" : "");
      for (const cell of cells) row.append(element("td", cell === null ? "left soft" : "left", cell ?? "NULL"));
      table.append(row);
    });
    scroll.append(table);
    box.append(scroll);
    const rows = found.rows_in_all.toLocaleString("en");
    const cut = found.rows.length < found.rows_in_all || found.columns.length < found.columns_in_all;
    const shown = `; ${found.rows.length} of them and ${found.columns.length} of ${found.columns_in_all} columns are shown`;
    box.append(element("p", "soft", `${rows} ${found.rows_in_all === 1 ? "row" : "rows"}${cut ? shown : ""}`));
    return box;
  }

  function results(found) {
    const both = element("div", "results");
    const why = found.execution ? found.execution.reason || found.execution.outcome : "Nothing ran.";
    both.append(
      resultTable("what the gold gives", found.gold, "The gold gives no rows to compare with."),
      resultTable("what the candidate gives", found.rows, why),
    );
    const where = element("p", "soft", `On ${found.where}. Marked: rows that the other side lacks, as shown here.`);
    return [where, both];
  }

  return { ask, element, results };
})();
