"use strict";
const { byId, make, draw, numbers, theme } = Parts;
const data = JSON.parse(byId("data").textContent);
const label = Object.fromEntries(data.measures.map((one) => [one.key, one.label]));
const unit = Object.fromEntries(data.measures.map((one) => [one.key, one.unit]));
const settingsText = (settings) => Object.entries(settings).map(([path, value]) => `${path}=${value}`).join("; ");

function chosen(point) {
  const figures = data.counted.map((key) => `${label[key]} ${point.text[key]}`).join(", ");
  byId("chosen").textContent = `${settingsText(point.settings)}: ${figures} (${point.seeds} seeds)`;
}

// With as many digits as tell two ticks apart.
function tick(key, value, between) {
  const digits = Math.max(0, Math.min(6, 1 - Math.floor(Math.log10(between)))), text = value.toFixed(digits);
  return unit[key] === "$" ? `$${text}` : unit[key] ? `${text} ${unit[key]}` : text;
}

// Drawn as wide as there is room, so that its words are never too small to read.
function picture() {
  const across = byId("across").value, up = byId("up").value;
  const width = Math.max(300, Math.min(1080, byId("picture").clientWidth)), height = width < 600 ? 320 : 420, ticks = width < 600 ? 2 : 4;
  const left = 80, bottom = 46, top = 12, right = 30;
  const range = (key) => {
    const values = data.points.map((point) => point.values[key]);
    const low = Math.min(...values), high = Math.max(...values), room = (high - low || Math.abs(high) || 1) * 0.06;
    return [low - room, high + room];
  };
  const [x0, x1] = range(across), [y0, y1] = range(up);
  const x = (value) => left + ((value - x0) / (x1 - x0)) * (width - left - right);
  const y = (value) => height - bottom - ((value - y0) / (y1 - y0)) * (height - bottom - top);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${label[up]} against ${label[across]} of ${data.points.length} combinations` });
  for (let step = 0; step <= ticks; step++) {
    const atX = x0 + ((x1 - x0) * step) / ticks, atY = y0 + ((y1 - y0) * step) / ticks;
    svg.append(draw("line", { x1: x(atX), x2: x(atX), y1: top, y2: height - bottom, style: "stroke: var(--grid)" }));
    svg.append(draw("line", { x1: left, x2: width - right, y1: y(atY), y2: y(atY), style: "stroke: var(--grid)" }));
    svg.append(draw("text", { x: x(atX), y: height - bottom + 16, "text-anchor": "middle" }, tick(across, atX, (x1 - x0) / ticks)));
    svg.append(draw("text", { x: left - 6, y: y(atY) + 4, "text-anchor": "end" }, tick(up, atY, (y1 - y0) / ticks)));
  }
  svg.append(draw("text", { x: (left + width) / 2, y: height - 8, "text-anchor": "middle", class: "name" }, label[across]));
  svg.append(draw("text", { x: 14, y: height / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${height / 2})`, class: "name" }, label[up]));
  const best = data.points.filter((point) => point.best).sort((a, b) => a.values[across] - b.values[across]);
  svg.append(draw("polyline", { points: best.map((point) => `${x(point.values[across])},${y(point.values[up])}`).join(" "), fill: "none", style: "stroke: var(--c-blue)", "stroke-opacity": 0.5 }));
  for (const point of [...data.points].sort((a, b) => a.best - b.best)) {
    const dot = draw("circle", { cx: x(point.values[across]), cy: y(point.values[up]), r: point.best ? 6 : 4, tabindex: point.best ? 0 : -1, style: point.best ? "fill: var(--c-blue)" : "fill: none; stroke: var(--muted)" }, draw("title", {}, settingsText(point.settings)));
    for (const kind of ["pointerenter", "focus", "click"]) dot.addEventListener(kind, () => chosen(point));
    svg.append(dot);
  }
  byId("picture").replaceChildren(svg);
}

function table() {
  const best = data.points.filter((point) => point.best);
  const rows = best.map((point) => make("tr", {}, ...data.counted.map((key) => make("td", { class: "number" }, point.text[key])), make("td", {}, settingsText(point.settings))));
  const head = [...data.counted.map((key) => make("th", { class: "number" }, label[key])), make("th", {}, "Settings")];
  byId("best").append(make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows)));
  byId("tools-best").append(...numbers("combinations", () => data.points.map((point) => ({ ...point.settings, best: point.best, seeds: point.seeds, ...point.values }))));
  byId("title").textContent = `${best.length} of ${data.points.length} combinations are best`;
  byId("footer").textContent = `Dovetail ${data.version}`;
}

for (const [id, at] of [["across", 0], ["up", 1]]) {
  for (const one of data.measures) byId(id).append(make("option", { value: one.key }, one.label));
  byId(id).value = data.counted[at] ?? data.counted[0];
  byId(id).addEventListener("change", picture);
}
theme(byId("theme"));
table();
picture();
addEventListener("resize", picture);
document.body.dataset.rendered = "true";
