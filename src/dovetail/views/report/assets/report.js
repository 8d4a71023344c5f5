"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const PALETTE = { managed: "#7a8794", "on-demand": "#0072b2", spot: "#e69f00", reserved: "#009e73" };
const PHASES = { batching: "#56b4e9", blocked: "#b3261e", solve: "#0072b2", retries: "#d55e00", replanned: "#8c6d31", launch: "#e69f00", join: "#cc79a7", scheduling: "#7a8794", start: "#009e73", other: "#b0b8bf" };
const LINES = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a8794"];
const byId = (id) => document.getElementById(id);
const offset = data.period.offsetSeconds;

function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function draw(name, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function clock(seconds, withSeconds = true) {
  const text = new Date((seconds + offset) * 1000).toISOString();
  return text.slice(11, withSeconds ? 19 : 16);
}

function span(seconds) {
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  const hours = Math.floor(whole / 3600), minutes = Math.floor((whole % 3600) / 60), rest = whole % 60;
  return hours ? `${hours} h ${minutes} min` : `${minutes} min ${rest} s`;
}

// Opaque, because stacked areas are drawn over one another and see-through colours would mix.
function tint(color, share = 0.6) {
  const parts = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
  return `rgb(${parts.map((part) => Math.round(part + (255 - part) * share)).join(",")})`;
}

function chart(id, times, lines, format, stacked) {
  const holder = byId(id);
  const names = Object.keys(lines);
  let values = names.map((name) => lines[name].values);
  if (stacked) {
    values = values.map((_, index) => times.map((_, i) => values.slice(0, index + 1).reduce((sum, line) => sum + line[i], 0)));
  }
  const order = names.map((_, index) => index);
  if (stacked) order.reverse();
  const series = order.map((index) => ({
    label: names[index],
    stroke: lines[names[index]].color,
    fill: lines[names[index]].fill,
    width: 1.5,
    paths: uPlot.paths.stepped({ align: 1 }),
    points: { show: false },
    value: (_, value, __, i) => (i == null || value == null ? "–" : format(lines[names[index]].values[i])),
  }));
  const options = {
    width: holder.clientWidth, height: 220,
    cursor: { sync: { key: "time" }, y: false },
    tzDate: (stamp) => uPlot.tzDate(new Date((stamp + offset) * 1000), "Etc/UTC"),
    scales: { y: { range: (_, low, high) => [0, Math.max(high, 1e-6) * 1.08] } },
    axes: [{ stroke: "#5b6a78", grid: { stroke: "#eef1f4" }, space: 70, values: (_, ticks) => ticks.map((tick) => clock(tick, false)) }, { stroke: "#5b6a78", grid: { stroke: "#eef1f4" }, size: 64, ...(format === whole ? { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000] } : {}), values: (_, ticks) => ticks.map((tick) => format(tick)) }],
    series: [{ label: "Time", value: (_, stamp) => (stamp == null ? "–" : clock(stamp)) }, ...series],
  };
  const plot = new uPlot(options, [times, ...order.map((index) => values[index])], holder);
  addEventListener("resize", () => plot.setSize({ width: holder.clientWidth, height: 220 }));
}

const whole = (value) => String(Math.round(value));

function header() {
  byId("title").textContent = data.title;
  byId("verdict").textContent = data.verdict;
  byId("period").textContent = `${clock(data.period.start)} to ${clock(data.period.end)} (${data.period.zone}), ${data.period.region}, seed ${data.period.seed}; simulated in virtual time`;
  for (const tile of data.tiles) {
    byId("tiles").append(make("div", { class: `tile ${tile.bad ? "bad" : ""}` }, make("b", {}, tile.value), make("span", {}, tile.label)));
  }
  for (const assumption of data.assumptions) byId("assumptions").append(make("li", {}, assumption));
  byId("cost-note").textContent = data.costNote;
  byId("waiting-note").textContent = data.waiting.note;
  byId("footer").textContent = `Dovetail ${data.version} · event log ${data.eventLogSha256}`;
}

function charts() {
  const { t, lines } = data.series;
  const line = (name, color, fill) => ({ values: lines[name] || t.map(() => 0), color, fill });
  chart("chart-pods", t, { "with a node": line("pods.running", "#0072b2", tint("#0072b2", 0.8)), waiting: line("pods.pending", "#d55e00", tint("#d55e00")) }, whole, true);
  const kinds = Object.keys(lines).filter((name) => name.startsWith("nodes.")).map((name) => name.slice(6)).sort((a, b) => Object.keys(PALETTE).indexOf(a) - Object.keys(PALETTE).indexOf(b));
  chart("chart-nodes", t, Object.fromEntries(kinds.map((kind) => [kind, line(`nodes.${kind}`, PALETTE[kind] || "#000", tint(PALETTE[kind] || "#000000"))])), whole, true);
  chart("chart-cost", t, { "$/hour": line("cost", "#009e73", tint("#009e73", 0.85)) }, (value) => `$${value.toFixed(2)}`, false);
  chart("chart-use", t, { CPU: line("use.cpu", "#0072b2"), memory: line("use.memory", "#cc79a7") }, (value) => `${Math.round(value)} %`, false);
  if (lines.efficiency.some((value) => value > 0)) {
    chart("chart-efficiency", t, { "proven necessary": line("efficiency", "#009e73", tint("#009e73", 0.85)) }, (value) => `${Math.round(value)} %`, false);
  } else byId("efficiency").remove();
  const services = Object.keys(data.traffic);
  if (!services.length) { byId("traffic").remove(); return; }
  const times = [...new Set(services.flatMap((name) => data.traffic[name].map((point) => point[0])))].sort((a, b) => a - b);
  const traffic = {};
  services.forEach((name, index) => {
    let at = 0, last = 0;
    const points = data.traffic[name];
    const values = times.map((time) => { while (at < points.length && points[at][0] <= time) last = points[at++][1]; return last; });
    traffic[name] = { values, color: LINES[index % LINES.length] };
  });
  chart("chart-traffic", times, traffic, (value) => value.toFixed(0), false);
}

function histogram() {
  const buckets = data.waiting.buckets;
  const most = Math.max(1, ...buckets.map((bucket) => bucket.count));
  const width = 1040, height = 190, base = 150, step = width / Math.max(1, buckets.length);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img", "aria-label": "Distribution of waiting times" });
  buckets.forEach((bucket, index) => {
    const tall = (bucket.count / most) * 125, x = index * step;
    svg.append(draw("rect", { x: x + 3, y: base - tall, width: step - 6, height: tall, fill: "#d55e00", rx: 2 }));
    if (bucket.count) svg.append(draw("text", { x: x + step / 2, y: base - tall - 5, "text-anchor": "middle", class: "name" }, String(bucket.count)));
    svg.append(draw("text", { x: x + step / 2, y: base + 16, "text-anchor": "middle" }, bucket.label));
  });
  svg.append(draw("text", { x: width / 2, y: base + 36, "text-anchor": "middle" }, "time from creation to a node (pods)"));
  byId("histogram").append(svg);
}

function split() {
  const holder = byId("split"), phases = data.waiting.phases;
  if (!data.waiting.rows.length) return;
  const legend = make("div", {});
  for (const phase of phases) {
    const swatch = make("i", {}); swatch.style.background = PHASES[phase] || PHASES.other;
    legend.append(make("span", { class: "key" }, swatch, phase));
  }
  const body = make("tbody");
  const longest = Math.max(...data.waiting.rows.map((row) => row.total), 1e-9);
  for (const row of data.waiting.rows) {
    const bar = make("div", { class: "bar" }); bar.style.width = `${(100 * row.total) / longest}%`;
    for (const phase of phases) {
      const part = row.parts[phase] || 0;
      if (!part) continue;
      const piece = make("div", { title: `${phase} ${span(part)}` });
      piece.style.flex = String(part); piece.style.background = PHASES[phase] || PHASES.other;
      bar.append(piece);
    }
    const cell = make("td", {}, bar); cell.style.width = "38%";
    body.append(make("tr", {}, make("td", {}, row.name), make("td", { class: "number" }, span(row.total)), cell, make("td", {}, row.sentence || "")));
  }
  holder.append(legend, make("table", {}, make("thead", {}, make("tr", {}, make("th", {}, "Pods"), make("th", { class: "number" }, "Waited"), make("th", {}, "Where the time went"), make("th", {}, "What would have made it shorter"))), body));
}

function autoscalers() {
  if (!data.hpa.length) { byId("hpa").remove(); return; }
  const body = make("tbody");
  for (const row of data.hpa) body.append(make("tr", {}, make("td", {}, row.name), make("td", { class: "number" }, String(row.max)), make("td", { class: "number" }, span(row.idle)), make("td", { class: "number" }, span(row.waiting))));
  byId("hpa-rows").append(make("table", {}, make("thead", {}, make("tr", {}, make("th", {}, "HPA"), make("th", { class: "number" }, "maxReplicas"), make("th", { class: "number" }, "at its maximum, nothing pending"), make("th", { class: "number" }, "pods waiting for a node"))), body));
}

function table(titles, rows) {
  const cell = (kind, item) => make(kind, typeof item === "object" ? { class: "number" } : {}, typeof item === "object" ? item.number : item);
  const head = make("thead", {}, make("tr", {}, ...titles.map((title) => cell("th", title))));
  return make("table", {}, head, make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((item) => cell("td", item))))));
}

function disruption() {
  const { reasons, budgets, blockers, rows } = data.disruption;
  if (!rows.length && !reasons.length && !blockers.length) { byId("disruption").remove(); return; }
  const right = (text) => ({ number: String(text) });
  const dollars = (value) => right(`$${value.toFixed(3)}/h`);
  byId("disruption-reasons").append(table(
    ["Reason", right("commands"), right("nodes"), right("pods moved"), right("saved")],
    reasons.map((row) => [row.reason, right(row.commands), right(row.nodes), right(row.pods), dollars(row.saved)])));
  byId("disruption-budgets").append(table(
    ["Budgets of the NodePool", right("nodes in use at once, at most"), right("time without room for another")],
    budgets.map((row) => [row.pool, right(row.used), right(`${Math.round(row.full / 60)} min`)])));
  if (blockers.length) byId("disruption-blockers").append(table(
    ["What kept nodes", right("nodes or pools"), "First told", "Last told", "For example"],
    blockers.map((row) => [row.text, right(row.objects), clock(row.first), clock(row.last), row.example])));
  byId("disruption-rows").append(table(
    ["Time", "Node", "Pool", "Why", "How", right("pods"), right("command saved"), "Replaced by"],
    rows.map((row) => [clock(row.t), short(row.node), row.pool, row.reason, row.mode, right(row.pods), dollars(row.saved), row.replacements.join(", ")])));
}

// The first part of a host name tells nodes apart; the domain is the same for all.
function short(name) {
  const host = name.split(".")[0];
  return host.length > 22 ? `${host.slice(0, 21)}…` : host;
}

function gantt() {
  const left = 210, width = 1040, row = 17, top = 22, { start, end } = data.period;
  const x = (seconds) => left + ((seconds - start) / (end - start)) * (width - left - 4);
  const rows = data.nodes, height = top + rows.length * row + 8;
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img", "aria-label": "Node timeline" });
  const hatch = draw("pattern", { id: "hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, draw("rect", { width: 2, height: 5, fill: "#ffffffaa" }));
  svg.append(draw("defs", {}, hatch));
  const step = [300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400].find((size) => (end - start) / size <= 12) || 86400;
  for (let tick = Math.ceil((start + offset) / step) * step - offset; tick <= end; tick += step) {
    svg.append(draw("line", { x1: x(tick), x2: x(tick), y1: top - 6, y2: height, stroke: "#eef1f4" }), draw("text", { x: x(tick), y: 11, "text-anchor": "middle" }, clock(tick, false)));
  }
  rows.forEach((node, index) => {
    const y = top + index * row, color = PALETTE[node.kind] || "#000";
    const piece = (from, to, fill, opacity) => to > from && group.append(draw("rect", { x: x(from), y: y + 2, width: Math.max(1, x(to) - x(from)), height: row - 5, fill, opacity, rx: 2 }));
    const group = draw("g", {});
    const ready = node.ready ?? node.gone, leaving = node.leaving ?? node.gone;
    piece(node.launched, Math.min(ready, node.gone), color, 0.35);
    piece(ready, node.gone, color, 1);
    if (node.leaving) piece(leaving, node.gone, "url(#hatch)", 1);
    const price = node.price ? ` at ${node.estimated ? "about " : ""}$${node.price.toFixed(4)}/h${node.estimated ? " (estimated)" : ""}` : "";
    group.append(draw("title", {}, `${node.name}\n${node.instanceType} ${node.kind} in ${node.zone}${price}\nlaunched ${clock(node.launched)}${node.ready ? `, ready ${clock(node.ready)}` : ""}, gone or end ${clock(node.gone)}`));
    svg.append(group, draw("text", { x: 0, y: y + 12, class: "name" }, short(node.name)), draw("text", { x: left - 8, y: y + 12, "text-anchor": "end" }, node.instanceType));
  });
  for (const kind of Object.keys(PALETTE).filter((name) => rows.some((node) => node.kind === name))) {
    const swatch = make("i", {}); swatch.style.background = PALETTE[kind];
    byId("legend").append(make("span", { class: "key" }, swatch, kind));
  }
  byId("gantt").append(svg);
}

function events() {
  const body = byId("events").querySelector("tbody");
  const rows = data.events.map((event) => {
    const times = event.count > 1 ? ` (×${event.count})` : "";
    const row = make("tr", { class: event.type }, make("td", {}, clock(event.t)), make("td", {}, event.type), make("td", {}, event.reason), make("td", {}, event.object), make("td", {}, event.message + times));
    body.append(row);
    return { row, text: row.textContent.toLowerCase() };
  });
  const show = () => {
    const wanted = byId("filter").value.toLowerCase();
    let shown = 0;
    for (const { row, text } of rows) { row.hidden = !text.includes(wanted); shown += !row.hidden; }
    byId("event-count").textContent = `${shown} of ${rows.length}`;
  };
  byId("filter").addEventListener("input", show);
  show();
}

header(); charts(); histogram(); split(); autoscalers(); disruption(); gantt(); events();
document.body.dataset.rendered = "true";
