// Keeps the table of nodes: rows are there only near what is seen, in bodies of some rows each, so that 10,000 nodes cost no more than 100.
import { el, makeRow, patchRow } from "/ui/assets/fleetrow.js";

const rowsOfBody = 50;
const near = 800; // px above and below what is seen

export const makeTable = (table, pick) => {
  const bodies = new Map();
  const rows = new Map();
  const columns = String(table.tHead.rows[0].cells.length);
  const pitch = () => parseFloat(getComputedStyle(table).getPropertyValue("--pitch"));

  const empty = (body) => {
    const part = bodies.get(body);
    if (part.full === false || body.contains(document.activeElement)) return;
    for (const n of part.nodes) rows.delete(n.id);
    part.full = false;
    const height = part.nodes.length * pitch();
    const gap = el("td", { colspan: columns, height });
    gap.style.height = height + "px";
    body.replaceChildren(...part.head, el("tr", { class: "gap", "aria-hidden": "true" }, gap));
  };
  const fill = (body, latest) => {
    const part = bodies.get(body);
    if (part.full) return;
    part.full = true;
    part.nodes = part.nodes.map((n) => latest(n.id) ?? n);
    const made = part.nodes.map((n, i) => {
      const row = makeRow(n, pick);
      row.setAttribute("aria-rowindex", part.from + i + 2);
      rows.set(n.id, row);
      return row;
    });
    body.replaceChildren(...part.head, ...made);
  };
  let latest = () => null;
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!bodies.has(entry.target)) continue;
      if (entry.isIntersecting) fill(entry.target, latest);
      else empty(entry.target);
    }
  }, { rootMargin: near + "px 0px" });

  const makeBody = (nodes, from, head) => {
    const body = el("tbody");
    bodies.set(body, { nodes, from, head, full: null });
    return body;
  };
  const bodiesOf = (groups) => {
    let from = 0;
    const all = [];
    for (const { name, nodes } of groups) {
      const title = el("th", { colspan: columns, scope: "rowgroup" }, name + " ", el("span", { class: "count" }, String(nodes.length)));
      const head = name ? [el("tr", { class: "group" }, title)] : [];
      for (let i = 0; i < nodes.length; i += rowsOfBody) {
        all.push(makeBody(nodes.slice(i, i + rowsOfBody), from, i === 0 ? head : []));
        from += Math.min(rowsOfBody, nodes.length - i);
      }
    }
    table.setAttribute("aria-rowcount", from + 1);
    return all;
  };

  return {
    rows,
    // draw shows groups of nodes. The row that has the focus keeps it.
    draw(groups, newest) {
      latest = newest;
      const focused = document.activeElement.closest?.("tr[data-id]")?.dataset.id;
      watcher.disconnect();
      bodies.clear();
      rows.clear();
      const all = bodiesOf(groups);
      for (const body of all) empty(body);
      for (const body of [...table.tBodies]) body.remove();
      table.append(...all);
      for (const body of all) {
        const { top, bottom } = body.getBoundingClientRect();
        if (top > innerHeight + near) break;
        if (bottom > -near) fill(body, latest);
      }
      for (const body of all) watcher.observe(body);
      const again = focused && rows.get(focused);
      if (again) {
        again.tabIndex = -1;
        again.focus({ preventScroll: true });
      }
    },
    patch(n) {
      const row = rows.get(n.id);
      if (row) patchRow(row, n);
    },
    gone(id) { rows.get(id)?.classList.add("gone"); },
  };
};
