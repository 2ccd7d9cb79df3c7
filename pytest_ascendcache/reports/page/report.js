// The report: rules that unfold, combinations by two factors, charts.
const BROKEN = new Set(["fail", "undecided", "warn", "known deviation"]);
const PORTION = 100;
const { checks } = data;
const verdictOf = (number) => data.verdicts[checks.verdict[number]];
const severity = ["fail", "undecided", "warn", "known deviation", "pass", "not applicable"];
const rank = data.verdicts.map((each) => severity.indexOf(each));

function nameOf(number) {
  const words = checks.words[number].map((each) => data.words[each]);
  const test = data.tests[checks.test[number]];
  return test.slice(test.lastIndexOf("/") + 1) + (words.length ? `[${words.join("+")}]` : "");
}
function fullName(number) {
  const words = checks.words[number].map((each) => data.words[each]);
  return data.tests[checks.test[number]] + (words.length ? `[${words.join("+")}]` : "");
}
const worstFirst = (numbers) =>
  numbers.sort((a, b) => rank[checks.verdict[a]] - rank[checks.verdict[b]] || a - b);
const byRule = data.rules.map(() => []);
checks.rule.forEach((rule, number) => { if (rule >= 0) byRule[rule].push(number); });

function copyButton(text) {
  const button = make("button", { type: "button" }, both("copy"));
  button.addEventListener("click", async () => {
    try { await navigator.clipboard.writeText(text); } catch {
      const area = make("textarea", {}, text);  // a page opened from a file may not use the clipboard
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
      button.focus();
    }
    button.replaceChildren(both("copied"));
  });
  return button;
}

/** The evidence of a check; below its cause only what the cause does not show already. */
function story(number, belowCause = false) {
  const evidence = data.stories[number];
  const list = make("dl");
  const add = (key, ...content) => list.append(make("dt", {}, both(key)), make("dd", {}, ...content));
  // A text, or a pair of it in English and in Chinese.
  const lines = (key, texts) => add(key, ...texts.map((text) => make("pre", {}, inBoth(...[text].flat()))));
  const cell = checks.cell[number];
  if (cell >= 0) add("cell", levelsOf(cell).map(([name, level]) => `${name}=${level}`).join(" "));
  if (!evidence) { add("why", both("no_story")); return list; }
  const tell = (key, ...texts) => { if (texts[0]) add(key, make("pre", {}, inBoth(...texts))); };
  const reason = [evidence.message, evidence.message_zh].map((each) => each || "");
  if (!belowCause) tell("why", ...reason);
  else tell("also", ...reason.map((each) => each.split("\n").slice(1).join("\n")));
  for (const name of ["expected", "observed"]) tell(name, evidence[name], evidence[`${name}_zh`]);
  if (!belowCause) tell("harm_seen", evidence.harm, evidence.harm_zh);
  if (evidence.crash) add("crash", evidence.crash);
  if (evidence.deviation) lines("deviation", [evidence.deviation.reason, evidence.deviation.link].filter(Boolean));
  if (evidence.ranks) lines("ranks", evidence.ranks.map(({ rank, ending }) => ending.map((each) => `rank ${rank}: ${each}`)));
  if (evidence.findings) add("findings", findings(evidence.findings));
  for (const step of evidence.steps || []) {
    lines("request", [step.command, ...(step.told || [])]);
    if (step.changes) lines("changed", [step.changes]);
    if (step.output) lines("said", [step.output.trim()]);
  }
  if (evidence.sandbox) add("sandbox", make("code", {}, `SANDBOX=${evidence.sandbox}`));
  if (evidence.repeat && !belowCause) add("repeat", make("pre", {}, evidence.repeat), copyButton(evidence.repeat));
  return list;
}

/** The findings of an audit as a table of files. */
function findings(found) {
  const names = [...new Set(found.flatMap((each) => Object.keys(each)))].filter((name) => name !== "rule");
  const head = names.map((name) => make("th", { scope: "col" }, name));
  const body = found.map((each) => make("tr", {},
    ...names.map((name) => make("td", { class: "mono" }, String(each[name] ?? "")))));
  return make("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": say("findings") },
    make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body)));
}

function checkItem(number) {
  const head = [badge(verdictOf(number)), " ", make("code", {}, nameOf(number)), ` ${checks.ms[number]} ms`];
  if (!BROKEN.has(verdictOf(number)) && !data.stories[number]) return make("li", {}, ...head);
  const details = make("details", {}, make("summary", {}, ...head));
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(story(number));
  });
  return make("li", {}, details);
}

function checkList(numbers) {
  const sorted = worstFirst([...numbers]);
  const list = make("ul", { class: "checks" });
  const box = make("div", {}, list);
  const more = make("button", { type: "button" }, both("more"));
  let shown = 0;
  const grow = () => {
    list.append(...sorted.slice(shown, shown + PORTION).map(checkItem));
    shown += PORTION;
    more.hidden = shown >= sorted.length;
  };
  more.addEventListener("click", grow);
  box.append(more);
  grow();
  return box;
}

// --- rules ---
const rows = all("tr[data-rule]");
const found = rows.map((row) => {
  const rule = data.rules[row.dataset.rule];
  const tests = new Set(byRule[row.dataset.rule].map((each) => data.tests[checks.test[each]]));
  return [rule.id, rule.title_en, rule.title_zh, rule.statement, rule.statement_zh, ...tests].join(" ").toLowerCase();
});

function open(row, wanted) {
  const button = one("button.rule", row);
  const after = row.nextElementSibling;
  const isOpen = button.getAttribute("aria-expanded") === "true";
  if (isOpen === wanted) return;
  button.setAttribute("aria-expanded", wanted);
  if (!wanted) { after.remove(); return; }
  const number = Number(row.dataset.rule);
  const rule = data.rules[number];
  const cell = make("td", { class: "detail", colspan: 5 },
    make("p", {}, inBoth(rule.statement, rule.statement_zh)),
    make("p", { class: "quiet" }, label("source"), sourceOf(rule)),
    ...(data.notes[number] || []).map((each) => make("p", { class: "quiet" }, inBoth(...each))),
    ...(data.readings[number] || []).map((each) => make("p", { class: "quiet" }, label("reading"), inBoth(...each))),
    checkList(byRule[number]));
  row.after(make("tr", { class: "detail" }, cell));
}

function sourceOf(rule) {
  const { document: en, document_zh: zh, section, address } = rule.source;
  const place = [inBoth(`${en}: `, `${zh || en}：`), section];
  return address ? make("a", { href: address, rel: "noreferrer" }, ...place) : make("span", {}, ...place);
}

let quietShown = !data.rules.some((rule) => BROKEN.has(rule.verdict));
function showQuiet(wanted) {
  quietShown = wanted;
  const button = one("#quiet-rules");
  button.setAttribute("aria-expanded", wanted);
  button.replaceChildren(both(wanted ? "hide_quiet" : "show_quiet"));
  filterRules();
}

function filterRules() {
  const text = one("#search").value.trim().toLowerCase();
  const level = one("#level").value;
  const wanted = all("[data-verdict][aria-pressed=true]").map((each) => each.dataset.verdict);
  let shown = 0;
  rows.forEach((row, number) => {
    const rule = data.rules[row.dataset.rule];
    const fits = found[number].includes(text) && (!level || rule.level === level) &&
      (wanted.length ? wanted.includes(rule.verdict) : quietShown || text || BROKEN.has(rule.verdict));
    if (!fits) open(row, false);
    row.hidden = !fits;
    shown += fits;
  });
  for (const body of all("tbody[data-group]")) {
    body.hidden = all("tr[data-rule]", body).every((row) => row.hidden);
  }
  one("#none").hidden = shown > 0;
  one("#shown").textContent = shown;
}

function moveInRules(event) {
  const button = event.target.closest("button.rule");
  if (event.key === "Escape") {
    const detail = event.target.closest("tr.detail");
    const row = button ? button.closest("tr") : detail && detail.previousElementSibling;
    if (row) { open(row, false); one("button.rule", row).focus(); }
    return;
  }
  if (!button) return;
  const there = all("tr[data-rule]:not([hidden]) button.rule").filter((each) => each.offsetParent);
  const here = there.indexOf(button);
  const to = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: there.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  (there[to] || button).focus();
}

function startRules() {
  for (const row of rows) {
    one("button.rule", row).addEventListener("click", (event) =>
      open(row, event.currentTarget.getAttribute("aria-expanded") !== "true"));
  }
  one("#rules").addEventListener("keydown", moveInRules);
  one("#search").addEventListener("input", filterRules);
  one("#search").addEventListener("keydown", (event) => {
    if (event.key === "Escape") { event.target.value = ""; filterRules(); }
  });
  one("#level").addEventListener("change", filterRules);
  for (const tile of all("button[data-verdict]")) {
    tile.disabled = false;
    tile.addEventListener("click", () => {
      tile.setAttribute("aria-pressed", tile.getAttribute("aria-pressed") !== "true");
      filterRules();
    });
  }
  one("#quiet-rules").addEventListener("click", () => showQuiet(!quietShown));
  showQuiet(quietShown);
}

function startCauses() {
  for (const command of all(".command")) command.append(copyButton(one("pre", command).textContent));
  const byName = new Map(checks.test.map((_, number) => [fullName(number), number]));
  for (const details of all("details.cause")) {
    const number = byName.get(data.causes[details.dataset.cause]);
    const evidence = one("details.evidence", details);
    evidence.addEventListener("toggle", () => {
      if (evidence.open && number !== undefined && !one("dl", evidence)) evidence.append(story(number, true));
    });
  }
  addEventListener("beforeprint", () => { for (const each of all("details.cause")) each.open = true; });
}

// --- combinations ---
const DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz";
const levelsOf = (cell) => data.factors
  .map(([name, levels], number) => [name, levels[DIGITS.indexOf(data.cells[cell][number])]])
  .filter(([, level]) => level !== undefined);

function startCombinations() {
  if (data.factors.length < 2) { one("#combinations").hidden = true; return; }
  const names = data.factors.map(([name]) => name);
  const choice = (chosen, label) => make("select", { "data-label": label },
    ...names.map((name, number) => make("option", { value: number, selected: number === chosen ? "" : null }, name)));
  const across = choice(Math.max(0, names.indexOf("before")), "columns");
  const down = choice(Math.max(0, names.indexOf("cache_mode")), "rows");
  const filters = data.factors.map(([name, levels], factor) => make("select", { "data-factor": factor, "aria-label": name },
    make("option", { value: "", "data-text": "all" }, say("all")),
    ...levels.map((level, number) => make("option", { value: DIGITS[number] }, level))));
  one("#axes").append(make("label", {}, both("rows"), down), make("label", {}, both("columns"), across));
  one("#filters").append(...filters.map((each, number) => make("label", {}, names[number], each)));
  const update = () => heat(Number(down.value), Number(across.value), filters);
  for (const each of [across, down, ...filters]) each.addEventListener("change", update);
  update();
}

function heat(down, across, filters) {
  const wanted = filters.map((each) => each.value);
  const fits = data.cells.map((cell) => wanted.every((level, factor) => !level || cell[factor] === level));
  const fields = new Map();
  checks.cell.forEach((cell, number) => {
    if (cell < 0 || !fits[cell]) return;
    const key = data.cells[cell][down] + data.cells[cell][across];
    let field = fields.get(key);
    if (!field) fields.set(key, field = { numbers: [], broken: 0 });
    field.numbers.push(number);
    field.broken += BROKEN.has(verdictOf(number));
  });
  const [rowName, rowLevels] = data.factors[down], [columnName, columnLevels] = data.factors[across];
  const head = make("tr", {}, make("th", {}, `${rowName} \\ ${columnName}`),
    ...columnLevels.map((level) => make("th", { scope: "col" }, level)));
  const body = rowLevels.map((level, row) => make("tr", {}, make("th", { scope: "row" }, level),
    ...columnLevels.map((other, column) => heatField(fields.get(DIGITS[row] + DIGITS[column]),
      `${rowName}=${level} ${columnName}=${other}`))));
  one("#heat").replaceChildren(make("table", { class: "heat" }, make("thead", {}, head), make("tbody", {}, ...body)));
  one("#field").replaceChildren();
}

function heatField(field, label) {
  if (!field) return make("td", {}, "–");
  const share = field.broken / field.numbers.length;
  const button = make("button", { type: "button", "aria-label": `${label}: ${field.broken}/${field.numbers.length}` },
    `${field.broken}/${field.numbers.length}`);
  button.addEventListener("click", () =>
    one("#field").replaceChildren(make("h3", {}, label), checkList(field.numbers)));
  const cell = make("td", {}, button);
  if (share) cell.style.background = `rgba(var(--heat), ${0.12 + 0.4 * share})`;
  return cell;
}

// --- charts ---
function startDrawing(id, courses, chart) {
  const section = one(`#${id}`);
  if (!courses.length) { section.hidden = true; return; }
  const choice = make("select", { "data-label": "check" },
    ...courses.map(([number], place) => make("option", { value: place }, nameOf(number))));
  const place = make("div");
  const update = () => place.replaceChildren(chart(courses[choice.value][1]));
  choice.addEventListener("change", update);
  document.addEventListener("languagechange", update);
  section.append(make("div", { class: "bar" }, make("label", {}, both("check"), choice)), place);
  update();
}

function startAccuracy() {
  const section = one("#accuracy");
  if (!data.accuracy.length) { section.hidden = true; return; }
  const columns = ["operator", "mode", "max_ulp", "mean_ulp", "inputs"];
  section.append(accuracyChart(data.accuracy), make("div", { class: "scroll" }, make("table", {},
    make("thead", {}, make("tr", {}, ...columns.map((each) => make("th", { scope: "col" }, both(each))))),
    make("tbody", {}, ...data.accuracy.map((row) => make("tr", {},
      ...columns.map((each) => make("td", { class: "number" }, String(row[each])))))))));
}

settle();
for (const node of all(".scripted")) node.hidden = false;
startCauses();
startRules();
startCombinations();
startDrawing("timeline", data.timelines, timelineChart);
startDrawing("sizes", data.sizes, sizesChart);
startAccuracy();
speak(root.dataset.lang);
// Milliseconds from the request until the page can be used; ci/bench measures it.
root.dataset.ready = Math.round(performance.now());
