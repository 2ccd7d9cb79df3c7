// Charts: inline SVG, with a text alternative of the same content.
const round = (value) => Number(value.toPrecision(3));

function axis(width, left, height, most, unit) {
  const lines = [];
  for (let tick = 0; tick <= 4; tick++) {
    const x = left + ((width - left - 40) * tick) / 4;
    lines.push(draw("line", { x1: x, x2: x, y1: 0, y2: height - 18, stroke: "var(--line)" }));
    lines.push(draw("text", { x: x + 2, y: height - 4 }, `${round((most * tick) / 4)} ${unit}`));
  }
  return lines;
}

const picture = (width, height, label, ...content) =>
  make("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": label },
    draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
      ...content));

/** Rows of rank, seconds, event, detail: a lane for each rank, waiting framed, stores marked. */
function timelineChart(rows) {
  const lanes = [...new Set(rows.map((row) => row[0]))].sort((a, b) => a - b || (a > b ? 1 : -1));
  const most = Math.max(0.001, ...rows.map((row) => row[1]));
  const width = 720, left = 76, height = lanes.length * 26 + 26;
  const x = (seconds) => left + ((width - left - 40) * seconds) / most;
  const shapes = axis(width, left, height, most, "s");
  lanes.forEach((lane, number) => {
    const y = number * 26 + 6;
    shapes.push(draw("text", { x: 0, y: y + 12 }, `rank ${lane.length > 6 ? `${lane.slice(0, 5)}…` : lane}`));
    let started = null, entered = null;
    for (const [, seconds, event, detail] of rows.filter((row) => row[0] === lane)) {
      const title = draw("title", {}, `${event} ${seconds} s ${detail}`);
      const span = (from, fill, y0, tall) => draw("rect", {
        x: x(from), width: Math.max(2, x(seconds) - x(from)), y: y0, height: tall, fill, rx: 2,
      }, title);
      if (event === "start") started = seconds;
      else if (event === "end") shapes.push(span(started ?? 0, "var(--link)", y + 4, 8));
      else if (event === "enter") entered = seconds;
      else if (event === "leave") shapes.push(waiting(span(entered ?? 0, "none", y, 16)));
      else shapes.push(draw("path", { d: `M${x(seconds)} ${y - 4}l5 8h-10z`, fill: "var(--pass)" }, title));
    }
  });
  const label = rows.map((row) => `rank ${row[0]} ${row[2]} ${row[1]} s ${row[3]}`).join("; ");
  return picture(width, height, label, ...shapes);
}

function waiting(frame) {
  frame.setAttribute("stroke", "var(--warn)");
  frame.setAttribute("stroke-width", 2);
  return frame;
}

const bytes = (count) => count < 1e4 ? `${count} B`
  : count < 1e7 ? `${round(count / 1e3)} kB` : `${round(count / 1e6)} MB`;

/** Rows of run, bytes before, bytes after, entries, removed entries: two bars for each run. */
function sizesChart(rows) {
  const most = Math.max(1, ...rows.flatMap((row) => [row[1], row[2]]));
  const width = Math.max(320, rows.length * 110 + 20), height = 190, floor = height - 38;
  const tall = (count) => (count / most) * (floor - 34);
  const shapes = [];
  rows.forEach(([run, before, after, entries, removed], number) => {
    const x = number * 110 + 10;
    shapes.push(draw("rect", { x, y: floor - tall(before), width: 34, height: tall(before), fill: "var(--line)" }));
    shapes.push(draw("rect", { x: x + 38, y: floor - tall(after), width: 34, height: tall(after),
      fill: removed ? "var(--fail)" : "var(--link)" }));
    shapes.push(draw("text", { x: x + 38, y: floor - tall(after) - 4 }, bytes(after)));
    if (removed) shapes.push(draw("text", { x, y: 13 }, `▼ ${removed} ${say("removed")}`));
    shapes.push(draw("text", { x, y: floor + 15 }, `${say("run")} ${run}`));
    shapes.push(draw("text", { x, y: floor + 31 }, `${entries} ${say("entries")}`));
  });
  const label = rows.map((row) => `${say("run")} ${row[0]}: ${row[1]} B, ${row[2]} B, ` +
    `${row[3]} ${say("entries")}, ${row[4]} ${say("removed")}`).join("; ");
  return picture(width, height, label, ...shapes);
}

/** Largest (bar) and mean error (dot) of each operator and mode, on a logarithmic scale. */
function accuracyChart(rows) {
  const ulps = rows.flatMap((row) => [row.max_ulp, row.mean_ulp]).filter((each) => each > 0);
  const low = Math.floor(Math.log10(Math.min(...ulps))), high = Math.ceil(Math.log10(Math.max(...ulps)));
  const width = 720, left = 250, height = rows.length * 22 + 22;
  const x = (ulp) => left + ((width - left - 70) * (Math.log10(Math.max(ulp, 10 ** low)) - low)) / (high - low || 1);
  const shapes = [];
  for (let power = low; power <= high; power++) {
    shapes.push(draw("line", { x1: x(10 ** power), x2: x(10 ** power), y1: 0, y2: height - 18, stroke: "var(--line)" }));
    shapes.push(draw("text", { x: x(10 ** power) + 2, y: height - 4 }, `${round(10 ** power)} ulp`));
  }
  rows.forEach((row, number) => {
    const y = number * 22;
    shapes.push(draw("text", { x: 0, y: y + 15 }, `${row.operator} ${row.mode}`));
    shapes.push(draw("rect", { x: left, y: y + 4, width: Math.max(1, x(row.max_ulp) - left), height: 12,
      fill: row.mode.includes("precision") ? "var(--pass)" : "var(--warn)" }));
    shapes.push(draw("circle", { cx: x(row.mean_ulp), cy: y + 10, r: 4, fill: "var(--text)" }));
    shapes.push(draw("text", { x: x(row.max_ulp) + 4, y: y + 15 }, String(row.max_ulp)));
  });
  return picture(width, height, say("accuracy"), ...shapes);
}
