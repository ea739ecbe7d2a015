// Keeps the relative times of a page right, and adds the local time to what is shown on hover.
"use strict";
(() => {
  // As span in picture/moment.go.
  const span = (s) => {
    if (s < 60) return Math.floor(s) + " s";
    if (s < 3600) return Math.floor(s / 60) + " m";
    if (s < 172800) return Math.floor(s / 3600) + " h";
    return Math.floor(s / 86400) + " d";
  };
  globalThis.musterSpan = span;
  // By the browser's zone, in the form that every page has: no AM, no month before the day.
  const two = (n) => String(n).padStart(2, "0");
  const clock = (at) => [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":");
  globalThis.musterClock = clock;
  globalThis.musterTime = (at) => [at.getFullYear(), two(at.getMonth() + 1), two(at.getDate())].join("-") + " " + clock(at);
  const text = (at, now) => at > now ? "in " + span((at - now) / 1000) : span((now - at) / 1000) + " ago";
  const tick = () => {
    const now = Date.now();
    for (const time of document.querySelectorAll("time[datetime]")) {
      const at = Date.parse(time.dateTime);
      const shown = text(at, now);
      if (time.textContent !== shown) time.textContent = shown;
      if (!time.dataset.local) {
        time.dataset.local = "yes";
        time.title += " · " + musterTime(new Date(at));
      }
    }
  };
  tick();
  setInterval(tick, 1000);
})();
