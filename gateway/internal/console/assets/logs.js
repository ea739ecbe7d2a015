// Follows a log of a node. Lines are text and nothing else: what a node writes can do nothing here. The page keeps the last lines alone.
"use strict";
(() => {
  const form = document.getElementById("logask");
  if (!form) return;
  const list = document.getElementById("log-lines");
  const state = document.getElementById("log-state");
  const trouble = document.getElementById("log-failure");
  const show = document.getElementById("log-show");
  const pause = document.getElementById("log-pause");
  const most = 2000; // lines in the page, and lines that wait while it is paused
  const quiet = 45000; // ms; the gateway says something every 15 s

  let run = 0; // counts what was asked for: an answer to an earlier question ends
  let stop = null;
  let paused = false;
  let waiting = [];
  let left = 0; // lines that did not wait
  let drawn = false; // a frame is asked for
  let known = []; // the last lines, to leave them out where they come again

  // What nobody sees, or what would move other text, is shown by its number.
  const number = (c) => "\\u" + c.codePointAt(0).toString(16).padStart(4, "0");
  const plain = (text) => text.replace(/[\p{C}\u2028\u2029\ufffd]/gu, (c) => c === "\t" ? c : number(c));

  const part = (row, name, text) => {
    const element = document.createElement(name);
    element.textContent = text;
    row.append(element, " ");
    return element;
  };

  const clock = (at) => [at.getHours(), at.getMinutes(), at.getSeconds()].map((n) => String(n).padStart(2, "0")).join(":") +
    "." + String(at.getMilliseconds()).padStart(3, "0");

  const rowOf = (line) => {
    const row = document.createElement("li");
    const at = new Date(line.time);
    const time = part(row, "time", clock(at));
    time.title = musterTime(at) + ", " + at.toISOString();
    if (line.received) time.title += ", here " + musterClock(new Date(line.received));
    if (line.level) part(row, "b", plain(line.level));
    part(row, "i", plain(line.source));
    let text = plain(line.message);
    const gap = line.dropped > 0 || line.source === "gateway";
    if (line.dropped > 0) text = line.dropped + " missing here: " + text;
    if (line.cut > 0) text += " [" + line.cut + " more bytes]";
    row.className = gap ? "missing" : ["debug", "info", "warn", "error"].includes(line.level) ? line.level : "";
    part(row, "span", text);
    const fields = Object.entries(line.fields ?? {}).map(([name, value]) => plain(name) + "=" + plain(value));
    if (fields.length > 0) part(row, "small", fields.sort().join(" "));
    return row;
  };

  // Who is at the end of the log stays there, also where the window gets another size.
  let sticks = true;
  const stick = () => {
    if (sticks) list.scrollTop = list.scrollHeight;
  };
  list.addEventListener("scroll", () => {
    sticks = list.scrollTop + list.clientHeight >= list.scrollHeight - 8;
  });
  new ResizeObserver(stick).observe(list);

  const draw = () => {
    drawn = false;
    if (paused || waiting.length === 0 && left === 0) return;
    if (left > 0) {
      const now = new Date().toISOString();
      waiting.unshift({ time: now, source: "console", dropped: left, message: "they came while the page was paused" });
    }
    list.hidden = false;
    list.append(...waiting.slice(-most).map(rowOf));
    waiting = [];
    left = 0;
    while (list.childElementCount > most) list.firstElementChild.remove();
    stick();
  };

  const soon = () => {
    if (drawn) return;
    drawn = true;
    setTimeout(draw, 100); // not a frame: a page that nobody sees has none, and keeps its bounds too
  };

  const add = (line) => {
    waiting.push(line);
    if (waiting.length > most) {
      waiting.shift();
      left++;
    }
    if (paused) {
      const gone = left > 0 ? ", " + left + " of them are not kept" : "";
      state.textContent = "Paused. " + (waiting.length + left) + " lines wait" + gone + ".";
    }
    soon();
  };

  const keyOf = (line) => [line.source, line.level, line.message].join("\u0000");
  const kernelSlack = 1000; // ms: the kernel counts from its start, so a node tells a bit different times for the same line
  const slackOf = (source) => source === "kernel" ? kernelSlack : 0;

  // again is what may come twice after a break: the times at which each text was written.
  const again = () => {
    const times = new Map();
    for (const { key, time } of known) times.set(key, [...times.get(key) ?? [], time]);
    return times;
  };

  const same = (a, b, slack) => a === b || slack > 0 && Math.abs(new Date(a) - new Date(b)) <= slack;

  // since is from when on lines are asked for again: the last one of the source that has been quiet for longest.
  const since = () => {
    const last = new Map();
    for (const { source, time } of known) last.set(source, new Date(new Date(time) - slackOf(source)).toISOString());
    return [...last.values()].sort()[0];
  };

  const take = (line, twice) => {
    if (line.source !== "gateway" && !line.dropped) {
      const key = keyOf(line);
      const times = twice.get(key) ?? [];
      const at = times.findIndex((time) => same(time, line.time, slackOf(line.source)));
      if (at >= 0) {
        times.splice(at, 1);
        return;
      }
      known.push({ key, source: line.source, time: line.time });
      if (known.length > 2 * most) known.splice(0, most);
    }
    add(line);
  };

  const refused = async (answer) => {
    let said = {};
    try {
      said = (await answer.json()).error ?? {};
    } catch { /* it came from something between */ }
    const error = new Error([said.message ?? "status " + answer.status, said.hint].filter(Boolean).join(". "));
    error.final = answer.status < 500 && answer.status !== 429;
    return error;
  };

  // read shows one answer to its end.
  const read = async (path, mine, signal, alive) => {
    const answer = await fetch(path, { signal });
    if (!answer.ok) throw await refused(answer);
    if (!paused) state.textContent = "Live.";
    const twice = again();
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done || mine !== run) return;
      alive();
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const text of lines) if (text.trim() !== "") take(JSON.parse(text), twice);
    }
  };

  const wait = (ms) => new Promise((done) => setTimeout(done, ms));

  const follow = async () => {
    const mine = ++run;
    stop?.abort();
    waiting = [];
    left = 0;
    known = [];
    list.replaceChildren();
    list.hidden = true;
    sticks = true;
    state.classList.remove("refused");
    trouble.replaceChildren();
    state.textContent = "Asking the node.";
    pause.hidden = false;
    while (mine === run) {
      stop = new AbortController();
      const q = new URLSearchParams({ source: form.elements.source.value.trim(), follow: "true" });
      if (form.elements.grep.value) q.set("grep", form.elements.grep.value);
      if (known.length > 0) q.set("since", since());
      else q.set("limit", "200");
      let timer = setTimeout(() => stop.abort(), quiet);
      const alive = () => {
        clearTimeout(timer);
        timer = setTimeout(() => stop.abort(), quiet);
      };
      try {
        await read(form.dataset.logs + "?" + q, mine, stop.signal, alive);
        if (mine === run) state.textContent = "The log has ended.";
        return;
      } catch (error) {
        if (mine !== run) return;
        state.textContent = error.final ? error.message : "Not live since " + musterClock(new Date()) + ". Trying again.";
        if (error.final) {
          state.classList.add("refused");
          pause.hidden = true;
          return;
        }
      } finally {
        clearTimeout(timer);
      }
      await wait(3000);
    }
  };

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const url = new URL(location.href);
    url.searchParams.set("source", form.elements.source.value.trim());
    url.searchParams.set("grep", form.elements.grep.value);
    if (!form.elements.grep.value) url.searchParams.delete("grep");
    url.hash = "logs";
    history.replaceState(null, "", url);
    follow();
  });
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Go on" : "Pause";
    pause.setAttribute("aria-pressed", String(paused));
    if (!paused) {
      state.textContent = "Live.";
      soon();
    }
  });
  show.textContent = "Follow";
  if ("asked" in list.dataset) follow();
})();
