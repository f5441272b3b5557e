// Shows what the gateway sends over /events: its status and the last hour of each path. What comes
// from elsewhere is set as text, never as HTML.
"use strict";

const HOUR_S = 3600;
const SILENCE_MS = 5000;
const COLOURS = 6; // path0 to path5 of the style

const byId = (id) => document.getElementById(id);

/** Appends an element. */
function add(parent, name, text = "", attributes = {}) {
  const made = document.createElementNS(parent.namespaceURI, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  parent.append(made);
  return made;
}

/** An element of the page without its children. */
function emptied(id) {
  const element = byId(id);
  element.replaceChildren();
  return element;
}

const fixed = (value, decimals) => value?.toFixed(decimals) ?? "–";
const percent = (fraction, decimals) =>
  fraction === null ? fixed(null) : `${fixed(100 * fraction, decimals)} %`;

/** 1500000 is "1.5 MB". */
function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  while (value >= 1000 && units.length > 1) {
    value /= 1000;
    units.shift();
  }
  return `${fixed(value, units[0] !== "B" && value < 100 ? 1 : 0)} ${units[0]}`;
}

/** 90061 s is "1 d 1 h": the two largest units. */
function duration(seconds) {
  const units = [["d", Infinity, 86400], ["h", 24, 3600], ["min", 60, 60], ["s", 60, 1]];
  const parts = units.map(([unit, most, size]) => [Math.floor(seconds / size) % most, unit]);
  const shown = parts.filter(([count]) => count > 0).slice(0, 2);
  return shown.map((part) => part.join(" ")).join(" ") || "0 s";
}

// The status

const COLUMNS = [
  ["State", (path) => path.condition],
  ["Received Mbit/s", (path) => fixed(path.received_mbps, 2)],
  ["Sent Mbit/s", (path) => fixed(path.sent_mbps, 2)],
  ["Share", (path) => percent(path.share, 0)],
  ["RTT ms", (path) => fixed(path.rtt_ms, 1)],
  ["Smallest RTT ms", (path) => fixed(path.base_rtt_ms, 1)],
  ["Loss", (path) => percent(path.loss, 2)],
  ["Window packets", (path) => fixed(path.window_packets, 0)],
  ["MTU bytes", (path) => path.mtu_bytes],
  ["Carried", (path) => bytes(path.sent_bytes + path.received_bytes)],
  ["Deaths", (path) => path.deaths],
];

function showStatus(status) {
  document.title = `Anabranch ${status.role}`;
  byId("role").textContent = status.role;
  const facts = emptied("facts");
  for (const [name, value] of [
    ["State", status.phase],
    ["Up for", duration(status.uptime_s)],
    ["Carrier", status.carrier],
    ["Rule", status.algorithm],
    ["Connections", status.connections],
    ["Version", status.version],
  ]) {
    const fact = add(facts, "div");
    add(fact, "dt", name);
    add(fact, "dd", value);
  }
  showReload(status.reload ?? { errors: [], restart: [], applied: [] });
  const tunnels = emptied("tunnels");
  if (status.tunnels.length === 0) add(tunnels, "p", "No tunnel is established.");
  for (const failure of status.failures ?? []) add(tunnels, "p", failure);
  for (const tunnel of status.tunnels) showTunnel(tunnels, tunnel);
  showCounters(status.counters.filter((counter) => counter.value > 0));
}

function showReload({ errors, restart, applied }) {
  const list = emptied("reload");
  for (const text of errors) add(list, "li", `Reload refused: ${text}`, { class: "fault" });
  for (const text of restart) {
    add(list, "li", `Takes effect with a restart: ${text}`, { class: "fault" });
  }
  for (const text of applied) add(list, "li", `Reloaded: ${text}`);
}

/** The roles are those of a table, also where the style shows a card for each row. */
function showTunnel(parent, tunnel) {
  const section = add(parent, "section");
  add(section, "h2", `Tunnel ${tunnel.name}`);
  const kappa = tunnel.kappa === null ? "" : `, kappa ${fixed(tunnel.kappa, 2)}`;
  add(section, "p", `${bytes(tunnel.unsent_bytes)} unsent${kappa}`, { class: "unsent" });
  const table = add(section, "table", "", { class: "paths", role: "table" });
  const head = add(add(table, "thead", "", { role: "rowgroup" }), "tr", "", { role: "row" });
  for (const heading of ["Path", ...COLUMNS.map(([heading]) => heading)]) {
    add(head, "th", heading, { scope: "col", role: "columnheader" });
  }
  const body = add(table, "tbody", "", { role: "rowgroup" });
  for (const path of tunnel.paths) {
    const row = add(body, "tr", "", { role: "row" });
    const name = add(row, "th", "", { scope: "row", role: "rowheader" });
    addName(name, `${tunnel.name} ${path.name}`.trim(), path.name);
    for (const [heading, cell] of COLUMNS) {
      add(row, "td", cell(path), { role: "cell", "data-label": heading });
    }
    row.children[1].classList.add(path.condition);
    const facts = [path.interface, path.local, path.reason].filter(Boolean);
    if (facts.length > 0) add(section, "p", `${path.name}: ${facts.join(", ")}`);
  }
}

function showCounters(counters) {
  const table = emptied("counters");
  for (const { help, label, value } of counters) {
    const row = add(table, "tr");
    add(row, "th", label ? `${help} (${label.join(" ")})` : help, { scope: "row" });
    add(row, "td", value);
  }
  table.closest("details").hidden = counters.length === 0;
}

// The last hour

const [SENT, RECEIVED, RTT, PACKETS, LOST, KAPPA] = [0, 1, 2, 3, 4, 5]; // columns of a sample

/** Samples of each path by name, one per second up to `second`. */
let samples = new Map();
let second = 0;

function append(history) {
  const names = Object.keys(history.paths).sort();
  const all = (name) => [...(samples.get(name) ?? []), ...history.paths[name]].slice(-HOUR_S);
  samples = new Map(names.map((name) => [name, all(name)]));
  second = history.second;
}

/** Appends the name of a path, with its colour in the plots. */
function addName(parent, name, shown) {
  const place = [...samples.keys()].indexOf(name);
  if (place >= 0) add(parent, "i", "", { class: `path${place % COLOURS}` });
  parent.append(shown);
}

function mean(column, seconds) {
  const known = seconds.map((sample) => sample[column]).filter((value) => value !== null);
  return known.length > 0 ? known.reduce((sum, value) => sum + value) / known.length : null;
}

/** Percent of the packets sent, as in the table; 0 if nothing was sent. */
function loss(seconds) {
  if (mean(SENT, seconds) === null) return null;
  const [packets, lost] = [mean(PACKETS, seconds), mean(LOST, seconds)];
  return packets > 0 ? Math.min(100, (100 * lost) / packets) : 0;
}

// Plotted quantities: the value of some seconds, their least number, and the axis' least range.
const QUANTITIES = {
  received: { value: (seconds) => mean(RECEIVED, seconds), over: 1, least: 0.1 },
  sent: { value: (seconds) => mean(SENT, seconds), over: 1, least: 0.1 },
  rtt: { value: (seconds) => mean(RTT, seconds), over: 1, least: 1 },
  loss: { value: loss, over: 10, least: 1 },
  kappa: { value: (seconds) => mean(KAPPA, seconds), over: 1, least: 1 },
};

/** Points of a curve, [age in seconds, value], each of `size` seconds. They end at multiples of
 * `size`, so that a point does not change once it is complete. */
function points(all, size, { value, over }) {
  const points = [];
  let end = all.length;
  while (end > 0) {
    const age = all.length - end;
    const start = Math.max(0, end - 1 - ((second - age - 1) % size));
    points.push([age, value(all.slice(Math.max(0, Math.min(start, end - over)), end))]);
    end = start;
  }
  return points;
}

/** At most five round values from 0 to `top`, as labels. */
function valueLabels(top) {
  const size = 10 ** Math.floor(Math.log10(top / 4));
  const step = size * [1, 2, 5, 10].find((factor) => 5 * factor * size > top);
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const count = Math.floor(top / step + 1e-9);
  return Array.from({ length: count + 1 }, (_, i) => (i * step).toFixed(decimals));
}

/** Round ages up to `span` seconds. */
function ages(span, most) {
  const step = [15, 30, 60, 120, 300, 600, 1200, HOUR_S].find((step) => span / step <= most);
  const label = (age) => (step < 60 ? `−${age} s` : `−${age / 60} min`);
  const times = Array.from({ length: Math.floor(span / step) + 1 }, (_, i) => i * step);
  return times.map((age) => [age, age === 0 ? "now" : label(age)]);
}

/** A curve as a path of SVG, with gaps where there is no value. */
function line(curve, x, y) {
  let drawn = false;
  const steps = curve.map(([age, value]) => {
    const [at, begins] = [`${x(age)} ${y(value)}`, !drawn];
    drawn = value !== null;
    // A line to its own begin shows a single point.
    return drawn ? `${begins ? `M${at}` : ""}L${at}` : "";
  });
  return steps.join("");
}

function plot(section, width) {
  const quantity = QUANTITIES[section.id];
  const [left, right, above, bottom] = [48, width - 16, 8, 146];
  const longest = Math.max(1, ...[...samples.values()].map((all) => all.length));
  const span = 60 * Math.ceil(longest / 60);
  const size = Math.ceil((3 * span) / (right - left)); // a point per 3 px
  const curves = [...samples.values()].map((all) => points(all, size, quantity));
  const values = curves.flat().map((point) => point[1]).filter((value) => value !== null);
  const top = values.reduce((top, value) => Math.max(top, 1.1 * value), quantity.least);
  const x = (age) => (right - ((right - left) * age) / span).toFixed(1);
  const y = (value) => (bottom - ((bottom - above) * value) / top).toFixed(1);

  section.hidden = values.length === 0;
  const svg = section.querySelector("svg");
  svg.replaceChildren();
  svg.setAttribute("width", width);
  svg.setAttribute("height", bottom + 24);
  for (const label of valueLabels(top)) {
    add(svg, "path", "", { class: "grid", d: `M${left} ${y(label)}H${right}` });
    add(svg, "text", label, { class: "value", x: left - 6, y: Number(y(label)) + 4 });
  }
  for (const [age, label] of ages(span, Math.min(6, width / 100))) {
    add(svg, "text", label, { class: "time", x: x(age), y: bottom + 18 });
  }
  const said = [`${section.querySelector("h2").textContent}, last ${span / 60} min`];
  [...samples.keys()].forEach((name, i) => {
    add(svg, "path", "", { class: `curve path${i % COLOURS}`, d: line(curves[i], x, y) });
    said.push(`${name} ${fixed(curves[i][0]?.[1], 2)}`);
  });
  svg.setAttribute("aria-label", said.join("; "));
}

function showHistory() {
  const legend = emptied("legend");
  for (const name of samples.keys()) addName(add(legend, "li"), name, name);
  const width = byId("plots").clientWidth;
  for (const section of byId("plots").children) plot(section, width);
}

// Events

function say(text, isFault) {
  const line = byId("connection");
  // A screen reader announces each change.
  if (line.textContent !== text) line.textContent = text;
  line.classList.toggle("fault", isFault);
}

let silence;
say("Connecting", false);
const events = new EventSource("/events");
// The first update of a connection has the whole hour.
events.onopen = () => { samples = new Map(); };
events.onerror = () => say("Not live: no connection to the gateway.", true);
events.addEventListener("update", (event) => {
  const { status, history } = JSON.parse(event.data);
  append(history);
  clearTimeout(silence);
  silence = setTimeout(() => say("Not live: the gateway sends nothing.", true), SILENCE_MS);
  if (document.hidden) return;
  showStatus(status);
  showHistory();
  say("Live", false);
});
