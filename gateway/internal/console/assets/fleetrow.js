// Draws a node as a row of the fleet, as RowOf in picture/row.go and its template do. A test compares the two.
const unknown = "–";
const mostGPUs = 1024; // of one node
const svgSpace = "http://www.w3.org/2000/svg";

const fill = (element, attributes, children) => {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};
export const el = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);
export const svg = (name, attributes = {}, ...children) => fill(document.createElementNS(svgSpace, name), attributes, children);

export const marks = JSON.parse(document.getElementById("fleet")?.dataset.marks ?? "{}");
export const whole = (v) => String(Math.floor(v + 0.5));
const tenth = (v) => (Math.floor(v * 10 + 0.5) / 10).toFixed(1);
export const many = (n) => n.toLocaleString("en-US");
const tebibytes = (mib) => {
  const [digits, rest] = tenth(mib / 1048576).split(".");
  return many(Number(digits)) + "." + rest + " TiB";
};
export const gib = (mib) => {
  const size = mib / 1024;
  if (mib < 1024) return mib + " MiB";
  if (size < 100) return tenth(size) + " GiB";
  if (size < 10240) return many(Math.floor(size + 0.5)) + " GiB";
  return tebibytes(mib);
};
// used is a size in the unit of the whole that it is a part of.
export const used = (mib, of) => of >= 10240 * 1024 ? tebibytes(mib) : gib(mib);
export const watts = (w) => {
  if (w < 1000) return whole(w) + " W";
  return w < 1e6 ? tenth(w / 1000) + " kW" : tenth(w / 1e6) + " MW";
};
export const missing = (n) => !n.gpus || n.gpus_expected === null ? 0 : Math.max(n.gpus_expected - n.gpus.length, 0);
// rowsOf are a node's GPUs, with one that says nothing for each of which nobody knows anything.
export const rowsOf = (n) => n.gpus ?? Array.from({ length: Math.min(n.gpus_expected ?? 0, mostGPUs) }, () => ({ health: [] }));
export const known = (v) => v !== null && v !== undefined;
const dash = (text) => text || unknown;

const mark = (kind, shape, word) => el("span", { class: "mark " + kind }, el("span", { "aria-hidden": "true" }, shape), " " + word);
const wordMark = (word) => {
  const [kind, shape] = marks[word] ?? ["unknown", "◌"];
  return mark(kind, shape, dash(word).replaceAll("_", " "));
};
const none = (text) => el("span", { class: "none" }, text);

const when = (at) => {
  if (!at) return none(unknown);
  const iso = new Date(at).toISOString().slice(0, 19);
  const seconds = Math.max(0, (Date.now() - Date.parse(at)) / 1000);
  const text = globalThis.musterSpan ? globalThis.musterSpan(seconds) + " ago" : "";
  return el("time", { datetime: iso + "Z", title: iso.replace("T", " ") + " UTC" }, text);
};

const gpuText = (n) => {
  const gone = missing(n);
  if (!n.gpus) return n.gpus_expected ? unknown + " of " + n.gpus_expected : unknown;
  const here = n.gpus.length;
  if (here === 0) return gone === 0 ? "no GPU" : "0 of " + gone;
  const count = new Map();
  for (const g of n.gpus) {
    const name = dash(g.name.replace(/^NVIDIA /, "").replace(/^AMD /, "").replace(/^GeForce /, "")) + (g.mig ? " MIG" : "");
    count.set(name, (count.get(name) ?? 0) + 1);
  }
  if (count.size === 1 && gone > 0) return here + " of " + (here + gone) + " × " + [...count.keys()][0];
  const text = [...count].map(([name, times]) => times + " × " + name).join(" + ");
  return gone > 0 ? here + " of " + (here + gone) + ": " + text : text;
};

const gaugeWidth = 72;
const gaugeHeight = 6;
const mostBars = 32;
const block = (x, width) => "M" + x + " 0h" + width + "v" + gaugeHeight + "h-" + width + "z";
const filled = (x, width, percent) => {
  const share = Math.min(Math.max(percent, 0), 100);
  let part = Math.round(width * share / 100);
  if (share > 0) part = Math.max(part, 1);
  return part === 0 ? "" : block(x, part);
};
const paths = (values, gone) => {
  const n = Math.min(values.length + gone, mostBars);
  const gap = n > 8 ? 1 : 2;
  const width = Math.floor((gaugeWidth - gap * (n - 1)) / n);
  const p = { track: "", fill: "", dunno: "", cross: "" };
  for (let i = 0; i < n; i++) {
    const x = i * (width + gap);
    if (i >= values.length) p.cross += "M" + x + " 0l" + width + " 6m0 -6l-" + width + " 6";
    else if (!known(values[i])) p.dunno += block(x, width);
    else {
      p.track += block(x, width);
      p.fill += filled(x, width, values[i]);
    }
  }
  return p;
};
const gauge = (values, gone, says, text) => {
  if (values.length + gone === 0) return [none(unknown)];
  const p = paths(values, gone);
  return [svg("svg", { class: "gauge", width: gaugeWidth, height: gaugeHeight, role: "img", "aria-label": says },
    svg("path", { class: "track", d: p.track }), svg("path", { class: "fill", d: p.fill }),
    svg("path", { class: "dunno", fill: "url(#hatch)", d: p.dunno }), svg("path", { class: "cross", d: p.cross })), " ",
    el("span", { class: "num" }, text)];
};
const each = (values, gone) => {
  const parts = values.map((v) => known(v) ? whole(v) + " %" : unknown);
  if (gone > 0) parts.push(gone + " missing");
  return parts.join(", ");
};
const use = (n) => {
  const values = rowsOf(n).map((g) => g.utilization_percent);
  const said = values.filter(known);
  const gone = missing(n);
  if (values.length + gone === 0) return ["", unknown, () => [none(unknown)]];
  const text = said.length ? whole(said.reduce((a, b) => a + b, 0) / said.length) + " %" : unknown;
  const says = "Utilisation of each GPU: " + each(values, gone);
  return [says, text, () => gauge(values, gone, says, text)];
};
export const share = (g) => known(g.memory_used_mib) && g.memory_total_mib > 0 ? g.memory_used_mib / g.memory_total_mib * 100 : null;
const memory = (n) => {
  const gpus = rowsOf(n);
  const values = gpus.map(share);
  const said = gpus.filter((g) => known(share(g)));
  const gone = missing(n);
  if (values.length + gone === 0) return ["", unknown, () => [none(unknown)]];
  const sum = (name) => said.reduce((total, g) => total + g[name], 0);
  let says = "Memory of each GPU: " + each(values, gone);
  let text = unknown;
  if (said.length) {
    text = gib(sum("memory_used_mib"));
    says += "; " + text + " of " + gib(sum("memory_total_mib"));
    if (said.some((g) => g.memory_source === "unified")) says += ", shared with the CPU";
  }
  return [says, text, () => gauge(values, gone, says, text)];
};
const highest = (n) => {
  const said = (n.gpus ?? []).map((g) => g.temperature_celsius).filter(known);
  return said.length ? whole(Math.max(...said)) + " °C" : unknown;
};
const power = (n) => {
  const said = (n.gpus ?? []).map((g) => g.power_watts).filter(known);
  return said.length ? watts(said.reduce((a, b) => a + b, 0)) : unknown;
};
const isWorse = (n) => n.findings.length > 0 || n.state === "unavailable" && n.state_reasons.length > 0;
const worst = (n) => {
  const first = n.findings[0];
  if (first) {
    const [kind, shape] = marks[first.severity] ?? ["unknown", "◌"];
    const more = n.findings.length - 1;
    const made = () => [mark(kind, shape, first.text), ...(more ? [" ", el("span", { class: "hint" }, "+" + more)] : [])];
    return [(first.text + " " + first.next.replaceAll("NAME", () => n.name)).trim(), first.severity + more, made];
  }
  if (isWorse(n)) {
    const reasons = [...n.state_reasons].sort().join(", ").replaceAll("_", " ");
    return [reasons, "", () => [mark(...marks.severe, reasons)]];
  }
  return ["", "", () => [none(unknown)]];
};

// cellsOf gives for each cell: class, title (null: none), what makes it differ, and what makes its content.
const cellsOf = (n) => {
  const gpus = gpuText(n);
  const old = !n.fresh && n.gpus?.length ? " old" : "";
  const [useSays, useText, useMake] = use(n);
  const [memorySays, memoryText, memoryMake] = memory(n);
  const [worstSays, worstKey, worstMake] = worst(n);
  const text = (value) => () => [value];
  const status = n.unheard ? n.status + "?" : n.status; // as api.StatusUnheard
  const age = old && n.status === "online" ? n.read_at : "";
  const gpusMake = () => age ? [gpus + " ", el("span", { class: "hint" }, when(age))] : [gpus];
  const heat = highest(n);
  const draw = power(n);
  const link = () => [el("a", { href: "/ui/nodes/" + encodeURIComponent(n.name), title: n.name, "data-open": "" }, n.name)];
  return [
    ["name", null, n.name, link],
    ["status", null, status, () => [wordMark(status)]],
    ["state", null, n.state, () => [wordMark(n.state)]],
    ["tenant", n.tenant, n.tenant, text(n.tenant)],
    ["provider", n.provider, n.provider, text(dash(n.provider))],
    ["gpus" + (missing(n) ? " missing" : ""), gpus, gpus + age, gpusMake],
    ["use" + old, useSays, useText + useSays, useMake],
    ["mem" + old, memorySays, memoryText + memorySays, memoryMake],
    ["temp" + old, null, heat, text(heat)],
    ["power" + old, null, draw, text(draw)],
    ["worst", worstSays, worstSays + worstKey, worstMake],
    ["seen", null, n.last_seen ?? "", () => [when(n.last_seen)]],
  ];
};

const labels = ["Name", "Status", "State", "Tenant", "Provider", "GPUs", "Utilisation", "Memory", "Temperature", "Power", "Finding", "Seen"];

// makeRow makes a row; pick says whether it can be selected, and whether it is.
export const makeRow = (n, pick) => {
  const row = el("tr", { "data-id": n.id });
  if (pick.write) {
    const box = el("input", { type: "checkbox", name: "node", form: "actions", value: n.id, "aria-label": "Select " + n.name });
    box.checked = pick.picked.has(n.id);
    row.append(el("td", { class: "pick" }, box));
  }
  row.parts = labels.map(() => {
    const cell = el("td");
    row.append(cell);
    return { cell, key: null };
  });
  patchRow(row, n);
  return row;
};

const flash = (cell) => {
  cell.classList.remove("flash");
  requestAnimationFrame(() => cell.classList.add("flash"));
};

// patchRow changes what differs, and nothing else.
export const patchRow = (row, n) => {
  row.classList.toggle("worse", isWorse(n));
  cellsOf(n).forEach(([kind, title, key, make], i) => {
    const part = row.parts[i];
    if (part.kind !== kind) part.cell.className = part.kind = kind;
    if (part.key === key) return;
    if (known(title)) part.cell.title = title;
    part.cell.replaceChildren(...make());
    if (part.key !== null && kind !== "seen") flash(part.cell);
    part.key = key;
  });
};
