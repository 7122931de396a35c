// The playground: pick a question, write SQL, see what it earns and why.
"use strict";
(() => {
  const { token } = JSON.parse(document.getElementById("playground-data").textContent);
  const { element } = text2sql;
  const find = (name) => document.getElementById(`play-${name}`);
  const PAUSE_MS = 200;
  let asked = "";
  let timer = 0;
  let turn = 0;

  const say = (words) => (find("status").textContent = words);

  async function list() {
    const mine = ++turn;
    const body = { role: find("role").value, database: find("database").value, words: find("words").value };
    const { found, questions } = await text2sql.ask("/api/questions", token, body);
    if (mine !== turn) return; // a later search has been asked for
    find("list").replaceChildren(
      ...questions.map((one) => {
        const option = element("option", "", `${one.text}  [${one.database}]`);
        option.value = one.id;
        return option;
      }),
    );
    const all = `${found.toLocaleString("en")} question${found === 1 ? "" : "s"}`;
    say(found > questions.length ? `the first ${questions.length} of ${all}` : all);
  }

  async function open(id) {
    const one = await text2sql.ask("/api/question", token, { id });
    asked = one.id;
    find("question").textContent = one.text;
    find("evidence").textContent = one.evidence ? `Beside it: ${one.evidence}` : "";
    find("place").textContent = `${one.id}, set ${one.role}, database ${one.database}`;
    find("gold").textContent = one.gold_sql;
    find("schema").textContent = one.schema;
    find("starts").replaceChildren(
      ...one.starts.map(({ name, text }) => {
        const button = element("button", "", name);
        button.type = "button";
        button.addEventListener("click", () => {
          find("sql").value = text;
          judge();
        });
        return button;
      }),
    );
    find("desk").hidden = false;
    find("answer").replaceChildren();
    history.replaceState(null, "", `#${encodeURIComponent(one.id)}`);
  }

  const points = (number) => (number < 0 ? "−" : "+") + Math.abs(number).toFixed(4);

  function table(className, titles, rows) {
    const made = element("table", className);
    const head = element("tr");
    titles.forEach((title) => head.append(element("th", "left", title)));
    made.append(head);
    for (const cells of rows) {
      const row = element("tr");
      cells.forEach((cell) => row.append(element("td", "left", cell)));
      made.append(row);
    }
    const scroll = element("div", "scroll");
    scroll.append(made);
    return scroll;
  }

  function answer(found) {
    const { reward, verdict, candidate, execution } = found;
    const right = found.cause === "equivalent";
    const total = reward.total === null ? "unscored" : reward.total.toPrecision(4).replace(/\.?0+$/, "");
    const headline = element("p", `verdict ${right ? "right" : "wrong"}`);
    headline.append(element("b", "", `reward ${total}`), ` under ${reward.rule}, counted as ${found.cause}`);
    const said = [];
    if (candidate.sql === null) said.push(`No candidate: ${candidate.reason}.`);
    if (candidate.answers > 1) said.push(`${candidate.answers} different answers.`);
    if (execution) said.push(`It gave ${execution.outcome} after ${execution.elapsed_s.toFixed(3)} s${execution.reason ? `: ${execution.reason}` : ""}.`);
    if (verdict) said.push(`Verdict ${verdict.match}, ${verdict.code}: ${verdict.words}.`);
    if (verdict?.flags.length) said.push(`Flags: ${verdict.flags.join(", ")}.`);
    if (reward.unscored) said.push(`Not scored: ${reward.unscored}.`);
    const items = reward.items.filter((item) => item.value || item.points);
    const evidence = table(
      "items",
      ["points", "part", "measured", "weight or cap", "what it means"],
      items.map((item) => [points(item.points), `${item.kind} ${item.name}`, String(+item.value.toFixed(4)), String(item.weight), item.why]),
    );
    const others = table(
      "items",
      ["the same under another rule", "reward"],
      found.others.map((one) => [one.rule + (one.is_bad ? ", bad on purpose" : ""), one.total === null ? "unscored" : one.total.toFixed(4)]),
    );
    find("answer").replaceChildren(headline, element("p", "", said.join(" ")), ...text2sql.results(found), evidence, others);
    const row = element("tr");
    for (const cell of [total, found.cause, find("sql").value]) row.append(element("td", "left", cell));
    find("tries").tBodies[0].prepend(row);
    find("tries").hidden = false;
  }

  async function judge() {
    const button = find("judge");
    if (button.disabled || !asked) return;
    button.disabled = true;
    find("said").textContent = "judging …";
    try {
      answer(await text2sql.ask("/api/judge", token, { id: asked, text: find("sql").value }));
      find("said").textContent = "";
    } catch (error) {
      find("said").textContent = error.message;
    }
    button.disabled = false;
  }

  const guarded = (work) => (...given) => work(...given).catch((error) => say(error.message));

  async function begin() {
    const { roles, databases } = await text2sql.ask("/api/choices", token, {});
    for (const [name, values] of [["role", roles], ["database", databases]])
      for (const value of values) find(name).append(element("option", "", value));
    await list();
    const id = decodeURIComponent(location.hash.slice(1)) || find("list").options[0]?.value;
    if (id) await open(id);
  }

  find("filters").addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(guarded(list), PAUSE_MS);
  });
  find("filters").addEventListener("submit", (event) => event.preventDefault());
  find("list").addEventListener("change", guarded(() => open(find("list").value)));
  find("form").addEventListener("submit", (event) => {
    event.preventDefault();
    judge();
  });
  find("sql").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) judge();
  });
  guarded(begin)();
})();
