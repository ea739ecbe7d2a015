// The fleet, live: values change in place, and the order only when the person asks.
import { many } from "/ui/assets/fleetrow.js";
import { asked, count, fits, groupOf, keyOf, ordered, tiles } from "/ui/assets/fleetorder.js";
import { follow } from "/ui/assets/fleetlive.js";
import { makeTable } from "/ui/assets/fleettable.js";
import { makeHeat } from "/ui/assets/fleetheat.js";

const root = document.getElementById("fleet");
const table = document.getElementById("rows");
const map = document.getElementById("heat");
const news = document.getElementById("news");
const lost = document.getElementById("lost");
const picked = new Set(); // ids: a name may be another machine's by now
const view = table ? makeTable(table, { write: "write" in root.dataset, picked }) : map && makeHeat(map);
let ask = asked();
let nodes = new Map();
let shown = new Map(); // id to what the node was placed by
const moved = new Set(); // ids whose place is another by now
let loaded = false;

const place = (n) => {
  const by = ask.sort.replace(/^-/, "");
  return groupOf(n, ask.group) + "\n" + keyOf(n, by);
};

const show = () => {
  const groups = ordered(nodes.values(), ask);
  shown = new Map(groups.flatMap((g) => g.nodes.map((n) => [n.id, place(n)])));
  moved.clear();
  view.draw(groups, (id) => nodes.get(id), ask);
  const none = document.getElementById("none");
  if (none) none.hidden = shown.size > 0;
  document.getElementById("pages").hidden = true; // all nodes are here
  tell();
};

const tell = () => {
  news.hidden = moved.size === 0;
  const text = many(moved.size) + (moved.size === 1 ? " change: " : " changes: ") + (ask.sort === "name" ? "show" : "sort again");
  if (!news.hidden && news.firstChild.textContent !== text) news.firstChild.textContent = text;
};

let due = 0;
const figures = () => {
  due = 0;
  const rows = [];
  for (const n of nodes.values()) if (fits(n, ask)) rows.push(n);
  const sum = count(rows);
  const drawn = tiles(sum);
  for (const tile of document.querySelectorAll("[data-tile]")) {
    const [big, text, bad] = drawn[tile.dataset.tile];
    tile.firstChild.textContent = big;
    tile.firstChild.className = bad ? "bad" : "";
    tile.lastChild.textContent = text;
  }
  document.querySelector("[data-total]").textContent = many(rows.length);
  const whole = rows.length === nodes.size ? sum : count(nodes.values());
  const numbers = { "status=online": whole.statuses.online, "status=stale": whole.statuses.stale, "state=unavailable": whole.states.unavailable,
    "unwell=true": whole.unwell };
  for (const chip of document.querySelectorAll(".tools a[data-set]")) {
    const number = chip.querySelector("span");
    if (number) number.textContent = many(numbers[chip.dataset.set] ?? 0);
  }
};
const figuresSoon = () => { due ||= setTimeout(figures, 1000); };

const changed = (list, gone) => {
  for (const n of list) {
    nodes.set(n.id, n);
    const was = shown.get(n.id);
    const fitting = fits(n, ask);
    if (fitting === (was !== undefined) && (!fitting || was === place(n))) moved.delete(n.id);
    else moved.add(n.id);
    view.patch(n);
  }
  for (const id of gone) {
    nodes.delete(id);
    view.gone(id);
    if (shown.has(id)) moved.add(id);
    else moved.delete(id);
  }
  if (shown.size === 0 && moved.size > 0) show();
  tell();
  figuresSoon();
};

const groupChoices = () => {
  const choose = document.querySelector("#ask select[name=group]");
  const keys = new Set();
  for (const n of nodes.values()) for (const key of Object.keys(n.labels)) keys.add(key);
  const there = new Set([...choose.options].map((o) => o.value));
  for (const key of [...keys].sort()) if (!there.has("label:" + key)) choose.append(new Option("label " + key, "label:" + key));
};

const query = () => {
  const q = new URLSearchParams();
  if (ask.selector) q.set("selector", ask.selector);
  if (ask.all || ask.state === "retired") q.set("all", "true");
  return q.toString();
};

let since = null;
const live = {
  loaded(all) {
    if (!view) { // the page of an empty fleet
      if (all.size) location.reload();
      return;
    }
    const gone = [...shown.keys()].filter((id) => !all.has(id));
    nodes = all;
    if (loaded) changed([...all.values()], gone);
    else show();
    loaded = true;
    root.dataset.live = "yes";
    groupChoices();
    figures();
  },
  changed(list, gone) {
    if (view) changed(list, gone);
    else if (list.length) location.reload();
  },
  found() {
    since = null;
    lost.hidden = true;
  },
  lost(error) {
    since ??= new Date();
    delete root.dataset.live;
    let text = "Live values are lost since " + musterClock(since) + ". Trying again.";
    if (error?.status === 401) text = "You are logged out since " + musterClock(since) + ". Log in to see what is now: ";
    else if (error) text += " The gateway says: " + error.message;
    if (lost.textContent !== text) lost.textContent = text;
    if (error?.status === 401) lost.append(Object.assign(document.createElement("a"), { href: location.href, textContent: "Log in" }));
    lost.hidden = false;
  },
};

// go shows the page for another URL without loading it, where the nodes are the same.
const go = (url) => {
  history.pushState(null, "", url);
  turn();
};
const turn = () => {
  const before = ask;
  ask = asked();
  if (before.selector !== ask.selector || before.all !== ask.all || before.heat !== ask.heat) {
    location.reload();
    return;
  }
  marksOfChoice();
  if (loaded) {
    show();
    figures();
  } else location.reload();
};
const urlWith = (name, value) => {
  const url = new URL(location.href);
  for (const gone of ["cursor", "rows"]) url.searchParams.delete(gone);
  if (value) url.searchParams.set(name, value);
  else url.searchParams.delete(name);
  return url;
};
const isText = (by) => ["name", "tenant", "state", "status"].includes(by);
const marksOfChoice = () => {
  const q = new URLSearchParams(location.search);
  for (const chip of document.querySelectorAll("a[data-set]")) {
    const [name, value] = chip.dataset.set.split("=");
    const on = (name === "by" ? ask.by : q.get(name)) === value;
    if (on) chip.setAttribute("aria-current", "true");
    else chip.removeAttribute("aria-current");
    chip.href = urlWith(name, on && name !== "by" ? "" : value);
  }
  for (const link of document.querySelectorAll("a[data-sort]")) {
    const by = link.dataset.sort;
    const turned = ask.sort === "-" + by;
    if (ask.sort === by || turned) link.parentElement.setAttribute("aria-sort", isText(by) !== turned ? "ascending" : "descending");
    else link.parentElement.removeAttribute("aria-sort");
    link.href = urlWith("sort", ask.sort === by ? "-" + by : by);
  }
  const form = document.getElementById("ask");
  form.elements.sort.value = ask.sort.replace(/^-/, "");
  form.elements.group.value = ask.group;
  document.getElementById("switch").href = urlWith("view", ask.heat ? "" : "heat");
};

if (view) {
  const form = document.getElementById("ask");
  for (const name of ["sort", "group"]) form.elements[name].addEventListener("change", (e) => go(urlWith(name, e.target.value)));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    location.assign(urlWith("selector", form.elements.selector.value.trim()));
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-set], a[data-sort]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    go(link.href);
  });
  addEventListener("popstate", turn);
  news.firstChild.addEventListener("click", () => {
    show();
    figures();
  });
}

const actions = document.getElementById("actions");
if (actions && table) {
  const verb = actions.elements.verb;
  const selected = actions.querySelector("[data-selected]");
  const renew = () => {
    actions.hidden = picked.size === 0;
    selected.textContent = many(picked.size) + (picked.size === 1 ? " node selected:" : " nodes selected:");
    actions.elements.labels.hidden = verb.value !== "label";
  };
  table.addEventListener("change", (event) => {
    const box = event.target;
    if (box.name !== "node") return;
    if (box.checked) picked.add(box.value);
    else picked.delete(box.value);
    renew();
  });
  verb.addEventListener("change", renew);
  actions.querySelector("button[type=reset]").hidden = false;
  actions.addEventListener("reset", () => {
    picked.clear();
    for (const box of table.querySelectorAll("input[name=node]")) box.checked = false;
    setTimeout(renew);
  });
  actions.addEventListener("submit", () => {
    for (const old of actions.querySelectorAll("input[type=hidden][name=node]")) old.remove();
    const here = new Set([...table.querySelectorAll("input[name=node]:checked")].map((box) => box.value));
    for (const id of picked) {
      if (here.has(id)) continue;
      const field = document.createElement("input");
      Object.assign(field, { type: "hidden", name: "node", value: id });
      actions.append(field);
    }
    actions.elements.back.value = location.pathname + location.search;
  });
  for (const box of table.querySelectorAll("input[name=node]:checked")) picked.add(box.value);
  renew();
} else if (actions) actions.hidden = true;

if (root) follow(query(), live);
