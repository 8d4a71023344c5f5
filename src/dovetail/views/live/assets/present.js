"use strict";
// What is so now, above what was: the controller's own page has it. Lists are brought up to date where they are.
function present() {
  const EVERY = 10;  // seconds between two questions
  let now = data.present;
  const section = (id, title, text, ...more) => make("section", { id }, make("div", { class: "head" }, make("h2", {}, title), make("span", { class: "tools", id: `tools-${id}` }, ...more)), make("p", { class: "muted" }, text), make("p", { class: "muted", id: `${id}-count`, "aria-live": "polite" }), make("div", { id: `${id}-rows` }));
  const search = (id, label, placeholder) => make("input", { id, type: "search", placeholder, "aria-label": label });
  const age = (seconds) => (seconds ? span(Math.max(0, now.at - seconds)) : "");
  const named = (row) => [row.node, row.name, row.claim].some((name) => name && nodeOf.get(name) === chosen);
  const tiles = make("section", { class: "tiles", "aria-label": "Now" });
  const when = make("p", { class: "lead now", role: "status" });
  byId("tiles").before(
    when, tiles,
    section("pending", "Pods that wait now", "Pods without a node, the oldest first: what each asks for, and why it waits.", search("find-pending", "Search pods that wait", "pod, owner or words")),
    section("coming", "Claims without a node", "What was bought and has not joined: what each waits for."),
    section("nodes-now", "Nodes now", "What fills each node, what it costs, and why it stays. Choose one to see its pods, decisions and events alone.", search("find-nodes", "Search nodes", "name, pool, type, zone or words")),
    section("kept", "What keeps nodes", "Why nodes are not taken away now, by what is asked first; a command that was refused or given up is among the decisions."),
    section("next", "What comes next", "Nodes on their way out, drift, age, what is looked at for consolidation, and what budgets allow now."),
    section("pods-now", "Pods now", "All pods, or those of the chosen node; words are looked for in names, owners, nodes and labels (team=shop).", search("find-now", "Search all pods", "words, or label=value")),
  );
  for (const node of now.nodes) for (const name of [node.name, node.claim]) if (name && !nodeOf.has(name)) nodeOf.set(name, node);

  const stays = (row) => row.stays.map((index) => now.stays[index]);
  const first = (row) => (row.stays.length ? stays(row)[0] + (row.stays.length > 1 ? ` (+${row.stays.length - 1})` : "") : "may go, if that saves");
  const price = (row) => (row.price == null ? "unknown" : dollars(row.price));
  const podColumns = [
    { title: "Pod", width: "minmax(150px, 2fr)", name: true, text: (row) => row.pod },
    { title: "Part of", width: "minmax(100px, 1.2fr)", name: true, text: (row) => row.owner },
    { title: "since", width: "96px", number: true, text: (row) => age(row.since) },
    { title: "Asks for", width: "minmax(120px, 1.2fr)", text: (row) => row.asks },
  ];
  // id, what it says of a row, its columns, its rows, and whether a row is of the chosen node.
  const lists = [
    {
      id: "pending", label: "Pods that wait now", rows: () => now.pending, find: "find-pending", total: () => now.pendingTotal,
      columns: [...podColumns, { title: "Why", width: "minmax(200px, 4fr)", text: (row) => row.why }],
      detail: (row) => `${row.pod} (${row.asks}) waits for ${age(row.since)}: ${row.why}`,
    },
    {
      id: "coming", label: "Claims without a node", rows: () => now.coming, total: () => now.coming.length,
      columns: [
        { title: "Claim", width: "minmax(120px, 1.5fr)", text: (row) => row.claim, node: (row) => linked(row.claim, row.claim) },
        { title: "Pool", width: "minmax(80px, 1fr)", text: (row) => row.pool },
        { title: "Type", width: "110px", text: (row) => row.type },
        { title: "since", width: "96px", number: true, text: (row) => age(row.since) },
        { title: "Waits for", width: "minmax(110px, 1fr)", text: (row) => row.stage },
        { title: "Message", width: "minmax(200px, 3fr)", text: (row) => row.message },
      ],
      detail: (row) => `${row.claim}: ${row.stage} ${row.message}`,
    },
    {
      id: "nodes-now", label: "Nodes now", rows: () => now.nodes, find: "find-nodes", total: () => now.nodes.length, ofNode: true,
      columns: [
        { title: "Node", width: "minmax(120px, 1.6fr)", text: (row) => row.name, node: (row) => linked(row.name) },
        { title: "Pool", width: "minmax(70px, 1fr)", text: (row) => row.pool },
        { title: "Type", width: "110px", text: (row) => row.type },
        { title: "Zone", width: "minmax(80px, 0.8fr)", text: (row) => row.zone },
        { title: "Kind", width: "80px", text: (row) => row.kind },
        { title: "$/h", width: "70px", number: true, text: price },
        { title: "CPU %", width: "56px", number: true, text: (row) => row.cpu.toFixed(0) },
        { title: "mem. %", width: "66px", number: true, text: (row) => row.memory.toFixed(0) },
        { title: "pods", width: "46px", number: true, text: (row) => String(row.pods) },
        { title: "State", width: "86px", text: (row) => (row.state === "-" ? row.ready : row.state) },
        { title: "Why it stays", width: "minmax(160px, 3fr)", text: first },
      ],
      detail: (row) => `${row.name} (${row.claim || "no claim"}): ${row.type} ${row.kind} in ${row.zone}, ${price(row)}/h, for ${age(row.created)}, ${row.ready}.\nWhy it stays: ${stays(row).join("; ") || "nothing forbids that it goes, if that saves"}`,
    },
    {
      id: "next", label: "What comes next", rows: () => now.next, total: () => now.next.length,
      columns: [
        { title: "What", width: "110px", text: (row) => row.what },
        { title: "About", width: "minmax(120px, 1.5fr)", text: (row) => row.about, node: (row) => linked(row.about, row.about) },
        { title: "When", width: "150px", text: (row) => (row.at ? zone.stamp(row.at) : "now") },
        { title: "What it is", width: "minmax(200px, 4fr)", text: (row) => row.text },
      ],
      detail: (row) => `${row.what} ${row.about}: ${row.text}`,
    },
  ];
  const written = (one, rows) => rows.map((row) => ({ ...Object.fromEntries(one.columns.map((column) => [column.title, column.text(row)])) }));
  for (const one of lists) {
    one.made = list(byId(`${one.id}-rows`), { label: one.label, rows: [], columns: one.columns, detail: one.detail, height: 300 });
    const find = one.find && byId(one.find);
    one.show = (keep) => {
      const wanted = find ? find.value.toLowerCase().split(" ").filter(Boolean) : [], all = one.rows();
      const found = all.filter((row) => (!one.ofNode || !chosen || named(row)) && (!wanted.length || wanted.every((word) => one.columns.some((column) => column.text(row).toLowerCase().includes(word)))));
      one.made.set(found, keep);
      byId(`${one.id}-count`).textContent = found.length === one.total() ? `${found.length} in all.` : `${found.length} of ${one.total()} are shown.`;
      byId(one.id).hidden = !all.length;
    };
    find?.addEventListener("input", () => one.show(false));
    byId(`tools-${one.id}`).append(...numbers(one.id, () => written(one, one.made.rows())));
    if (one.ofNode) listeners.push(() => one.show(false));
    one.show(false);
  }

  const kept = () => { byId("kept-rows").replaceChildren(table([right("nodes"), "What keeps them", "For example"], now.kept.map((row) => [right(row.nodes), row.text, make("span", {}, linked(row.example))]))); byId("kept").hidden = !now.kept.length; };
  byId("tools-kept").append(...numbers("kept", () => now.kept));
  kept();

  // Pods are many: they are asked for when someone looks for them.
  const pods = list(byId("pods-now-rows"), {
    label: "Pods now", rows: [], height: 300,
    columns: [...podColumns.slice(0, 2), { title: "Node", width: "minmax(100px, 1.2fr)", text: (row) => row.node, node: (row) => (row.node ? linked(row.node) : "none") }, { title: "Phase", width: "80px", text: (row) => row.phase }, ...podColumns.slice(2)],
    detail: (row) => `${row.pod} (${row.owner || "no owner"}) on ${row.node || "no node"}: ${row.phase}, ${row.asks}`,
  });
  byId("tools-pods-now").append(...numbers("pods", pods.rows));
  let asked = 0;
  const ask = async (keep) => {
    const turn = ++asked, words = byId("find-now").value.trim();
    const query = new URLSearchParams({ ...(chosen ? { node: chosen.name } : {}), ...(words ? { find: words } : {}) });
    const found = await answer(`pods.json?${query}`);
    if (!found || turn !== asked) return;
    pods.set(found.rows, keep);
    byId("pods-now-count").textContent = found.total === found.rows.length ? `${found.total} pods.` : `${found.rows.length} of ${found.total} pods are shown: search for more words.`;
  };
  let typing = 0;
  byId("find-now").addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(() => ask(false), 200); });
  listeners.push(() => ask(false));

  // A name in the table of costs leads to the pods that bear it.
  byId("cost-rows")?.addEventListener("click", (event) => {
    const name = event.target.closest("button.link")?.dataset.find;
    if (!name) return;
    byId("find-now").value = name;
    if (chosen) choose(chosen); else ask(false);
    byId("pods-now").scrollIntoView();
    byId("find-now").focus();
  });

  async function answer(path) {
    try {
      const got = await fetch(path);
      return got.ok ? await got.json() : null;
    } catch { return null; }
  }
  const head = () => {
    tiles.replaceChildren(...now.tiles.map((tile) => make("div", { class: `tile ${tile.bad ? "bad" : ""}` }, make("b", {}, tile.value), make("span", {}, tile.label))));
    when.textContent = now.known ? `Now: ${zone.stamp(now.at)}` : "This replica does not lead, or has just begun to: it has seen nothing of the cluster yet.";
  };
  const busy = () => document.activeElement?.closest(".rows-body .row");  // a link in a row has the focus
  head();
  setInterval(async () => {
    if (document.hidden || busy()) return;
    const next = await answer("present.json");
    if (!next || busy()) return;
    now = next;
    for (const node of now.nodes) for (const name of [node.name, node.claim]) if (name && !nodeOf.has(name)) nodeOf.set(name, node);
    head(); kept();
    for (const one of lists) one.show(true);
    decided(now.decisions);
    if (chosen || byId("find-now").value) ask(true);
  }, EVERY * 1000);
}
