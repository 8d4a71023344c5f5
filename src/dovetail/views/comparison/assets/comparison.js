"use strict";
const { byId, make, draw, Zone, Zoom, zoomBar, chart, digits, dollars, numbers, theme } = Parts;
const data = JSON.parse(byId("data").textContent);
const TONES = ["blue", "orange", "red", "green", "pink", "sky", "grey", "brown"];
const tone = (index) => TONES[index % TONES.length];
const paint = (index) => `var(--c-${tone(index)})`;
const ways = data.ways.map((way, index) => ({ ...way, index }));
const whole = (value) => String(Math.round(value));
const money = (value, between) => dollars(value, between >= 1 ? 0 : digits(between, 2));

function header() {
  byId("title").textContent = data.title;
  byId("footer").textContent = `Dovetail ${data.version}`;
  theme(byId("theme"));
  for (const way of ways) {
    const figures = make("dl");
    for (const one of data.measures.filter((measure) => data.tiles.includes(measure.key))) {
      figures.append(make("dd", {}, one.values[way.index]), make("dt", {}, one.label));
    }
    byId("ways").append(make("div", { class: "way", style: `border-top-color: ${paint(way.index)}` }, make("h3", {}, way.name), figures));
  }
}

function steps() {
  const shown = ways.filter((way) => way.steps);
  if (!shown.length) { byId("steps").remove(); return; }
  const most = Math.max(...shown.map((way) => way.steps.at[way.steps.at.length - 1]), 1);
  for (const way of shown) {
    const { names, at, pods, asked, started } = way.steps;
    const width = 1040, edge = 12, scale = (width - 2 * edge) / most, base = 12, stroke = paint(way.index);
    const svg = draw("svg", { viewBox: `0 0 ${width} ${24 + 17 * names.length}`, width: "100%", role: "img", "aria-label": `${names.length} steps with ${way.name}` });
    svg.append(draw("line", { x1: edge, x2: edge + at[at.length - 1] * scale, y1: base, y2: base, style: `stroke: ${stroke}`, "stroke-width": 4 }));
    names.forEach((name, index) => {
      const x = edge + at[index] * scale, y = base + 22 + 17 * index, late = x > width * 0.6;
      svg.append(draw("circle", { cx: x, cy: base, r: 5, style: `fill: ${stroke}` }));
      svg.append(draw("line", { x1: x, x2: x, y1: base, y2: y - 4, style: `stroke: ${stroke}`, "stroke-opacity": 0.35 }));
      const extra = asked != null && index === 1 ? ` (asked for at ${asked.toFixed(1)} s, started at ${started.toFixed(1)} s)` : "";
      svg.append(draw("text", { x: late ? x - 6 : x + 6, y, "text-anchor": late ? "end" : "start", class: "name" }, `${index + 1}. ${name}: ${at[index].toFixed(1)} s${extra}`));
    });
    byId("timelines").append(make("div", { class: "steps" }, make("h3", {}, `${way.name} `, make("small", {}, `${names.length} steps, ${pods} pods`)), make("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": `Steps with ${way.name}` }, svg)));
  }
}

function table() {
  const body = make("tbody");
  for (const one of data.measures) {
    const cells = one.values.map((value, index) => {
      const found = ways[index].differences[one.key];
      const kind = found?.sure ? (found.better ? "better" : "worse") : "muted";
      const note = found ? [make("div", { class: kind }, found.margin == null ? found.mean : `${found.mean} ± ${found.margin}`)] : [];
      return make("td", { class: "number" }, value, ...note);
    });
    body.append(make("tr", {}, make("td", {}, one.label), ...cells));
  }
  const names = ways.map((way) => make("th", { class: "number" }, way.name));
  byId("table").append(make("table", {}, make("thead", {}, make("tr", {}, make("th", {}), ...names)), body));
  byId("table-note").textContent = data.seeds.length > 1
    ? `Below each figure its difference to ${ways[0].name}, seed by seed, with the 95 % interval; in colour where that does not hold zero.`
    : "One seed says nothing about chance: more seeds give intervals.";
}

function charts() {
  const seeds = data.seeds.length > 1 ? `figures are means over seeds ${data.seeds.join(", ")}` : `seed ${data.seeds[0]}`;
  if (!data.period) {
    byId("period").textContent = `${seeds}; simulated in virtual time`;
    byId("zoom").parentElement.remove();
    for (const section of document.querySelectorAll(".charts")) section.remove();
    return;
  }
  const zone = new Zone(data.period.zone, data.period.offsetSeconds), zoom = new Zoom(data.period.start, data.period.end);
  byId("zoom").append(...zoomBar(zoom, zone));
  byId("period").textContent = `${zone.stamp(data.period.start)} to ${zone.stamp(data.period.end)} (${data.period.zone}); ${seeds}, charts show seed ${data.period.seed}; simulated in virtual time`;
  const played = ways.filter((way) => way.played);
  const show = (id, label, format, more = {}) => {
    const lines = Object.fromEntries(played.map((way, at) => [way.name, { values: data.charts[id][at], color: tone(way.index) }]));
    const made = chart(byId(`chart-${id}`), { label, times: data.charts.t, lines, format, zoom, zone, ...more });
    byId(`tools-${id}`).append(...numbers(id, made.rows));
  };
  show("pending", "Pods waiting for a node", whole, { whole: true });
  show("nodes", "Nodes", whole, { whole: true });
  show("cost", "Cost per hour", money);
  show("spent", "Spent so far", money);
}

header();
steps();
table();
charts();
document.body.dataset.rendered = "true";
