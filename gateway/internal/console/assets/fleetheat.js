// Keeps the heat map: one cell a GPU, as heatOf in picture/heat.go draws it. Cells are there only near what is seen.
import { el, known, missing, rowsOf, share, svg, whole } from "/ui/assets/fleetrow.js";

const cell = 12;
const gap = 2;
const nodesOfField = 120; // most numbers of columns fill their last line
const square = (x) => "M" + x + " 0h" + cell + "v" + cell + "h-" + cell + "z";
const cross = (x) => "M" + (x + 2) + " 2l8 8m0 -8l-8 8";
const edges = (by) => by === "temperature" ? [40, 55, 65, 75, 85] : [1, 20, 40, 60, 80];

const valueOf = (g, by) => by === "memory" ? share(g) : by === "temperature" ? g.temperature_celsius : g.utilization_percent;

const cells = (n, by) => {
  const gpus = rowsOf(n);
  const gone = missing(n);
  const unit = by === "temperature" ? " °C" : " %";
  const steps = ["", "", "", "", "", ""];
  let dunno = n.gpus || gpus.length ? "" : square(0);
  let crosses = "";
  const says = gpus.map((g, i) => {
    const x = i * (cell + gap);
    const value = valueOf(g, by);
    if (g.health.length) crosses += cross(x);
    if (!known(value) || !n.fresh) {
      dunno += square(x);
      return "–";
    }
    steps[edges(by).filter((edge) => value >= edge).length] += square(x);
    return whole(value) + unit;
  });
  for (let i = 0; i < gone; i++) {
    const x = (gpus.length + i) * (cell + gap);
    dunno += square(x);
    crosses += cross(x);
  }
  if (n.gpus?.length === 0 && gone === 0) says.push("no GPU");
  if (gone > 0) says.push(gone + " missing");
  const parts = steps.flatMap((path, i) => path ? [svg("path", { class: "s" + i, d: path })] : []);
  if (dunno) parts.push(svg("path", { class: "dunno", fill: "url(#hatch)", d: dunno }));
  if (crosses) parts.push(svg("path", { class: "cross", d: crosses }));
  const width = Math.max((gpus.length + gone) * (cell + gap) - gap, cell);
  return [n.name + ": " + (says.join(", ") || "–"), svg("svg", { class: "cells", width, height: cell, "aria-hidden": "true" }, ...parts)];
};

const makeCells = (n, by) => {
  const [says, picture] = cells(n, by);
  return el("a", { href: "/ui/nodes/" + encodeURIComponent(n.name), "data-id": n.id, title: says, "aria-label": says },
    el("span", {}, n.name), picture);
};

export const makeHeat = (map) => {
  const fields = new Map();
  const shown = new Map();
  let latest = () => null;
  let by = map.dataset.by;
  const fill = (field) => {
    const part = fields.get(field);
    if (part.full) return;
    part.full = true;
    field.style.minHeight = "";
    field.replaceChildren(...part.nodes.map((n) => {
      const link = makeCells(latest(n.id) ?? n, by);
      shown.set(n.id, link);
      return link;
    }));
  };
  const empty = (field) => {
    const part = fields.get(field);
    if (!part.full || field.contains(document.activeElement)) return;
    part.full = false;
    field.style.minHeight = field.offsetHeight + "px";
    for (const n of part.nodes) shown.delete(n.id);
    field.replaceChildren();
  };
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!fields.has(entry.target)) continue;
      if (entry.isIntersecting) fill(entry.target);
      else empty(entry.target);
    }
  }, { rootMargin: "600px 0px" });
  const caption = document.getElementById("says");
  const say = (event) => {
    const link = event.target.closest("a[data-id]");
    if (link) caption.textContent = link.title;
  };
  map.addEventListener("mouseover", say);
  map.addEventListener("focusin", say);
  return {
    rows: shown,
    draw(groups, newest, ask) {
      latest = newest;
      by = ask.by;
      map.className = "heat by-" + by + (groups.reduce((n, g) => n + g.nodes.length, 0) > 200 ? " dense" : "");
      watcher.disconnect();
      fields.clear();
      shown.clear();
      const sections = groups.map(({ name, nodes }) => {
        const section = el("section", {}, ...(name ? [el("h2", {}, name)] : []));
        for (let i = 0; i < nodes.length; i += nodesOfField) {
          const field = el("div", { class: "field" });
          fields.set(field, { nodes: nodes.slice(i, i + nodesOfField), full: false });
          section.append(field);
        }
        return section;
      });
      map.replaceChildren(...sections);
      let height = 0;
      for (const field of fields.keys()) {
        if (!height) {
          fill(field);
          height = field.offsetHeight;
        } else field.style.minHeight = height + "px";
        watcher.observe(field);
      }
    },
    patch(n) {
      const link = shown.get(n.id);
      if (!link) return;
      const [says, picture] = cells(n, by);
      if (link.title === says) return;
      link.title = says;
      link.setAttribute("aria-label", says);
      link.lastChild.replaceWith(picture);
    },
    gone(id) { shown.get(id)?.classList.add("gone"); },
  };
};
