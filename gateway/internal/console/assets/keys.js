// Keys: g and a letter go to a place, / filters, j and k move, x selects, Enter opens, ? shows them all.
"use strict";
(() => {
  document.querySelector("nav a[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }); // on a phone not all are in sight
  const dialog = document.getElementById("keys");
  const open = document.getElementById("keys-open");
  if (!dialog || !open) return;
  open.hidden = false;
  open.addEventListener("click", () => dialog.showModal());
  const places = new Map();
  for (const a of document.querySelectorAll("a[data-keys]")) places.set(a.dataset.keys, a.getAttribute("href"));
  const rows = () => [...document.querySelectorAll("table[data-rows] tbody tr:not([aria-hidden], .group)")];
  let before = "";
  const move = (by) => {
    const all = rows();
    if (!all.length) return;
    const at = all.indexOf(document.activeElement.closest("tr"));
    const next = all[Math.max(0, Math.min(all.length - 1, at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by))];
    next.tabIndex = -1;
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  };
  const act = (event) => {
    const key = event.key;
    const two = before + " " + key;
    before = key === "g" ? "g" : "";
    if (places.has(two)) {
      location.href = places.get(two);
      return true;
    }
    const focused = document.activeElement;
    switch (key) {
      case "?": dialog.showModal(); return true;
      case "/": {
        const filter = document.querySelector("[data-filter]");
        if (!filter) return false;
        filter.focus();
        filter.select();
        return true;
      }
      case "j": move(1); return true;
      case "k": move(-1); return true;
      case "x": {
        const box = focused.closest("tr")?.querySelector("input[type=checkbox]");
        if (!box) return false;
        box.click();
        return true;
      }
      case "Enter": {
        const link = focused.tagName === "TR" && focused.querySelector("a[data-open]");
        if (!link) return false;
        link.click();
        return true;
      }
    }
    return false;
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (act(event)) event.preventDefault();
  });
})();
