// Watches a node that is to join: green when it is online, and what was recorded of it meanwhile.
"use strict";
(() => {
  const place = document.getElementById("joining");
  const steps = document.getElementById("steps");
  if (!place) return;
  const mark = place.querySelector(".mark");
  const text = place.querySelector(".text");
  const id = place.dataset.node;
  const show = (kind, shape, words) => {
    mark.className = "mark " + kind;
    mark.replaceChildren();
    const sign = document.createElement("span");
    sign.setAttribute("aria-hidden", "true");
    sign.textContent = shape;
    mark.append(sign, " " + words);
  };
  const get = async (path) => {
    const answer = await fetch(path);
    if (!answer.ok) throw new Error("status " + answer.status);
    return answer.json();
  };
  const list = (events) => {
    steps.replaceChildren();
    for (const e of events.reverse()) {
      const row = document.createElement("li");
      const at = document.createElement("span");
      at.className = "hint";
      at.textContent = musterClock(new Date(e.at));
      at.title = e.at;
      const what = document.createElement("code");
      what.textContent = e.kind;
      const reason = e.outcome === "ok" ? "" : " " + e.outcome + (e.detail.reason ? ": " + e.detail.reason : "");
      row.className = e.outcome === "ok" ? "" : "refused";
      row.append(at, " ", what, reason, e.address ? " from " + e.address : "");
      steps.append(row);
    }
    steps.hidden = events.length === 0;
    return events.some((e) => e.outcome !== "ok" && e.outcome !== "none");
  };
  const look = async () => {
    const node = await get("/ui/api/nodes/" + encodeURIComponent(id));
    let refused = false;
    try {
      refused = list((await get("/ui/api/events?limit=20&node=" + encodeURIComponent(id))).events);
    } catch { /* this account may not look at events */ }
    if (node.status === "online") {
      show("good", "●", "online");
      text.replaceChildren();
      const link = document.createElement("a");
      link.href = "/ui/nodes/" + encodeURIComponent(node.name);
      link.textContent = "Open " + node.name;
      text.append(link);
      place.classList.add("online");
      return true;
    }
    text.textContent = "state " + node.state;
    if (refused) show("bad", "■", "was refused");
    else if (node.state === "deploying") show("busy", "◐", "has fetched its script");
    else if (node.state === "enrolled") show("busy", "◐", "has its identity, and did not report yet");
    else show("busy", "◐", "waits for the node");
    return false;
  };
  const run = async () => {
    try {
      if (await look()) return;
    } catch {
      text.textContent = "The gateway does not answer. Trying again.";
    }
    setTimeout(run, 2000);
  };
  run();
})();
