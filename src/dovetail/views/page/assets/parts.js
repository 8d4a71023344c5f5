"use strict";
// Parts that every page shares: time in a zone, one zoom, charts, lists of any length, the timeline of nodes.
const Parts = (() => {
  const byId = (id) => document.getElementById(id);

  function make(name, attributes = {}, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
      else if (key.startsWith("aria-") || key.startsWith("data-")) element.setAttribute(key, String(value));
      else if (value !== false && value != null) element.setAttribute(key, value === true ? "" : value);
    }
    element.append(...children);
    return element;
  }

  function draw(name, attributes, ...children) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  }

  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--c-${name}`).trim() || "#888";
  const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  // Instants are Unix seconds; texts are of one time zone, clock changes included.
  class Zone {
    constructor(name, offset) {
      this.name = name;
      const parts = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
      try {
        this.format = new Intl.DateTimeFormat("en-CA", { ...parts, timeZone: name });
      } catch {
        this.format = null;  // a zone that this browser does not know
      }
      this.offset = offset;
    }

    parts(seconds) {
      if (!this.format) {
        const text = new Date((seconds + this.offset) * 1000).toISOString();
        return { date: text.slice(0, 10), time: text.slice(11, 19) };
      }
      const found = {};
      for (const part of this.format.formatToParts(new Date(seconds * 1000))) found[part.type] = part.value;
      return { date: `${found.year}-${found.month}-${found.day}`, time: `${found.hour}:${found.minute}:${found.second}` };
    }

    stamp(seconds) { const { date, time } = this.parts(seconds); return `${date} ${time}`; }

    // Seconds that the zone is ahead of UTC then.
    ahead(seconds) {
      const { date, time } = this.parts(Math.floor(seconds));
      return Math.round(Date.parse(`${date}T${time}Z`) / 1000) - Math.floor(seconds);
    }

    // Round instants of the zone between two, some `most` of them: [{t, text}], with the date where it changes.
    ticks(low, high, most) {
      const sizes = [1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 1209600, 2592000];
      const size = sizes.find((one) => (high - low) / one <= most) || sizes[sizes.length - 1] * 2;
      const ahead = this.ahead(low), found = [];
      let before = "";
      for (let at = Math.ceil((low + ahead) / size) * size - ahead; at <= high; at += size) {
        const { date, time } = this.parts(at);
        const clock = size >= 86400 ? "" : size < 60 ? time : time.slice(0, 5);
        found.push({ t: at, text: date === before ? clock : clock ? `${clock}\n${date}` : date });
        before = date;
      }
      return found;
    }
  }

  // What every chart and the timeline show of time.
  class Zoom {
    constructor(low, high) { this.whole = [low, high]; this.low = low; this.high = high; this.listeners = []; }
    on(listener) { this.listeners.push(listener); }
    set(low, high) {
      const least = Math.min(30, this.whole[1] - this.whole[0]);
      const wide = Math.min(this.whole[1] - this.whole[0], Math.max(least, high - low));
      const start = Math.max(this.whole[0], Math.min(low, this.whole[1] - wide));
      [this.low, this.high] = [start, start + wide];
      for (const listener of this.listeners) listener();
    }
    by(factor, at = (this.low + this.high) / 2) { this.set(at - (at - this.low) * factor, at + (this.high - at) * factor); }
    pan(share) { const by = (this.high - this.low) * share; this.set(this.low + by, this.high + by); }
    reset() { this.set(...this.whole); }
    get zoomed() { return this.low > this.whole[0] || this.high < this.whole[1]; }
    // Keys that mean the same everywhere; true if it was one.
    key(event) {
      const does = { "+": () => this.by(0.5), "=": () => this.by(0.5), "-": () => this.by(2), 0: () => this.reset(), PageUp: () => this.pan(-0.5), PageDown: () => this.pan(0.5) }[event.key];
      if (!does || event.ctrlKey || event.metaKey || event.altKey) return false;
      does(); event.preventDefault();
      return true;
    }
  }

  function zoomBar(zoom, zone) {
    const shown = make("output", { "aria-live": "polite" });
    const reset = make("button", { type: "button", onclick: () => zoom.reset() }, "Whole span");
    const update = () => {
      shown.textContent = `${zone.stamp(zoom.low)} to ${zone.stamp(zoom.high)} (${zone.name})`;
      reset.disabled = !zoom.zoomed;
    };
    zoom.on(update); update();
    const button = (text, label, does) => make("button", { type: "button", "aria-label": label, title: label, onclick: does }, text);
    return [shown, button("←", "Earlier", () => zoom.pan(-0.5)), button("→", "Later", () => zoom.pan(0.5)), button("+", "Zoom in", () => zoom.by(0.5)), button("−", "Zoom out", () => zoom.by(2)), reset];
  }

  const pen = document.createElement("canvas").getContext("2d");  // measures text of lists
  pen.font = "13px system-ui, \"Segoe UI\", Roboto, sans-serif";
  pen.wide = new Map();

  // A name of which the end is always seen where there is little room: ends tell names apart.
  function cut(text) {
    if (text.length < 12) return text;
    const head = make("span", {}, text.slice(0, -6)), end = text.slice(-6);
    if (!pen.wide.has(end)) pen.wide.set(end, Math.floor(pen.measureText(end).width));
    head.style.maxWidth = `calc(100% - ${pen.wide.get(end)}px)`;  // so that a name that has room is not cut
    return make("span", { class: "cut" }, head, end);
  }

  // Dollars; what is less than the last digit is said to be.
  function dollars(value, least = Math.abs(value) < 100 ? 4 : 2) {
    const size = Math.abs(value), digit = 10 ** -least;
    const text = (size && size < digit / 2 ? digit : size).toLocaleString("en-US", { minimumFractionDigits: least, maximumFractionDigits: least });
    return `${size && size < digit / 2 ? "< " : ""}${value < 0 ? "-" : ""}$${text}`;
  }

  const drawn = [];  // charts, to be drawn anew when colours change

  // lines: {name: {values, color}}; values may hold null. `times` are shared.
  // How many digits tell two numbers apart that are so far from each other.
  const digits = (between, least = 0) => (between > 0 && between < 1 ? Math.max(least, Math.ceil(-Math.log10(between) - 1e-9)) : least);

  function chart(holder, { label, times, lines, format, stacked = false, whole = false, zoom, zone }) {
    const names = Object.keys(lines);
    const sums = stacked
      ? names.map((_, index) => times.map((_, i) => names.slice(0, index + 1).reduce((sum, name) => sum + (lines[name].values[i] ?? 0), 0)))
      : names.map((name) => lines[name].values);
    const order = names.map((_, index) => index);
    if (stacked) order.reverse();
    const spoken = make("p", { class: "muted", "aria-live": "polite" });
    const box = make("div", { class: "chart", tabindex: 0, role: "img", "aria-label": `${label}. Left and right move the cursor, + and - zoom, 0 shows all.` });
    holder.append(box, spoken);
    let plot = null;
    const build = () => {
      plot?.destroy();
      const ink = variable("muted"), grid = { stroke: variable("grid") };
      const series = order.map((index) => {
        const tone = color(lines[names[index]].color);
        return {
          label: names[index], stroke: tone, width: 1.5, points: { show: false },
          fill: stacked || names.length === 1 ? mixed(tone) : undefined,
          paths: uPlot.paths.stepped({ align: 1 }),
          value: (_, value, __, i) => (i == null || value == null ? "–" : format(lines[names[index]].values[i])),
        };
      });
      plot = new uPlot({
        width: box.clientWidth || 600, height: 220, padding: [null, 30, null, null],
        cursor: { sync: { key: "time" }, y: false, drag: { x: true, y: false, setScale: false }, bind: { dblclick: () => () => { zoom.reset(); return null; } } },
        scales: { x: { time: false, range: () => [zoom.low, zoom.high] }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
        axes: [
          { stroke: ink, grid, size: 46, splits: (u) => zone.ticks(zoom.low, zoom.high, Math.max(2, u.width / 90)).map((tick) => tick.t), values: (u) => zone.ticks(zoom.low, zoom.high, Math.max(2, u.width / 90)).map((tick) => tick.text) },
          { stroke: ink, grid, size: (_, texts) => Math.max(62, 20 + 7 * Math.max(0, ...(texts || []).map((text) => text.length))), ...(whole ? { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000] } : {}), values: (_, ticks) => ticks.map((tick) => format(tick, ticks[1] - ticks[0])) },
        ],
        series: [{ label: "Time", value: (_, at) => (at == null ? "–" : zone.stamp(at)) }, ...series],
        hooks: { setSelect: [(u) => {
          if (u.select.width > 4) zoom.set(u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x"));
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        }] },
      }, [times, ...order.map((index) => sums[index])], box);
      const touch = (event) => {
        if (event.pointerType !== "touch") return;
        const area = plot.over.getBoundingClientRect();
        plot.setCursor({ left: event.clientX - area.left, top: event.clientY - area.top });
      };
      plot.over.addEventListener("pointerdown", touch);
      plot.over.addEventListener("pointermove", touch);
    };
    const say = (index) => {
      plot.setCursor({ left: plot.valToPos(times[index], "x"), top: 20 });
      spoken.textContent = `${zone.stamp(times[index])}: ${names.map((name) => `${name} ${lines[name].values[index] == null ? "–" : format(lines[name].values[index])}`).join(", ")}`;
    };
    box.addEventListener("keydown", (event) => {
      if (zoom.key(event)) return;
      const first = times.findIndex((at) => at >= zoom.low), last = times.findLastIndex((at) => at <= zoom.high);
      if (first < 0 || last < first) return;
      const at = plot.cursor.idx ?? first;
      const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: first, End: last }[event.key];
      if (to == null) return;
      say(Math.max(first, Math.min(last, to)));
      event.preventDefault();
    });
    build();
    zoom.on(() => plot.setScale("x", { min: zoom.low, max: zoom.high }));
    new ResizeObserver(() => { if (box.clientWidth && box.clientWidth !== plot.width) plot.setSize({ width: box.clientWidth, height: 220 }); }).observe(box);
    drawn.push(build);
    const rows = times.map((at, i) => ({ time: new Date(at * 1000).toISOString(), ...Object.fromEntries(names.map((name) => [name, lines[name].values[i] ?? null])) }));
    return { rows: () => rows };
  }

  // Opaque, because stacked areas are drawn over one another and see-through colours would mix.
  function mixed(tone, share = 0.7) {
    const read = (text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
    if (!/^#[0-9a-f]{6}$/i.test(tone)) return tone;
    const paper = read(variable("paper"));
    return `rgb(${read(tone).map((part, i) => Math.round(part + (paper[i] - part) * share)).join(",")})`;
  }

  function download(name, text, kind) {
    const link = make("a", { href: URL.createObjectURL(new Blob([text], { type: kind })), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  function csv(rows) {
    if (!rows.length) return "";
    const names = Object.keys(rows[0]);
    const cell = (value) => { const text = value == null ? "" : String(value); return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text; };
    return [names.join(","), ...rows.map((row) => names.map((name) => cell(row[name])).join(","))].join("\n") + "\n";
  }

  // Buttons that give the numbers behind a picture.
  function numbers(name, rows) {
    return [
      make("button", { type: "button", title: `The numbers of ${name} as CSV`, onclick: () => download(`${name}.csv`, csv(rows()), "text/csv") }, "CSV"),
      make("button", { type: "button", title: `The numbers of ${name} as JSON`, onclick: () => download(`${name}.json`, JSON.stringify(rows(), null, 1), "application/json") }, "JSON"),
    ];
  }

  const PRINTED = 40;

  // The rows of a list that are in the page, by number. While it scrolls those that stay in sight are kept.
  class Rows {
    constructor(body) { this.body = body; this.there = new Map(); }
    show(first, last, anew, row) {
      for (const [index, element] of this.there) if (anew || index < first || index >= last) { element.remove(); this.there.delete(index); }
      const more = document.createDocumentFragment();
      for (let index = first; index < last; index++) {
        if (this.there.has(index)) continue;
        const element = row(index);
        this.there.set(index, element);
        more.append(element);
      }
      this.body.append(more);
    }
  }

  // A list of any length of which only what is seen is in the page. columns: [{title, width, number, name, text(row), node(row)}].
  function list(holder, { label, columns, rows, height = 360, detail, mark }) {
    const tall = 28, grid = columns.map((column) => column.width || "1fr").join(" ");
    const cell = (column, extra = "") => ({ class: `${column.number ? "number" : ""} ${column.kind || ""} ${extra}`.trim() });
    const head = make("div", { class: "rows-head", role: "row" }, ...columns.map((column) => make("div", { ...cell(column), role: "columnheader" }, column.title)));
    const spacer = make("div", { class: "spacer" }), body = make("div", { class: "rows-body", tabindex: 0, role: "rowgroup", "aria-label": `${label}: up and down choose a row` }, spacer);
    const note = make("p", { class: "detail", "aria-live": "polite" });
    head.style.gridTemplateColumns = grid;
    holder.append(make("div", { class: "rows" }, make("div", { class: "rows-inner", role: "table", "aria-label": label }, head, body)), note);
    let shown = rows, active = -1, printing = false;
    const drawnRows = new Rows(body);
    // With `anew` rows that are there already are made again: what they say may have changed.
    const put = (anew = true) => {
      const first = printing ? 0 : Math.max(0, Math.floor(body.scrollTop / tall) - 6);
      const last = printing ? Math.min(shown.length, PRINTED) : Math.min(shown.length, first + Math.ceil(height / tall) + 12);
      drawnRows.show(first, last, anew, (index) => {
        const one = shown[index];
        const row = make("div", { class: `row ${index === active ? "active" : ""} ${mark ? mark(one) : ""}`, role: "row", "aria-rowindex": index + 2, onclick: () => choose(index) },
          ...columns.map((column) => { const text = column.text(one); return make("div", { ...cell(column), role: "cell", title: text }, column.node ? column.node(one) : column.name ? cut(text) : text); }));
        row.style.cssText = `top:${index * tall}px;height:${tall}px;grid-template-columns:${grid}`;
        return row;
      });
    };
    const size = () => { spacer.style.height = `${shown.length * tall}px`; body.style.height = `${Math.min(height, Math.max(1, shown.length) * tall + 2)}px`; };
    const choose = (index) => { active = index; note.textContent = detail && shown[index] ? detail(shown[index]) : ""; put(); };
    body.addEventListener("scroll", () => { if (!printing) put(false); }, { passive: true });
    body.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
      if (!step || event.target !== body) return;
      event.preventDefault();
      const to = Math.max(0, Math.min(shown.length - 1, active + step));
      if (to * tall < body.scrollTop || (to + 1) * tall > body.scrollTop + height) body.scrollTop = Math.max(0, to * tall - height / 2);
      choose(to);
    });
    // With `keep` the reader stays where the list was, for rows that are brought up to date.
    const set = (more, keep = false) => {
      shown = more;
      if (!keep) { active = -1; note.textContent = ""; body.scrollTop = 0; }
      size(); put();
    };
    set(rows);
    printed.push((now) => { printing = now; put(); note.textContent = now && shown.length > PRINTED ? `${shown.length} rows; the first ${PRINTED} are printed.` : ""; });
    return { set, rows: () => shown };
  }

  const printed = [];
  const tip = make("div", { class: "tip", role: "tooltip", hidden: true });

  function showHint(element, text) {
    tip.textContent = text; tip.hidden = false;
    const area = element.getBoundingClientRect();
    const left = Math.min(innerWidth - 350, Math.max(8, area.left + 120)), below = area.bottom + 6;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${below + tip.offsetHeight > innerHeight ? Math.max(4, area.top - tip.offsetHeight - 6) : below}px`;
  }
  const hush = () => { tip.hidden = true; };

  // One line per node, in groups that fold; nodes: rows of report data. choose(node) when one is chosen.
  function timeline(holder, { nodes, zoom, zone, tones, groups, describe, choose, isChosen }) {
    const tall = 20, height = 440;
    const axis = make("div", { class: "time-axis", "aria-hidden": "true" });
    const spacer = make("div", { class: "spacer" }), body = make("div", { class: "time-body" }, spacer);
    const box = make("div", { class: "time-rows" }, axis, body);
    holder.append(box);
    const folded = new Set();
    let by = Object.keys(groups)[0], lines = [], focus = 0, printing = false;
    const names = () => (box.clientWidth < 560 ? 124 : 236);
    const arrange = () => {
      const sorted = new Map();
      for (const node of nodes) { const key = groups[by](node); if (!sorted.has(key)) sorted.set(key, []); sorted.get(key).push(node); }
      lines = [];
      for (const [key, members] of [...sorted].sort((a, b) => (a[0] < b[0] ? -1 : 1))) {
        if (by !== "nothing") lines.push({ group: key, members });
        if (!folded.has(key)) for (const node of members) lines.push({ node });
      }
      focus = Math.min(focus, Math.max(0, lines.length - 1));
      spacer.style.height = `${lines.length * tall}px`;
      body.style.height = `${Math.min(height, lines.length * tall + 4)}px`;
      put();
    };
    const at = (seconds) => ((seconds - zoom.low) / (zoom.high - zoom.low)) * 100;
    const piece = (from, to, tone, opacity, kind = "") => {
      const low = Math.max(-1, at(from)), high = Math.min(101, at(to));
      if (!(high > low)) return [];
      const bar = make("i", { class: kind });
      bar.style.left = `${low}%`; bar.style.width = `${high - low}%`;
      if (tone) bar.style.background = tone;
      bar.style.opacity = opacity;
      return [bar];
    };
    const row = (index) => {
      const { group, members, node } = lines[index];
      const bars = make("span", { class: "line" });
      let element;
      if (node) {
        const tone = color(tones[node.kind] || "grey"), ready = node.ready ?? node.gone;
        bars.append(...piece(node.launched, Math.min(ready, node.gone), tone, 0.35), ...piece(ready, node.gone, tone, 1), ...(node.leaving ? piece(node.leaving, node.gone, "", 0.75, "leaving") : []));
        const text = describe(node);
        element = make("button", { type: "button", class: `time-row ${isChosen(node) ? "chosen" : ""}`, "aria-label": text, "aria-pressed": isChosen(node), onclick: () => { choose(node); }, onmouseenter: (event) => showHint(event.currentTarget, text), onmouseleave: hush, onfocus: (event) => { focus = index; showHint(event.currentTarget, text); }, onblur: hush },
          make("span", { class: "name" }, make("small", {}, names() > 150 ? node.instanceType : ""), short(node.name)), bars);
      } else {
        for (const one of members) bars.append(...piece(one.launched, one.gone, color("grey"), 0.25));
        element = make("button", { type: "button", class: "time-row group", "aria-expanded": !folded.has(group), onclick: () => { if (folded.has(group)) folded.delete(group); else folded.add(group); arrange(); }, onfocus: () => { focus = index; } },
          make("span", { class: "name" }, `${folded.has(group) ? "▸" : "▾"} ${group || "(none)"} (${members.length})`), bars);
      }
      element.style.top = `${index * tall}px`;
      element.tabIndex = index === focus ? 0 : -1;
      element.dataset.index = index;
      return element;
    };
    const drawnRows = new Rows(body);
    const rows = (anew) => {
      const first = printing ? 0 : Math.max(0, Math.floor(body.scrollTop / tall) - 8);
      const last = printing ? Math.min(lines.length, 3 * PRINTED) : Math.min(lines.length, first + height / tall + 16);
      drawnRows.show(first, last, anew, row);
    };
    const put = () => {
      box.style.setProperty("--names", `${names()}px`);
      axis.replaceChildren(...zone.ticks(zoom.low, zoom.high, Math.max(2, (box.clientWidth - names()) / 90)).map((tick) => { const mark = make("span", { class: at(tick.t) < 5 ? "first" : at(tick.t) > 97 ? "last" : "" }, tick.text); mark.style.left = `${at(tick.t)}%`; return mark; }));
      const had = document.activeElement?.dataset?.index;
      rows(true);
      if (had != null && body.contains(document.activeElement) === false) body.querySelector(`[data-index="${had}"]`)?.focus({ preventScroll: true });
    };
    body.addEventListener("scroll", () => { hush(); if (!printing) rows(false); }, { passive: true });
    body.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { hush(); return; }
      if (zoom.key(event)) return;
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      focus = Math.max(0, Math.min(lines.length - 1, focus + step));
      if (focus * tall < body.scrollTop) body.scrollTop = focus * tall;
      if ((focus + 1) * tall > body.scrollTop + body.clientHeight) body.scrollTop = (focus + 1) * tall - body.clientHeight;
      put();
      body.querySelector(`[data-index="${focus}"]`)?.focus({ preventScroll: true });
    });
    zoom.on(put);
    new ResizeObserver(put).observe(box);
    printed.push((now) => { printing = now; put(); });
    drawn.push(put);
    arrange();
    return { group(name) { by = name; folded.clear(); arrange(); }, fold(all) { folded.clear(); if (all) for (const node of nodes) folded.add(groups[by](node)); arrange(); }, put };
  }

  // The first part of a host name distinguishes nodes; the domain is the same for all.
  const short = (name) => name.split(".")[0];

  function span(seconds) {
    if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
    const round = Math.round(seconds), hours = Math.floor(round / 3600), minutes = Math.floor((round % 3600) / 60);
    return hours ? `${hours} h ${minutes} min` : `${minutes} min ${round % 60} s`;
  }

  function table(titles, rows) {
    const cell = (kind, item) => (item instanceof Node ? make(kind, {}, item) : typeof item === "object" ? make(kind, { class: "number" }, item.number) : make(kind, {}, item));
    const head = make("thead", {}, make("tr", {}, ...titles.map((title) => cell("th", title))));
    return make("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Table" }, make("table", {}, head, make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((item) => cell("td", item)))))));
  }

  // Light, dark, or as the machine has it.
  function theme(button) {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    let wanted = "auto";
    const use = (name) => { document.documentElement.dataset.theme = name; for (const build of drawn) build(); };
    const now = () => (wanted === "auto" ? (dark.matches ? "dark" : "light") : wanted);
    const label = () => { button.textContent = { auto: "Colours: as the system", light: "Colours: light", dark: "Colours: dark" }[wanted]; };
    button.addEventListener("click", () => { wanted = { auto: "light", light: "dark", dark: "auto" }[wanted]; label(); use(now()); });
    dark.addEventListener("change", () => use(now()));
    addEventListener("beforeprint", () => { use("light"); for (const print of printed) print(true); });
    addEventListener("afterprint", () => { use(now()); for (const print of printed) print(false); });
    document.documentElement.dataset.theme = now();
    label();
  }

  document.addEventListener("DOMContentLoaded", () => document.body.append(tip));
  if (document.body) document.body.append(tip);
  return { byId, make, draw, color, Zone, Zoom, zoomBar, chart, cut, digits, dollars, numbers, list, timeline, short, span, table, theme };
})();
