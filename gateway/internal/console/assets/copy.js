// Copy buttons. Without a secure context the clipboard of old works: a selection that is copied.
"use strict";
(() => {
  const byHand = (source) => {
    const range = document.createRange();
    range.selectNodeContents(source);
    const selection = getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    const done = document.execCommand("copy");
    selection.removeAllRanges();
    return done;
  };
  const copy = async (source) => {
    try {
      await navigator.clipboard.writeText(source.textContent);
      return true;
    } catch {
      return byHand(source);
    }
  };
  for (const button of document.querySelectorAll("button.copy")) {
    button.hidden = false;
    button.setAttribute("aria-live", "polite");
    button.addEventListener("click", async () => {
      const source = document.getElementById(button.dataset.copy);
      button.textContent = await copy(source) ? "Copied" : "Select it by hand";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  }
})();
