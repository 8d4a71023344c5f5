"use strict";
const { byId, make, digits, draw, dollars, numbers, list, span, table, theme } = Parts;
const data = JSON.parse(byId("data").textContent);
const TONES = ["grey", "blue", "sky", "green", "orange", "pink", "red", "brown"];
const money = (value) => dollars(value);
const count = (value, digits) => value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
const right = (text) => ({ number: String(text) });
const percent = (value) => `${(100 * value).toFixed(1)} %`;
const cores = (text) => (text.endsWith("m") ? String(parseFloat(text) / 1000) : text);
const memory = (text) => (text.endsWith("Mi") ? `${(parseFloat(text) / 1024).toFixed(1)}Gi` : text);
const podsOf = (row) => (Array.isArray(row.pods) ? row.pods.length : row.pods);
const namesOf = (row) => (Array.isArray(row.pods) ? row.pods.join(", ") : `${count(row.pods)} pods that no list names`);

function header() {
  byId("title").textContent = data.title;
  for (const text of data.sentences) byId("sentences").append(make("p", { class: "muted" }, text));
  for (const tile of data.tiles) byId("tiles").append(make("div", { class: `tile ${tile.bad ? "bad" : ""}` }, make("b", {}, tile.value), make("span", {}, tile.label)));
  byId("footer").textContent = `Dovetail ${data.version}`;
}

function cluster() {
  if (!data.cluster.length) return byId("cluster").remove();
  for (const text of data.cluster) byId("cluster-sentences").append(make("p", { class: "muted" }, text));
  byId("cluster-groups").append(table(["Pool or group", right("Nodes"), right("$/h"), right("$/month"), right("CPU asked"), right("Memory asked"), right("Unused")],
    data.groups.map((group) => [group.name || "(none)", right(count(group.nodes)), right(group.hourly ? count(group.hourly, 4) : "–"), right(group.hourly ? count(Math.round(group.monthly)) : "–"), right(percent(group.requestedCpu)), right(percent(group.requestedMemory)), right(group.hourly ? percent(group.unusedShare) : "–")])));
}

// A list with a search over what its rows say; its section goes where there is none.
function searched(name, rows, columns, { detail, words, label, said }) {
  if (!rows.length) return byId(name).remove();
  const id = { nodes: "node" }[name] || name;
  const shown = list(byId(`${id}-rows`), { label, rows, columns, detail });
  byId(`tools-${name}`).append(...numbers(name, () => shown.rows().map((row) => Object.fromEntries(columns.map((column) => [column.title, column.text(row)])))));
  const find = byId(`find-${name}`);
  if (!find) return;
  const text = new Map(rows.map((row) => [row, words(row).toLowerCase()]));
  const update = () => {
    const wanted = find.value.trim().toLowerCase();
    const found = wanted ? rows.filter((row) => text.get(row).includes(wanted)) : rows;
    shown.set(found);
    byId(`${id}-count`).textContent = said(found);
  };
  find.addEventListener("input", update);
  update();
}

function lists() {
  const sum = (rows, of) => rows.reduce((total, row) => total + of(row), 0);
  const [bought, left] = [sum(data.claims, (row) => row.nodes), sum(data.left, (row) => row.pods)];
  searched("nodes", data.claims, [
    { title: "NodePool", width: "1fr", text: (row) => row.pool },
    { title: "Instance type", width: "1.4fr", text: (row) => (row.others ? `${row.type} +${row.others}` : row.type) },
    { title: "Zone", width: "1fr", text: (row) => row.zone },
    { title: "Capacity", width: "1fr", text: (row) => row.capacity },
    { title: "$/h", width: "90px", number: true, text: (row) => `${row.estimated ? "~" : ""}${row.price.toFixed(4)}` },
    { title: "CPU", width: "80px", number: true, text: (row) => cores(row.cpu) },
    { title: "Memory", width: "90px", number: true, text: (row) => memory(row.memory) },
    { title: "Pods", width: "60px", number: true, text: (row) => count(podsOf(row)) },
    ...(bought === data.claims.length ? [] : [{ title: "Nodes", width: "80px", number: true, text: (row) => count(row.nodes) }]),
  ], {
    label: "Nodes to buy", detail: namesOf, words: (row) => [row.pool, row.type, row.zone, row.capacity, namesOf(row)].join(" "),
    said: (rows) => `${count(sum(rows, (row) => row.nodes))} of ${count(bought)} nodes.`,
  });
  searched("existing", data.existing, [
    { title: "Node", width: "1fr", text: (row) => row.node },
    { title: "Pods", width: "60px", number: true, text: (row) => count(podsOf(row)) },
    { title: "Names", width: "3fr", text: namesOf },
  ], { label: "Existing nodes that take pods", detail: namesOf });
  searched("left", data.left, [
    { title: "Pod", width: "1fr", name: true, text: (row) => row.pod },
    { title: "Pods", width: "80px", number: true, text: (row) => count(row.pods) },
    { title: "Why", width: "3fr", text: (row) => row.why },
  ], {
    label: "Pods left over", detail: (row) => row.why, words: (row) => `${row.pod} ${row.why}`,
    said: (rows) => `${count(sum(rows, (row) => row.pods))} of ${count(left)} pods.`,
  });
}

// The solves of the search: each with its steps, and what each phase took and added to the one before. Phases come again in
// further rounds, in their colour; a phase that had nothing to do there is left out. What was proven stays proven: a phase that
// was given up says nothing of it.
function solves() {
  const found = new Map();
  for (const told of data.steps) {
    const steps = found.get(told.solve) || [], before = steps[steps.length - 1];
    const step = before && before.left === told.left ? { ...told, bound: Math.max(before.bound, told.bound) } : told;
    const by = (key) => step[key] - (before ? before[key] : 0);
    const took = { work: by("work"), seconds: by("seconds"), columns: by("columns"), moves: by("moves") };
    const idle = before && !step.givenUp && !took.work && ["incumbent", "bound", "nodes", "left", "columns", "moves"].every((key) => step[key] === before[key]);
    if (idle) continue;
    const names = [...new Set([...steps, step].map((one) => one.phase))];
    steps.push({ ...step, from: before || null, tone: TONES[names.indexOf(step.phase) % TONES.length], took });
    found.set(step.solve, steps);
  }
  return [...found.values()];
}

const gapOf = (step) => (step.incumbent > 0 ? (step.incumbent - step.bound) / step.incumbent : 0);
const named = (step) => `${step.phase}${step.givenUp ? " (given up)" : ""}`;
const over = { work: { title: "units of work", text: (value) => count(Math.round(value)) }, seconds: { title: "seconds", text: (value) => `${+value.toPrecision(3)} s` } };

function choose(step, steps) {
  const left = step.left ? `, ${count(step.left)} ${step.left === 1 ? "pod" : "pods"} left over` : "";
  const took = `${count(step.took.work)} units${step.seconds == null ? "" : ` in ${span(step.took.seconds)}`}`;
  byId("chosen").textContent = `${named(step)}: ${took}; then ${money(step.incumbent)}/h on ${count(step.nodes)} nodes${left}, ${money(step.bound)}/h proven, gap ${percent(gapOf(step))}; ${count(step.took.columns)} columns found, ${count(step.took.moves)} moves tried${step.givenUp ? " until the time was over" : ""}.`;
  byId("phases").querySelectorAll("tbody tr").forEach((row, index) => row.classList.toggle("chosen", steps[index] === step));
}

// Round values between two, four or a few more.
function ticks(low, high) {
  const least = (high - low) / 5, ten = 10 ** Math.floor(Math.log10(least));
  const size = [1, 2, 5, 10].map((part) => part * ten).find((one) => one >= least), found = [];
  for (let at = Math.ceil(low / size); at * size <= high * (1 + 1e-9); at++) found.push(at * size);
  return found;
}

// Best plan and bound as lines over work or time, with a strip of phases; below it columns and moves so far.
function picture(steps, key) {
  const width = 1080, left = 80, right = 20, top = 12, tall = 250, strip = 18, panel = 46;
  const extra = [["columns", "columns found"], ["moves", "moves tried"]].filter(([name]) => steps.some((step) => step[name]));
  const low = top + tall, height = low + strip + 8 + extra.length * (panel + 18) + 34;
  const end = Math.max(steps[steps.length - 1][key], 1e-9);
  const values = steps.flatMap((step) => [step.incumbent, step.bound]);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const room = (most - least || most || 1) * 0.08;
  const [y0, y1] = [Math.max(0, least - room), most + room];
  const x = (value) => left + (value / end) * (width - left - right);
  const y = (value) => low - ((value - y0) / (y1 - y0 || 1)) * tall;
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Cost of the best plan and lower bound over ${over[key].title}; the table below has the numbers` });
  const line = (attributes) => svg.append(draw("line", attributes));
  const text = (attributes, said) => svg.append(draw("text", attributes, said));
  for (const at of ticks(0, end)) {
    line({ x1: x(at), x2: x(at), y1: top, y2: height - 32, style: "stroke: var(--grid)" });
    text({ x: x(at), y: height - 18, "text-anchor": x(at) > width - 60 ? "end" : "middle" }, over[key].text(at));
  }
  const levels = ticks(y0, y1);
  for (const at of levels) {
    line({ x1: left, x2: width - right, y1: y(at), y2: y(at), style: "stroke: var(--grid)" });
    text({ x: left - 6, y: y(at) + 4, "text-anchor": "end" }, dollars(at, digits(levels[1] - levels[0], 2)));
  }
  text({ x: (left + width - right) / 2, y: height - 3, "text-anchor": "middle", class: "name" }, over[key].title);
  text({ x: 14, y: top + tall / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${top + tall / 2})`, class: "name" }, "dollars an hour");
  const after = steps.slice(1);
  const path = (name, up) => `M${x(steps[0][key])},${up(steps[0][name])}` + after.map((step) => `H${x(step[key])}V${up(step[name])}`).join("");
  for (const step of after) {  // what lies between the two while a phase is at work
    const [x1, x2, y1, y2] = [x(step.from[key]), x(step[key]), y(step.from.incumbent), y(step.from.bound)];
    if (x2 > x1 && y2 > y1) svg.append(draw("rect", { x: x1, y: y1, width: x2 - x1, height: y2 - y1, style: "fill: var(--c-pale)", "fill-opacity": 0.25 }));
  }
  svg.append(draw("path", { d: path("bound", y), fill: "none", "stroke-width": 2, style: "stroke: var(--c-green)" }));
  for (const [index, step] of steps.entries()) {
    const next = steps[index + 1];
    if (next) svg.append(draw("path", { d: `M${x(step[key])},${y(step.incumbent)}H${x(next[key])}V${y(next.incumbent)}`, fill: "none", "stroke-width": 2, ...(step.left ? { "stroke-dasharray": "5 4" } : {}), style: "stroke: var(--c-blue)" }));
  }
  const chosenBy = (element, step) => {
    for (const kind of ["pointerenter", "click", "focus"]) element.addEventListener(kind, () => choose(step, steps));
    svg.append(element);
  };
  for (const step of steps) {
    const x1 = step.from ? x(step.from[key]) : left, x2 = x(step[key]);
    if (x2 - x1 < 0.5) continue;
    chosenBy(draw("rect", { class: "phase", x: x1, y: low + 6, width: x2 - x1, height: strip - 4, "fill-opacity": step.givenUp ? 0.4 : 0.9, style: `fill: var(--c-${step.tone})` }, draw("title", {}, step.phase)), step);
    if (x2 - x1 > 7 * step.phase.length) text({ x: (x1 + x2) / 2, y: low + 4, "text-anchor": "middle", class: "name" }, step.phase);
    for (const name of ["incumbent", "bound"]) chosenBy(draw("circle", { cx: x2, cy: y(step[name]), r: 4, style: `fill: var(--c-${name === "bound" ? "green" : "blue"})` }, draw("title", {}, `${step.phase}: ${money(step[name])}`)), step);
  }
  let from = low + strip + 8;
  for (const [name, said] of extra) {
    const highest = Math.max(...steps.map((step) => step[name])), floor = from + panel + 18;
    const up = (value) => floor - (value / highest) * (panel - 8);
    svg.append(draw("path", { d: `M${left},${floor}H${x(steps[0][key])}V${up(steps[0][name])}${path(name, up).replace(/^M[^H]*/, "")}V${floor}Z`, "fill-opacity": 0.35, style: "fill: var(--c-grey)" }));
    text({ x: left - 6, y: floor - panel / 2, "text-anchor": "end" }, count(highest));
    text({ x: left, y: floor - panel, class: "name" }, said);
    from = floor;
  }
  return svg;
}

function phases(steps) {
  const moved = (step, key, text) => (step.from && step[key] === step.from[key] ? text : make("b", {}, text));
  const timed = steps[0].seconds != null;
  const rows = steps.map((step) => [
    make("span", {}, Object.assign(make("i"), { style: `background: var(--c-${step.tone})` }), named(step)),
    right(count(step.took.work)), ...(timed ? [right(step.took.seconds.toFixed(2))] : []),
    moved(step, "incumbent", money(step.incumbent)), moved(step, "bound", money(step.bound)), percent(gapOf(step)),
    moved(step, "nodes", count(step.nodes)), moved(step, "left", count(step.left)), right(count(step.took.columns)), right(count(step.took.moves)),
  ]);
  return table(["Phase", right("Work"), ...(timed ? [right("Seconds")] : []), "Best plan", "Bound", "Gap", "Nodes", "Left over", right("Columns"), right("Moves")], rows);
}

function solve() {
  const all = solves();
  if (!all.length || !data.claims.length) return byId("how").remove();
  const last = (steps) => steps[steps.length - 1];
  const better = (one, other) => (last(one).left - last(other).left || last(one).incumbent - last(other).incumbent) < 0;
  const best = all.reduce((kept, steps) => (better(steps, kept) ? steps : kept));
  for (const [index, steps] of all.entries()) byId("which").append(make("option", { value: index }, `${steps[0].solve}: ${money(last(steps).incumbent)}${steps === best && all.length > 1 ? ", the best" : ""}`));
  byId("which").value = String(all.indexOf(best));
  for (const key of Object.keys(over)) if (data.steps[0][key] != null) byId("over").append(make("option", { value: key }, over[key].title));
  const update = () => {
    const steps = all[Number(byId("which").value)];
    byId("solve").replaceChildren(picture(steps, byId("over").value));
    byId("phases").replaceChildren(phases(steps));
    const rows = byId("phases").querySelectorAll("tbody tr");
    rows.forEach((row, index) => row.addEventListener("click", () => choose(steps[index], steps)));
    choose(last(steps), steps);
  };
  for (const id of ["which", "over"]) byId(id).addEventListener("change", update);
  byId("tools-solve").append(...numbers("solve", () => data.steps));
  update();
}

function proof() {
  if (!data.proof.worth.length) return byId("proof").remove();
  byId("proof-note").textContent = `${money(data.proof.bound)}/h are proven necessary, by ${data.proof.method}. Here is the share of each pod, its dual value; dovetail plan -o json has the whole proof.`;
  searched("proof", data.proof.worth, [
    { title: "Pods like", width: "2fr", name: true, text: (row) => row.pod },
    { title: "Pods", width: "80px", number: true, text: (row) => count(row.pods) },
    { title: "$/h each", width: "110px", number: true, text: (row) => row.each.toFixed(6) },
    { title: "NodePools", width: "2fr", text: (row) => row.nodePools.join(", ") },
  ], { label: "What each pod is worth in the proof" });
}

theme(byId("theme"));
header(); cluster(); lists(); solve(); proof();
byId("nav").append(...[...document.querySelectorAll("section[id] h2")].map((head) => make("a", { href: `#${head.closest("section").id}` }, head.textContent)));
document.body.dataset.rendered = "true";
