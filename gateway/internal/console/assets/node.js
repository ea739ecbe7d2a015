// Keeps the page of a node live: when the gateway says that something about the node has changed, the page is asked for again, and what
// differs is patched in place. The server alone writes the words of the page.
"use strict";
(() => {
  const root = document.getElementById("node");
  const lost = document.getElementById("lost");
  if (!root?.dataset.stream) return;

  // Documents come by XMLHttpRequest: a page must not make any out of text.
  const get = (path) => new Promise((done, failed) => {
    const request = new XMLHttpRequest();
    request.open("GET", path);
    request.responseType = "document";
    request.onload = () => request.status === 200 && request.response ? done(request.response) : failed(new Error("status " + request.status));
    request.onerror = () => failed(new Error("no answer"));
    request.send();
  });

  const flash = (element) => {
    element.classList.remove("flash");
    void element.offsetWidth; // the animation begins anew
    element.classList.add("flash");
  };

  const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName;

  const attributes = (old, fresh) => {
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && name !== "open" && name !== "tabindex") old.removeAttribute(name);
    }
    for (const { name, value } of [...fresh.attributes]) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
  };

  // patch makes old as fresh is. What is the same is left alone, so that focus, selection and open parts stay.
  const patch = (old, fresh) => {
    if (old.nodeType === Node.TEXT_NODE) {
      if (old.data !== fresh.data) {
        const shows = old.data.trim() !== fresh.data.trim();
        old.data = fresh.data;
        if (shows && old.parentElement) flash(old.parentElement);
      }
      return;
    }
    if (old.nodeType !== Node.ELEMENT_NODE) return;
    if (old.nodeName === "TIME" && old.dateTime === fresh.dateTime) return; // it ticks by itself
    old.classList.remove("flash");
    attributes(old, fresh);
    const have = [...old.childNodes];
    const want = [...fresh.childNodes];
    if (have.length === want.length && have.every((node, i) => alike(node, want[i]))) {
      have.forEach((node, i) => patch(node, want[i]));
      return;
    }
    old.replaceChildren(...want.map((node) => document.importNode(node, true)));
  };

  let asked = 0;
  let waits = false;
  const refresh = async () => {
    asked = Date.now();
    const url = new URL(location.href);
    url.searchParams.set("plots", "off");
    try {
      const page = await get(url.pathname + url.search);
      for (const old of root.querySelectorAll("[data-live]")) {
        const fresh = page.querySelector(`[data-live="${old.dataset.live}"]`);
        if (fresh) patch(old, fresh);
      }
    } catch { /* the stream says when the gateway is gone */ }
  };

  // soon asks again at most every two seconds, and when the page is seen again.
  const soon = () => {
    if (waits) return;
    waits = true;
    setTimeout(async () => {
      waits = false;
      if (document.hidden) {
        document.addEventListener("visibilitychange", soon, { once: true });
        return;
      }
      await refresh();
    }, Math.max(200, asked + 2000 - Date.now()));
  };

  const open = () => {
    const stream = new EventSource(root.dataset.stream);
    stream.onopen = () => {
      if (!lost.hidden) soon();
      lost.hidden = true;
    };
    for (const kind of ["node", "task", "event", "lost"]) stream.addEventListener(kind, soon);
    stream.onerror = () => {
      if (lost.hidden) lost.textContent = "Not live since " + musterClock(new Date()) + ". Trying again.";
      lost.hidden = false;
      if (stream.readyState !== EventSource.CLOSED) return; // it comes back by itself
      setTimeout(open, 10000);
    };
  };
  open();
})();
