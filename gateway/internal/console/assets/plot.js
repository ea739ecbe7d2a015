// Plots: the server draws them. This adds the values under the pointer, the viewer's own time zone, other times without a new page, and
// newer values as they come.
"use strict";
(() => {
  const place = document.querySelector("[data-plots]");
  if (!place) return;
  const svg = "http://www.w3.org/2000/svg";

  // As amount in picture/plots.go.
  const amount = (v) => {
    const digits = Math.abs(v) >= 100 ? 1 : Math.abs(v) >= 10 ? 10 : 100;
    return String(Math.round(v * digits) / digits);
  };

  // localise writes the ticks in the viewer's zone. Midnights are moved to the viewer's midnights.
  const localise = (figure) => {
    const since = Number(figure.dataset.since);
    const until = Number(figure.dataset.until);
    for (const text of figure.querySelectorAll("text[data-at]")) {
      let at = Number(text.dataset.at);
      if (text.dataset.form !== "clock") {
        at += new Date(at * 1000).getTimezoneOffset() * 60;
        const x = ((at - since) / (until - since)) * 100;
        text.setAttribute("x", x + "%");
        if (at < since || x > 97) text.remove(); // as tickEdge in picture/plots.go
      }
      const date = new Date(at * 1000);
      switch (text.dataset.form) {
        case "clock":
          text.textContent = String(date.getHours()).padStart(2, "0") + ":" + String(date.getMinutes()).padStart(2, "0");
          break;
        case "day":
          text.textContent = date.toLocaleDateString([], { weekday: "short" }) + " " + date.getDate();
          break;
        default:
          text.textContent = date.getDate() + " " + date.toLocaleDateString([], { month: "short" });
      }
    }
  };

  // load gets the values of a plot, once.
  const load = async (figure) => {
    const answer = await fetch(figure.dataset.series);
    if (!answer.ok) throw new Error("status " + answer.status);
    const scale = Number(figure.dataset.scale);
    const tracks = new Map();
    for (const track of (await answer.json()).series) {
      tracks.set(track.gpu, track.points.map(([at, value]) => [at, value === null ? null : value / scale]));
    }
    return tracks;
  };

  // near is the point at a moment; null where nothing is known around it.
  const near = (points, at, step) => {
    let low = 0;
    let high = points.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (points[middle][0] < at) low = middle + 1;
      else high = middle;
    }
    const all = [points[low - 1], points[low]].filter((p) => p && Math.abs(p[0] - at) <= 2 * step);
    all.sort((a, b) => Math.abs(a[0] - at) - Math.abs(b[0] - at));
    return all.length && all[0][1] !== null ? all[0] : null;
  };

  let looking = 0; // plots that somebody looks into

  const setUp = (figure) => {
    localise(figure);
    const field = figure.querySelector(".field");
    const rows = [...figure.querySelectorAll(".legend li")];
    const said = figure.querySelector(".at");
    const lines = [...figure.querySelectorAll(".field path")];
    const since = Number(figure.dataset.since);
    const until = Number(figure.dataset.until);
    const step = Number(figure.dataset.step) || 60;
    if (!rows.length) return;
    const cross = document.createElementNS(svg, "line");
    cross.setAttribute("class", "cross");
    cross.setAttribute("y1", "6");
    cross.setAttribute("y2", "126");
    let wanted = null; // the values, once somebody has asked for them
    let shown = null; // seconds
    const show = async (at) => {
      if (shown === null) looking++;
      shown = at;
      const x = ((at - since) / (until - since)) * 100 + "%";
      cross.setAttribute("x1", x);
      cross.setAttribute("x2", x);
      if (!cross.isConnected) field.append(cross);
      const date = new Date(at * 1000);
      said.hidden = false;
      said.textContent = musterTime(date);
      said.title = date.toISOString();
      let tracks;
      try {
        wanted ??= load(figure);
        tracks = await wanted;
      } catch {
        wanted = null; // it is asked again at the next move
        return;
      }
      if (shown !== at) return;
      for (const row of rows) {
        const point = near(tracks.get(row.dataset.gpu) ?? [], at, step);
        const now = row.querySelector(".now");
        now.dataset.last ??= now.textContent;
        now.textContent = point ? amount(point[1]) : "–";
      }
    };
    const hide = () => {
      if (shown === null) return;
      looking--;
      shown = null;
      cross.remove();
      said.hidden = true;
      for (const now of figure.querySelectorAll(".now")) now.textContent = now.dataset.last ?? now.textContent;
    };
    field.addEventListener("pointermove", (event) => {
      const box = field.getBoundingClientRect();
      const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
      show(Math.round(since + share * (until - since)));
    });
    field.addEventListener("pointerleave", hide);
    field.addEventListener("blur", hide);
    field.tabIndex = 0;
    field.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
      if (event.key === "Escape") hide();
      if (!by) return;
      event.preventDefault();
      const wide = Math.max(step, (until - since) / 200);
      show(Math.round(Math.min(until, Math.max(since, (shown ?? until) + by * wide))));
    });
    for (const row of rows) {
      const lift = (on) => {
        for (const line of lines) line.classList.toggle("dim", on && line.dataset.gpu !== row.dataset.gpu);
      };
      row.addEventListener("pointerenter", () => lift(true));
      row.addEventListener("pointerleave", () => lift(false));
      row.tabIndex = rows.length > 1 ? 0 : -1;
      row.addEventListener("focus", () => lift(true));
      row.addEventListener("blur", () => lift(false));
    }
  };

  const all = () => {
    for (const figure of place.querySelectorAll("figure")) setUp(figure);
    const zone = document.getElementById("zone");
    if (zone) zone.textContent = "Times are yours: " + Intl.DateTimeFormat().resolvedOptions().timeZone + ".";
  };

  // Documents come by XMLHttpRequest: a page must not make any out of text.
  const get = (path) => new Promise((done, failed) => {
    const request = new XMLHttpRequest();
    request.open("GET", path);
    request.responseType = "document";
    request.onload = () => request.status === 200 && request.response ? done(request.response) : failed(new Error("status " + request.status));
    request.onerror = () => failed(new Error("no answer"));
    request.send();
  });

  let turn = 0;
  const swap = async (path) => {
    const mine = ++turn;
    const fresh = (await get(path)).querySelector("[data-plots]");
    if (mine !== turn || !fresh) return;
    const at = document.activeElement?.matches("[data-range]") ? document.activeElement.dataset.range : null;
    place.replaceChildren(...document.importNode(fresh, true).childNodes);
    looking = 0;
    all();
    for (const link of place.querySelectorAll("[data-range]")) if (link.dataset.range === at) link.focus();
  };
  const here = () => location.pathname + location.search;

  place.addEventListener("click", async (event) => {
    const link = event.target.closest("a[data-range]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    link.focus();
    const path = link.pathname + link.search;
    try {
      await swap(path);
      history.pushState(null, "", path);
    } catch {
      location.href = link.href;
    }
  });
  addEventListener("popstate", () => swap(here()).catch(() => location.reload()));

  // A plot of an hour is drawn again each minute, others each five minutes.
  let drawn = Date.now();
  setInterval(() => {
    const hour = /^$|range=hour/.test(location.search);
    if (document.hidden || looking > 0 || Date.now() - drawn < (hour ? 60000 : 300000)) return;
    drawn = Date.now();
    swap(here()).catch(() => { /* the page says that the gateway is gone */ });
  }, 5000);
  all();
})();
