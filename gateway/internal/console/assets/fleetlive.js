// Loads the nodes and follows what changes, for as long as the page is open. Where the gateway is lost it tries again, and loads again.
const pageSize = 500; // nodes of one answer: one that is larger would hold the page up while it is read
const quiet = 45000; // ms; the gateway says something every 15 s
const longest = 15000; // ms between two tries

class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const ask = async (path, signal) => {
  const answer = await fetch(path, { signal, cache: "no-store" });
  if (answer.ok) return answer;
  let message = "status " + answer.status;
  try { message = (await answer.json()).error.message; } catch { /* not the API's own answer */ }
  throw new Refused(answer.status, message);
};

const wait = (ms) => new Promise((done) => setTimeout(done, ms));

const page = async (query, cursor, signal) => {
  const q = new URLSearchParams(query);
  q.set("limit", pageSize);
  q.set("brief", "true");
  if (cursor) q.set("cursor", cursor);
  return (await ask("/ui/api/fleet?" + q, signal)).json();
};

// whole puts the live values of a node where the rest of it is.
const whole = (n, live) => {
  const gpus = n.gpus && n.gpus.map((g, i) => {
    const [utilization_percent, memory_used_mib, temperature_celsius, power_watts] = live.values?.[i] ?? [];
    return { ...g, utilization_percent, memory_used_mib, temperature_celsius, power_watts };
  });
  return { ...n, last_seen: live.last_seen, read_at: live.read_at, gpus };
};

// load reads all nodes.
const load = async (query, signal) => {
  const all = new Map();
  let cursor = "";
  do {
    const answer = await page(query, cursor, signal);
    for (const n of answer.nodes) all.set(n.id, whole(n, n));
    cursor = answer.next;
  } while (cursor);
  return all;
};

// events calls each with the kind and the text of what comes, and returns when the stream ends.
const events = async (body, alive, each) => {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    alive();
    rest += decoder.decode(value, { stream: true });
    const parts = rest.split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const fields = Object.fromEntries(part.split("\n").map((line) => {
        const at = line.indexOf(":");
        return [line.slice(0, at), line.slice(at + 1).trimStart()];
      }));
      if (fields.event) each(fields.event, fields.data);
    }
  }
};

// hear gives the nodes that news tells of, as they are now. nodes are all that are known.
const hear = (news, nodes) => {
  const list = news.nodes.map((n) => whole(n, n));
  for (const live of news.alive) {
    const n = nodes.get(live.id);
    if (n) list.push(whole(n, live));
  }
  return list;
};

// follow calls loaded with all nodes, changed with what changes after that, lost with why nothing comes, and found when it goes on.
export const follow = async (query, to) => {
  let pause = 1000;
  for (;;) {
    const stop = new AbortController();
    let timer = 0;
    const alive = () => {
      clearTimeout(timer);
      timer = setTimeout(() => stop.abort(), quiet);
    };
    try {
      alive();
      const answer = await ask("/ui/api/stream?" + query + "&kinds=brief", stop.signal);
      let waiting = []; // what the stream tells while the nodes are loaded is newer than they are
      let nodes = new Map();
      const take = (news) => {
        const list = hear(news, nodes);
        for (const n of list) nodes.set(n.id, n);
        for (const id of news.gone) nodes.delete(id);
        return list;
      };
      const reload = async () => {
        waiting = [];
        nodes = await load(query, stop.signal);
        for (const news of waiting) take(news);
        waiting = null;
        to.loaded(new Map(nodes));
        pause = 1000;
        to.found();
      };
      let begun = reload();
      begun.catch(() => stop.abort());
      await events(answer.body, alive, (kind, data) => {
        if (kind === "lost") {
          begun = begun.then(reload);
          begun.catch(() => stop.abort());
          return;
        }
        const news = JSON.parse(data);
        if (waiting) waiting.push(news);
        else to.changed(take(news), news.gone);
      });
      await begun;
      to.lost(null);
    } catch (error) {
      to.lost(error instanceof Refused ? error : null);
    }
    clearTimeout(timer);
    stop.abort();
    await wait(pause);
    pause = Math.min(pause * 2, longest);
  }
};
