// Remembers light or dark, where a person has chosen. It runs before the page is drawn, so that nothing flashes.
"use strict";
(() => {
  const root = document.documentElement;
  let chosen = null;
  try { chosen = localStorage.getItem("theme"); } catch { /* the browser keeps nothing */ }
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    if (!button) return;
    button.hidden = false;
    button.addEventListener("click", () => {
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      try { localStorage.setItem("theme", root.dataset.theme); } catch { /* it holds for this page */ }
    });
  });
})();
