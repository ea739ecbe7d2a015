// Filters, sorts, groups and counts the nodes as the gateway does: keyOf in package api and the query of package view.
import { known, share, gib, many, used, watts, whole } from "/ui/assets/fleetrow.js";

// asked reads the URL.
export const asked = () => {
  const q = new URLSearchParams(location.search);
  const text = (name) => (q.get(name) ?? "").trim();
  const set = (name) => ["1", "true"].includes(text(name));
  const group = /^(tenant|provider|label:.+)$/s.test(text("group")) ? text("group") : "";
  const by = ["memory", "temperature"].includes(text("by")) ? text("by") : "utilization";
  return { selector: text("selector"), status: text("status"), state: text("state"), idle: set("idle"), unwell: set("unwell"), all: set("all"),
    sort: text("sort") || "attention", group, heat: text("view") === "heat", by };
};

export const fits = (n, ask) => (!ask.status || n.status === ask.status) && (!ask.state || n.state === ask.state) &&
  (!ask.idle || n.idle_since !== null) && (!ask.unwell || n.findings.length > 0);

const said = (n, value) => (n.gpus ?? []).map(value).filter(known);
const sum = (values) => values.length ? values.reduce((a, b) => a + b, 0) : null;
const mean = (values) => values.length ? sum(values) / values.length : null;
const ranks = { severe: 3, warn: 2, note: 1 };
const ownShare = (g) => g.memory_source === "unified" ? null : share(g);

const severity = (n) => ranks[n.findings[0]?.severity] ?? 0;
const attention = (n) => {
  if (n.state === "retired") return 0;
  return n.state === "unavailable" || n.status === "stale" ? ranks.severe : severity(n);
};

// keyOf is what a node is sorted by: a text, a number of which the highest comes first, or null, which comes last.
export const keyOf = (n, by) => {
  switch (by) {
    case "attention": return attention(n);
    case "tenant": return n.tenant;
    case "state": return n.state;
    case "status": return n.status;
    case "findings": return severity(n);
    case "gpus": return n.gpus ? n.gpus.length : null;
    case "utilization": return mean(said(n, (g) => g.utilization_percent));
    case "memory": return mean(said(n, ownShare));
    case "temperature": { const all = said(n, (g) => g.temperature_celsius); return all.length ? Math.max(...all) : null; }
    case "power": return sum(said(n, (g) => g.power_watts));
    case "price": return n.price_per_hour;
    case "idle": return n.idle_since ? -Date.parse(n.idle_since) : null;
    case "seen": return n.last_seen ? Date.parse(n.last_seen) : null;
  }
  return n.name;
};

const compareText = (a, b) => a < b ? -1 : a > b ? 1 : 0;
const compare = (a, b, turned) => {
  if (known(a) !== known(b)) return known(a) ? -1 : 1;
  if (!known(a)) return 0;
  const order = typeof a === "string" ? compareText(a, b) : b - a;
  return turned ? -order : order;
};

export const groupOf = (n, by) => {
  if (!by) return "";
  if (by === "tenant") return n.tenant;
  if (by === "provider") return n.provider || "–";
  return n.labels[by.slice("label:".length)] || "–";
};

// ordered gives groups of nodes, by the name of the group.
export const ordered = (nodes, ask) => {
  const turned = ask.sort.startsWith("-");
  const by = turned ? ask.sort.slice(1) : ask.sort;
  const rows = [];
  for (const n of nodes) if (fits(n, ask)) rows.push(n);
  rows.sort((a, b) => compareText(a.name, b.name) || compareText(a.id, b.id));
  if (by !== "name" || turned) {
    const keys = new Map(rows.map((n) => [n, keyOf(n, by)]));
    rows.sort((a, b) => compare(keys.get(a), keys.get(b), turned));
  }
  const groups = new Map();
  for (const n of rows) {
    const name = groupOf(n, ask.group);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(n);
  }
  return [...groups].sort((a, b) => compareText(a[0], b[0])).map(([name, list]) => ({ name, nodes: list }));
};

// count counts as glance.Count does.
export const count = (nodes) => {
  const t = { nodes: 0, statuses: {}, unheard: 0, states: {}, idleNodes: 0, unwell: 0, expected: 0, seen: 0, unknown: 0, idle: 0, used: 0, memory: 0,
    power: null, price: 0, priced: 0, said: 0, busy: 0 };
  const add = (where, word) => { where[word] = (where[word] ?? 0) + 1; };
  for (const n of nodes) {
    t.nodes++;
    add(t.states, n.state);
    if (n.state === "retired") continue;
    add(t.statuses, n.status);
    if (n.unheard) t.unheard++;
    if (n.findings.length) t.unwell++;
    if (n.idle_since) t.idleNodes++;
    t.expected += n.gpus_expected ?? 0;
    if (known(n.price_per_hour)) {
      t.price += n.down_cost ?? n.price_per_hour;
      t.priced++;
    }
    if (!n.fresh) {
      t.unknown++;
      continue;
    }
    for (const g of n.gpus ?? []) {
      t.seen++;
      if (g.idle_since) t.idle++;
      if (known(g.memory_used_mib) && known(g.memory_total_mib) && g.memory_source !== "unified") {
        t.used += g.memory_used_mib;
        t.memory += g.memory_total_mib;
      }
      if (known(g.power_watts)) t.power = (t.power ?? 0) + g.power_watts;
      if (known(g.utilization_percent)) {
        t.said++;
        t.busy += g.utilization_percent;
      }
    }
  }
  return t;
};

const money = (v) => v.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });

// tiles are as TilesOf in picture/tiles.go makes them: name to figure, text and whether it is bad.
export const tiles = (t) => {
  const by = { ...t.statuses, online: (t.statuses.online ?? 0) - t.unheard, "online?": t.unheard };
  const statuses = ["online", "online?", "stale", "pending"].filter((s) => by[s]).map((s) => many(by[s]) + " " + s);
  const unread = t.seen === 0 && t.unknown > 0;
  return {
    nodes: [many(t.nodes), ["nodes", ...statuses].join(" · "), (t.statuses.stale ?? 0) > 0],
    gpus: [(unread ? "–" : many(t.seen)) + (t.expected ? " of " + many(t.expected) : ""), t.unknown ? "GPUs seen; nodes without a reading: " +
      many(t.unknown) : t.expected ? "GPUs seen of those expected" : "GPUs seen", t.seen < t.expected],
    utilization: [t.said ? whole(t.busy / t.said) + " %" : "–", "mean utilisation", false],
    memory: t.memory ? [used(t.used, t.memory), "of " + gib(t.memory) + " GPU memory", false] : ["–", "GPU memory used", false],
    power: [known(t.power) ? watts(t.power) : "–", "power of the GPUs", false],
    idle: [unread ? "–" : many(t.idle), "idle GPUs", false],
    price: t.priced ? [money(t.price), "per hour; nodes with a price: " + many(t.priced), false] : ["–", "price per hour", false],
  };
};

