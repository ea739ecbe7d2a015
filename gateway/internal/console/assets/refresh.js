// Loads the page's main part anew every half minute, while somebody looks at it and does nothing in it.
"use strict";
(() => {
  const main = document.getElementById("main");
  const used = () => document.hidden || main.contains(document.activeElement) && document.activeElement !== main ||
    !getSelection().isCollapsed;
  const refresh = () => {
    if (used()) return;
    const ask = new XMLHttpRequest(); // gives a document without a text that is parsed here
    ask.responseType = "document";
    ask.open("GET", location.href);
    ask.onload = () => {
      const next = ask.status === 200 && ask.response?.getElementById("main");
      if (next && ask.responseURL === location.href && !used()) main.replaceChildren(...next.childNodes);
    };
    ask.send();
  };
  setInterval(refresh, 30000);
  document.addEventListener("visibilitychange", refresh);
})();
