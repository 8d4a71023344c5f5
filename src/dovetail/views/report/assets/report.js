"use strict";
const { byId, make, draw, Zone, Zoom, zoomBar, chart, cut, digits, dollars, numbers, list, timeline, short, span, table, theme } = Parts;
const data = JSON.parse(byId("data").textContent);
const TONES = { base: "grey", "on-demand": "blue", spot: "orange", reserved: "green" };
const PHASES = { batching: "sky", blocked: "dark", solve: "blue", retries: "red", replanned: "brown", launch: "orange", join: "pink", scheduling: "grey", start: "green", other: "pale" };
const LINES = ["blue", "red", "green", "pink", "orange", "sky", "grey"];
const zone = new Zone(data.period.zone, data.period.offsetSeconds);
const zoom = new Zoom(data.period.start, data.period.end);
const whole = (value) => String(Math.round(value));
const percent = (value, between = Math.abs(value)) => `${value.toFixed(digits(between))} %`;
const right = (text) => ({ number: String(text) });

// The chosen node, and what else shows only what is its.
let chosen = null;
const listeners = [];
const nodeOf = new Map();  // name of a node or claim -> its row
for (const node of data.nodes) for (const name of [node.name, node.claim]) if (name) nodeOf.set(name, node);

function choose(node) {
  chosen = node === chosen ? null : node;
  for (const listener of listeners) listener();
}

// A name of a node or claim as a link, where it is one of ours.
function linked(name, text = short(name)) {
  const node = nodeOf.get(name);
  if (!node) return cut(text);
  return make("button", { type: "button", class: "link", title: name, onclick: (event) => { event.stopPropagation(); chosen = null; choose(node); } }, cut(text));
}

// Some names in one cell: each has its share of the width.
function linkedAll(names) {
  const links = names.flatMap((name, index) => (index ? [", ", linked(name)] : [linked(name)]));
  for (const one of links) if (one instanceof Element) one.style.maxWidth = `calc(${100 / names.length}% - ${names.length > 1 ? 6 : 0}px)`;
  return make("span", { class: "names" }, ...links);
}

function header() {
  byId("title").textContent = data.title;
  byId("verdict").textContent = data.verdict;
  byId("period").textContent = `${zone.stamp(data.period.start)} to ${zone.stamp(data.period.end)} (${data.period.zone})${data.about ? `, ${data.about}` : ""}`;
  for (const tile of data.tiles) byId("tiles").append(make("div", { class: `tile ${tile.bad ? "bad" : ""}` }, make("b", {}, tile.value), make("span", {}, tile.label)));
  for (const assumption of data.assumptions) byId("assumptions").append(make("li", {}, assumption));
  byId("cost-note").textContent = data.costNote;
  byId("waiting-note").textContent = data.waiting.note;
  if (!data.assumptions.length) byId("assumptions").closest("section").remove();
  for (const row of data.absent) byId("absent-rows").append(make("dt", {}, row.what), make("dd", { class: "muted" }, row.why));
  if (!data.absent.length) byId("absent").remove();
  byId("footer").textContent = `Dovetail ${data.version}${data.eventLogSha256 ? ` · event log ${data.eventLogSha256}` : ""}`;
  byId("zoom").append(...zoomBar(zoom, zone));
  const chip = make("span", { class: "chip" });
  byId("zoom").prepend(chip);
  listeners.push(() => {
    chip.hidden = !chosen;
    if (chosen) chip.replaceChildren(`Node ${short(chosen.name)}`, make("button", { type: "button", "aria-label": "All nodes again", onclick: () => choose(chosen) }, "×"));
  });
}

function pictured(id, label, times, lines, format, more = {}) {
  const made = chart(byId(`chart-${id}`), { label, times, lines, format, zoom, zone, ...more });
  byId(`tools-${id}`).append(...numbers(id, made.rows));
}

// A snapshot has no past: what shows one goes, true iff there is none.
function timeless() {
  if (data.past !== false) return false;
  for (const part of [...document.querySelectorAll("section.whole"), byId("tiles"), byId("nodes"), document.querySelector(".bar-top")]) part.hidden = true;
  byId("period").textContent = `As of ${zone.stamp(data.period.end)} (${data.period.zone}), ${data.about}`;
  return true;
}

function charts() {
  const { t, lines } = data.series;
  const line = (name, color) => ({ values: lines[name] || t.map(() => 0), color });
  const waiting = lines["pods.pending"] ? { waiting: line("pods.pending", "red") } : {};  // a record of costs knows none
  pictured("pods", "Pods over time", t, { "with a node": line("pods.running", "blue"), ...waiting }, whole, { stacked: true, whole: true });
  const kinds = Object.keys(lines).filter((name) => name.startsWith("nodes.")).map((name) => name.slice(6)).sort((a, b) => Object.keys(TONES).indexOf(a) - Object.keys(TONES).indexOf(b));
  pictured("nodes", "Nodes over time", t, Object.fromEntries(kinds.map((kind) => [kind, line(`nodes.${kind}`, TONES[kind] || "pale")])), whole, { stacked: true, whole: true });
  pictured("cost", "Cost per hour over time", t, { "$/hour": line("cost", "green") }, (value, between) => dollars(value, between >= 1 ? 0 : digits(between, 2)));
  pictured("use", "Utilisation over time", t, { CPU: line("use.cpu", "blue"), memory: line("use.memory", "pink") }, percent);
  if ((lines.efficiency || []).some((value) => value != null)) pictured("efficiency", "Efficiency over time", t, { "proven necessary": line("efficiency", "green") }, percent);
  else byId("efficiency").remove();
  const services = Object.keys(data.traffic);
  if (!services.length) { byId("traffic").remove(); return; }
  const times = [...new Set(services.flatMap((name) => data.traffic[name].map((point) => point[0])))].sort((a, b) => a - b);
  const traffic = {};
  services.forEach((name, index) => {
    let at = 0, last = null;
    const points = data.traffic[name];
    traffic[name] = { values: times.map((time) => { while (at < points.length && points[at][0] <= time) last = points[at++][1]; return last; }), color: LINES[index % LINES.length] };
  });
  pictured("traffic", "Traffic over time", times, traffic, (value, between) => value.toFixed(digits(between)));
}

function costs() {
  const { groups, bill, idle, causes } = data.costs;
  if (!bill) { byId("costs").remove(); return; }
  const money = (value) => right(value ? dollars(value) : "–");
  byId("costs-note").textContent = `The bill is ${dollars(bill)}; ${dollars(idle)} of it are idle: no pod bears them. Requests count, or use where more of it was measured, for as long as a pod is on its node; root volumes are part of a node.`;
  const by = byId("cost-by");
  for (const name of Object.keys(groups)) by.append(make("option", { value: name }, name));
  const share = (part) => (part > 0 && part < 0.0005 ? "< 0.1 %" : `${(100 * part).toFixed(1)} %`);
  // Columns for what was measured of use, where anything was.
  const measured = Object.values(groups).flat().some((row) => row.cpuUsed !== null || row.memoryUsed !== null);
  const part = (value) => right(value === null ? "–" : `${Math.round(100 * value)} %`);
  const used = (row) => (measured ? [part(row.cpuUsed), part(row.memoryUsed)] : []);
  const show = () => byId("cost-rows").replaceChildren(table(
    ["Name", right("CPU"), right("Memory"), right("GPU"), right("Total"), right("Share"), ...(measured ? [right("CPU used"), right("Memory used")] : [])],
    groups[by.value].map((row) => [bearer(by.value, row.name), money(row.cpu), money(row.memory), money(row.gpu), money(row.total), right(share(row.total / bill)), ...used(row)])));
  by.addEventListener("change", show);
  show();
  byId("cost-causes").append(table([right("Dollars"), right("of idle"), "Cause"], largest(causes, idle).map((row) => [money(row.dollars), right(share(row.dollars / (idle || 1))), row.text])));
  byId("tools-costs").append(...numbers("cost", () => groups[by.value]));
}

// The causes of idle that matter, and the others together: many namespaces have as many that come to nothing.
function largest(causes, idle) {
  const small = causes.filter((row) => row.dollars < 0.001 * idle);
  if (small.length < 4) return causes;
  const dollars = small.reduce((sum, row) => sum + row.dollars, 0);
  return [...causes.filter((row) => !small.includes(row)), { dollars, text: `${small.length} others of less than 0.1 % each` }];
}

// Where pods can be asked for, a name in the table leads to them.
function bearer(by, name) {
  if (!data.present || name === "idle" || name.startsWith("(") || / more$/.test(name)) return name;
  const words = by === "namespace" ? `${name}/` : by.startsWith("label:") ? `${by.slice(6)}=${name}` : name;
  return make("button", { type: "button", class: "link", "data-find": words }, name);
}

function nodes() {
  const about = (node) => {
    const price = node.price ? ` at ${node.estimated ? "about " : ""}${dollars(node.price)}/h${node.estimated ? " (estimated)" : ""}` : "";
    const ready = node.ready ? `, ready ${zone.stamp(node.ready)}` : "";
    return `${node.name}\n${node.instanceType} ${node.kind} in ${node.zone}${price}\nlaunched ${zone.stamp(node.launched)}${ready}, gone or end ${zone.stamp(node.gone)}`;
  };
  const groups = { "NodePool": (node) => node.pool || "(base)", "instance type": (node) => node.instanceType, zone: (node) => node.zone, "how it is paid": (node) => node.kind, nothing: () => "" };
  const made = timeline(byId("timeline"), { nodes: data.nodes, zoom, zone, tones: TONES, groups, describe: about, choose, isChosen: (node) => node === chosen });
  listeners.push(made.put);
  for (const name of Object.keys(groups)) byId("group").append(make("option", {}, name));
  byId("group").addEventListener("change", () => made.group(byId("group").value));
  byId("fold").addEventListener("click", () => made.fold(true));
  byId("unfold").addEventListener("click", () => made.fold(false));
  if (new Set(data.nodes.map(groups.NodePool)).size > 1 && data.nodes.length > 200) made.fold(true);
  for (const kind of Object.keys(TONES).filter((name) => data.nodes.some((node) => node.kind === name))) byId("legend").append(key(kind, TONES[kind]));
  byId("tools-timeline").append(...numbers("nodes", () => data.nodes));
}

function key(text, tone) {
  const swatch = make("i", {});
  swatch.style.background = `var(--c-${tone})`;
  return make("span", { class: "key" }, swatch, text);
}

function histogram() {
  const buckets = data.waiting.buckets, most = Math.max(1, ...buckets.map((bucket) => bucket.count));
  const width = Math.max(300, byId("histogram").clientWidth), base = 150, step = width / Math.max(1, buckets.length);
  const svg = draw("svg", { viewBox: `0 0 ${width} 190`, width: "100%", role: "img", "aria-label": `Time from creation to a node: ${buckets.map((bucket) => `${bucket.label} ${bucket.count}`).join(", ")}` });
  buckets.forEach((bucket, index) => {
    const tall = (bucket.count / most) * 125, x = index * step;
    const box = draw("rect", { x: x + 3, y: base - tall, width: Math.max(1, step - 6), height: tall, rx: 2 });
    box.style.fill = "var(--muted)";  // a colour of no phase, whose key comes next
    svg.append(box);
    if (bucket.count) svg.append(draw("text", { x: x + step / 2, y: base - tall - 5, "text-anchor": "middle", class: "name" }, String(bucket.count)));
    if (index % Math.ceil(58 / step) === 0) svg.append(draw("text", { x: x + step / 2, y: base + 16, "text-anchor": "middle" }, bucket.label));
  });
  svg.append(draw("text", { x: width / 2, y: base + 36, "text-anchor": "middle" }, "pods by the time from their creation to a node, or to the end"));
  byId("histogram").append(svg);
}

function pods() {
  const { phases, rows, texts } = data.waiting;
  if (!rows.length) { byId("pods").remove(); return; }
  histogram();
  byId("phase-legend").append(...phases.map((phase) => key(phase, PHASES[phase] || "pale")));
  const longest = rows.reduce((most, row) => Math.max(most, row.node ? row.total : 0), 0) || rows[0].total || 1;  // one that waits for ever leaves the others their bars
  const bar = (row) => {
    const line = make("div", { class: "stack" });
    line.style.width = `${Math.min(100, (100 * row.total) / longest)}%`;
    phases.forEach((phase, index) => {
      if (!row.parts[index]) return;
      const piece = make("div", { title: `${phase} ${span(row.parts[index])}` });
      piece.style.flex = String(row.parts[index]);
      piece.style.background = `var(--c-${PHASES[phase] || "pale"})`;
      line.append(piece);
    });
    return line;
  };
  const split = (row) => phases.map((phase, index) => (row.parts[index] ? `${phase} ${span(row.parts[index])}` : "")).filter(Boolean).join(", ");
  const made = list(byId("pod-rows"), {
    label: "Pods that waited", rows, height: 340,
    columns: [
      { title: "Pod", width: "minmax(150px, 2fr)", name: true, text: (row) => row.pod },
      { title: "to a node", width: "84px", number: true, text: (row) => span(row.pending) },
      { title: "to its start", width: "84px", number: true, text: (row) => span(row.total) },
      { title: "Node", width: "minmax(124px, 1fr)", text: (row) => row.node, node: (row) => (row.node ? linked(row.node) : "none") },
      { title: "Where the time went", width: "minmax(120px, 2fr)", text: split, node: bar },
      { title: "What would have made it shorter", width: "minmax(150px, 3fr)", text: (row) => texts[row.text] },
    ],
    detail: (row) => `${row.pod}: ${split(row)}. ${texts[row.text]}`,
  });
  const find = byId("find-pods");
  const show = () => {
    const wanted = find.value.toLowerCase();
    const found = rows.filter((row) => (!chosen || nodeOf.get(row.node) === chosen) && (!wanted || `${row.pod} ${row.owner} ${row.node}`.toLowerCase().includes(wanted)));
    made.set(found);
    byId("pod-count").textContent = found.length === rows.length ? "" : `${found.length} of ${rows.length} are shown.`;
  };
  find.addEventListener("input", show);
  listeners.push(show);
  byId("tools-waits").append(...numbers("waiting", () => made.rows().map((row) => ({ pod: row.pod, owner: row.owner, node: row.node, secondsToNode: row.pending, secondsToStart: row.total, ...Object.fromEntries(phases.map((phase, index) => [phase, row.parts[index] || 0])), sentence: texts[row.text] }))));
}

function autoscalers() {
  if (!data.hpa.length) { byId("hpa").remove(); return; }
  byId("hpa-rows").append(table(["HPA", right("maxReplicas"), right("at its maximum, nothing pending"), right("pods waiting for a node")], data.hpa.map((row) => [row.name, right(row.max), right(span(row.idle)), right(span(row.waiting))])));
}

// Returns what shows other rows, for a page whose decisions become more.
function decisions(rows) {
  const price = (value) => (value == null ? "" : dollars(value));
  const names = (row) => [...row.nodes, ...row.claims];
  const details = (row) => [`${zone.stamp(row.t)} ${row.what}: ${row.text}`, ...row.more, ...(row.nodes.length ? [`nodes: ${row.nodes.join(", ")}`] : []), ...(row.claims.length ? [`claims: ${row.claims.join(", ")}`] : [])].join("\n");
  const made = list(byId("decision-rows"), {
    label: "Decisions", rows, height: 340, mark: (row) => (["launch", "disruption", "would launch", "would disrupt"].includes(row.what) ? "" : "warning"),
    columns: [
      { title: "Time", width: "150px", text: (row) => zone.stamp(row.t) },
      { title: "What", width: "104px", kind: "kind", text: (row) => row.what },
      { title: "pods", width: "50px", number: true, text: (row) => (row.pods ? String(row.pods) : "") },
      { title: "$/h", width: "76px", number: true, text: (row) => price(row.cost) },
      { title: "least $/h", width: "76px", number: true, text: (row) => price(row.least) },
      { title: "saves $/h", width: "76px", number: true, text: (row) => price(row.saved) },
      { title: "Nodes", width: "minmax(110px, 1.4fr)", text: (row) => names(row).join(", "), node: (row) => linkedAll(names(row).slice(0, 3)) },
      { title: "Reason", width: "minmax(220px, 4fr)", text: (row) => row.text },
    ],
    detail: details,
  });
  const find = byId("find-decisions");
  const show = (keep) => {
    const wanted = find.value.toLowerCase();
    const found = rows.filter((row) => (!chosen || names(row).some((name) => nodeOf.get(name) === chosen)) && `${row.what} ${row.text} ${names(row).join(" ")}`.toLowerCase().includes(wanted));
    made.set(found, keep);
    byId("decision-count").textContent = found.length === rows.length ? `${rows.length} in all.` : `${found.length} of ${rows.length} are shown.`;
    byId("decisions").hidden = !rows.length;
  };
  find.addEventListener("input", () => show(false));
  listeners.push(() => show(false));
  byId("tools-decisions").append(...numbers("decisions", () => made.rows().map((row) => ({ ...row, time: new Date(row.t * 1000).toISOString(), nodes: row.nodes.join(" "), claims: row.claims.join(" "), more: row.more.join("; ") }))));
  return (others) => { rows = others; show(true); };
}

function disruption() {
  const { reasons, budgets, blockers, rows } = data.disruption;
  if (!rows.length && !reasons.length && !blockers.length) { byId("disruption").remove(); return; }
  const hourly = (value) => `${dollars(value, 3)}/h`;
  byId("disruption-reasons").append(table(["Reason", right("commands"), right("nodes"), right("pods moved"), right("saved")], reasons.map((row) => [row.reason, right(row.commands), right(row.nodes), right(row.pods), right(hourly(row.saved))])));
  byId("disruption-budgets").append(table(["Budgets of the NodePool", right("nodes in use at once, at most"), right("time without room for another")], budgets.map((row) => [row.pool, right(row.used), right(`${Math.round(row.full / 60)} min`)])));
  if (blockers.length) byId("disruption-blockers").append(table(["What kept nodes", right("nodes or pools"), right("First seen"), right("Last seen"), "For example"], blockers.map((row) => [row.text, right(row.objects), right(zone.stamp(row.first)), right(zone.stamp(row.last)), row.example])));
  const made = list(byId("disruption-rows"), {
    label: "Nodes that were ended", rows, height: 300,
    columns: [
      { title: "Time", width: "150px", text: (row) => zone.stamp(row.t) },
      { title: "Node", width: "minmax(110px, 1.4fr)", text: (row) => row.node, node: (row) => linked(row.node) },
      { title: "Pool", width: "minmax(70px, 1fr)", text: (row) => row.pool },
      { title: "Why", width: "minmax(90px, 1fr)", text: (row) => row.reason },
      { title: "How", width: "80px", text: (row) => row.mode },
      { title: "pods", width: "50px", number: true, text: (row) => String(row.pods) },
      { title: "command saved", width: "110px", number: true, text: (row) => (row.saved == null ? "as above" : hourly(row.saved)) },
      { title: "Replaced by", width: "minmax(110px, 2fr)", text: (row) => row.replacements.join(", "), node: (row) => linkedAll(row.replacements) },
    ],
    detail: (row) => `${row.node}: ${row.reason}, ${row.mode}, ${row.pods} pods${row.replacements.length ? `, replaced by ${row.replacements.join(", ")}` : ""}`,
  });
  listeners.push(() => made.set(chosen ? rows.filter((row) => nodeOf.get(row.node) === chosen || row.replacements.some((name) => nodeOf.get(name) === chosen)) : rows));
  byId("tools-disruption").append(...numbers("disruption", () => rows.map((row) => ({ ...row, time: new Date(row.t * 1000).toISOString(), replacements: row.replacements.join(" ") }))));
}

function events() {
  const rows = data.events, find = byId("find-events");
  if (!rows.length) { find.closest("section").remove(); return; }
  const podsOf = new Map();
  for (const row of data.waiting.rows) if (row.node) podsOf.set(`Pod/${row.pod}`, nodeOf.get(row.node));
  const about = (object) => { const at = object.indexOf("/"), kind = object.slice(0, at); return kind === "Node" || kind === "NodeClaim" ? nodeOf.get(object.slice(at + 1)) : podsOf.get(object); };
  const texts = rows.map((row) => `${row.type} ${row.reason} ${row.object} ${(row.also || []).join(" ")} ${row.message}`.toLowerCase());
  const isOf = (row) => about(row.object) === chosen || (row.also || []).some((object) => about(object) === chosen);
  const others = (row) => (row.also ? `\nThe same holds for ${row.also.length} more: ${row.also.slice(0, 30).join(", ")}${row.also.length > 30 ? " …" : ""}` : "");
  const message = (row) => row.message + (row.count > 1 ? ` (×${row.count})` : "");
  const made = list(byId("event-rows"), {
    label: "Events", rows, height: 420, mark: (row) => (row.type === "Warning" ? "warning" : ""),
    columns: [
      { title: "Time", width: "150px", text: (row) => zone.stamp(row.t) },
      { title: "Type", width: "64px", kind: "kind", text: (row) => row.type },
      { title: "Reason", width: "minmax(100px, 1fr)", text: (row) => row.reason },
      { title: "Object", width: "minmax(130px, 1.6fr)", text: (row) => row.object, node: (row) => linked(row.object.slice(row.object.indexOf("/") + 1), row.object) },
      { title: "Message", width: "minmax(200px, 4fr)", text: message },
    ],
    detail: (row) => `${zone.stamp(row.t)} ${row.reason} ${row.object}: ${message(row)}${others(row)}`,
  });
  const show = () => {
    const wanted = find.value.toLowerCase();
    const found = rows.filter((row, index) => (!zoom.zoomed || (row.t >= zoom.low && row.t <= zoom.high)) && (!chosen || isOf(row)) && texts[index].includes(wanted));
    made.set(found);
    byId("event-count").textContent = `${found.length} of ${rows.length} events${zoom.zoomed ? ", those of the time shown" : ""}${chosen ? `, those of ${short(chosen.name)}` : ""}`;
  };
  find.addEventListener("input", show);
  listeners.push(show);
  zoom.on(show);
  show();
  byId("tools-events").append(...numbers("events", made.rows));
}

// A page that is served looks for newer data, and shows it by itself while no one is about to use what is shown.
function follow() {
  if (!data.revision) return;
  const seconds = 15, note = make("span", { class: "chip", hidden: true, role: "status" }, "Newer data ", make("button", { type: "button", onclick: () => location.reload() }, "show"));
  byId("zoom").prepend(note);
  setInterval(async () => {
    try {
      const answer = await fetch(`revision${location.search}`);
      if (!answer.ok || (await answer.text()) === data.revision) return;
    } catch { return; }
    const typed = document.activeElement?.matches("input, select");
    if (chosen || zoom.zoomed || typed) note.hidden = false;
    else location.reload();
  }, seconds * 1000);
}

// The views that there are, by their headings; and the chosen node, so that an address can name it.
function navigation() {
  byId("nav").append(...[...document.querySelectorAll("section[id]:not([hidden]) h2")].map((head) => make("a", { href: `#${head.closest("section").id}` }, head.textContent)));
}

function address() {
  const named = () => { const node = nodeOf.get(decodeURIComponent(location.hash.replace(/^#node=/, ""))); if (location.hash.startsWith("#node=") && node && node !== chosen) { chosen = null; choose(node); } };
  listeners.push(() => { if (chosen || location.hash.startsWith("#node=")) history.replaceState(null, "", chosen ? `#node=${encodeURIComponent(chosen.name)}` : location.pathname + location.search); });
  addEventListener("hashchange", named);
  named();
}

theme(byId("theme"));
header(); timeless() || charts(); costs(); nodes(); pods(); autoscalers();
const decided = decisions(data.present ? data.present.decisions : data.decisions);
disruption(); events();
if (data.present) present();
for (const listener of listeners) listener();
navigation(); address(); follow();
document.body.dataset.rendered = "true";
