// The page: what it shows, what runs, and what the controls do.

import { Refused, events, get, post, postForBlob, stored } from "./api.js";
import { drawBars, drawNumbers } from "./bars.js";
import { Chart, QUANTITIES, drawn } from "./charts.js";
import { Schema } from "./completion.js";
import { arrowKeys, byId, download, make, number, scheme } from "./dom.js";
import { Editor } from "./editor.js";
import { LogView } from "./log.js";
import { setPalette, ofRule } from "./palette.js";
import { figure, fileName, inSeconds } from "./save.js";
import { Sliders } from "./sliders.js";
import { fromFragment, initial, toFragment } from "./state.js";
import { Topology } from "./topology.js";

const CHECK_MS = 150;
const RERUN_MS = 40;

let start;
let state = initial();
let plan = null;
let runs = [];
let optimum = null;
let selected = null;
let charts = [];
let running = null;
let begun = 0;
let hovered = null;
let seen = false;
let results = null;

const topology = new Topology(byId("topology"), select);
const sliders = new Sliders(byId("sliders"), changeValue);
const logView = new LogView(byId("log-view"), say);
let editor;

// ------------------------------------------------------------------ status

function say(text) {
  byId("status-text").textContent = text;
}

function showProblem(text) {
  byId("problem").hidden = !text;
  byId("problem").textContent = text ?? "";
}

// ------------------------------------------------------------------ the state and its link

let linked = "";

async function remember() {
  linked = await toFragment(state);
  history.replaceState(null, "", linked);
}

function request() {
  const rules = [state.a || null, ...(state.b ? [state.b] : [])];
  return { ...source(), rules, seed: state.seed, on: state.on };
}

function source() {
  const own = state.toml === null ? {} : { toml: state.toml };
  return { item: state.item || undefined, ...own, set: state.set };
}

// ------------------------------------------------------------------ runs

let again = null;

function rerunSoon() {
  clearTimeout(again);
  again = setTimeout(run, RERUN_MS);
}

async function run() {
  clearTimeout(again);
  running?.abort();
  if (results) return;
  const controller = new AbortController();
  running = controller;
  begun = performance.now();
  const fresh = state.a === "";
  byId("stop").disabled = false;
  showProblem(null);
  say("Starting");
  remember();
  try {
    for await (const event of events(request(), controller.signal)) {
      if (running !== controller) return;
      take(event);
    }
  } catch (error) {
    if (running !== controller) return;
    if (error.name === "AbortError") {
      say("Stopped");
    } else {
      report(error);
    }
  }
  ended();
  if (fresh && plan) fillRules();
}

function report(error) {
  say("Not run");
  const text = error instanceof Refused ? error.message : "The server does not answer. Is anabranch ui still running?";
  showProblem(error.line ? `Line ${error.line}: ${text}` : text);
  if (error.line) showFault(error);
}

function ended() {
  running = null;
  byId("stop").disabled = true;
  byId("progress").hidden = true;
}

function stop() {
  clearTimeout(again);
  running?.abort();
}

function take(event) {
  if (event.type === "plan") {
    takePlan(event);
  } else if (event.type === "samples") {
    if (event.time?.length) append(runs[event.run], event);
    progress(event.run, event.progress);
  } else if (event.type === "result") {
    append(runs[event.run], event);
    runs[event.run].totals = event.totals;
    progress(event.run, 1);
    drawSoon();
  } else if (event.type === "optimum") {
    optimum = event;
    drawSoon();
  } else if (event.type === "equilibrium") {
    runs[event.run].equilibrium = event;
    drawSoon();
  } else if (event.type === "queued") {
    say(`Waiting for ${event.jobs} other runs`);
  } else if (event.type === "error") {
    runs[event.run].failed = event.message;
    showProblem(`${plan.runs[event.run].rule}: ${event.message}`);
  } else if (event.type === "done") {
    const failed = runs.some((one) => one.failed);
    const took = number((performance.now() - begun) / 1000, 2);
    say(failed ? "Failed" : `${results ? "Stored result" : `Done in ${took} s`}: ${plan.duration_s} s on ${plan.on}, seed ${plan.seed}`);
    mark("complete");
  }
}

// A time in the life of the newest run, for who measures how soon the page answers.
function mark(name) {
  performance.clearMarks(name);
  performance.mark(name);
}

const empty = () => ({ time: [], goodput: [], window: [], rtt: [], path_goodput: [], queue: [], throughput: [] });

function takePlan(found) {
  const before = plan;
  plan = found;
  optimum = null;
  seen = false;
  // What is drawn stays until there are new samples, so that a slider does not make it flicker.
  runs = found.runs.map((_, index) => ({ points: empty(), old: runs[index]?.points, done: 0 }));
  showScenario(found);
  const shape = (one) => JSON.stringify([one?.users, one?.paths, one?.links, one?.runs, one?.duration_s, one?.flows]);
  if (shape(before) !== shape(found)) {
    buildCharts();
    if (selected && !selectable(selected)) select(null);
  }
  const end = byId("time");
  const atEnd = Number(end.value) >= Number(end.max);
  end.max = found.duration_s;
  if (atEnd) end.value = found.duration_s;
  const list = found.warnings.map((text) => make("li", {}, text));
  byId("warnings").replaceChildren(...list);
  showTime();
}

function append(one, event) {
  for (const name of Object.keys(one.points)) {
    if (name === "time") one.points.time.push(...event.time);
    else event[name].forEach((column, line) => (one.points[name][line] ??= []).push(...column));
  }
  one.old = undefined;
  drawSoon();
}

function progress(index, done) {
  runs[index].done = done;
  const all = runs.reduce((sum, one) => sum + one.done, 0) / runs.length;
  byId("progress").hidden = false;
  byId("progress").value = all;
  say(`Running: ${Math.floor(100 * all)} %`);
}

// ------------------------------------------------------------------ drawing

let frame = 0;

function drawSoon() {
  frame ||= requestAnimationFrame(() => {
    frame = 0;
    draw();
  });
}

function draw() {
  const shown = runs.map((one) => (one.points.time.length ? one.points : one.old ?? empty()));
  for (const quantity of QUANTITIES) {
    const own = charts.filter((one) => one.quantity === quantity);
    const columns = shown.map((points, run) => {
      const lines = own[run].lines.map((_, line) => points[quantity.name][line] ?? []);
      return drawn(quantity, plan, points.time, lines);
    });
    const tops = columns.map((all, run) => Chart.topOf(shown[run].time, all, plan.warmup_s));
    own.forEach((chart, run) => chart.show(shown[run].time, columns[run], Math.max(...tops)));
  }
  drawBars(byId("bars"), plan, runs.map((one, index) => ({ ...one, points: shown[index] })), optimum, selected);
  drawNumbers(byId("numbers"), plan, runs);
  showTime();
  if (!seen && runs.some((one) => one.points.time.length)) {
    seen = true;
    mark("drawn");
  }
}

function buildCharts() {
  for (const chart of charts) chart.close();
  const place = byId("charts");
  place.classList.toggle("two", plan.runs.length > 1);
  const columns = plan.runs.map(({ rule }, index) => {
    const swatch = make("i", { className: "rule-swatch" });
    swatch.style.background = ofRule(rule, plan.runs.map((one) => one.rule));
    const which = plan.runs.length > 1 ? `${"AB"[index]}: ` : "";
    const column = make("section", { className: "card column" }, make("h2", {}, swatch, `${which}${rule}`));
    column.setAttribute("aria-label", `Charts of ${rule}`);
    for (const quantity of QUANTITIES) {
      const chart = new Chart(quantity, plan, hover, select);
      chart.run = index;
      chart.rule = rule;
      column.append(chart.element);
      charts.push(chart);
    }
    return column;
  });
  charts = charts.filter((chart) => columns.some((column) => column.contains(chart.element)));
  place.replaceChildren(...columns);
  for (const chart of charts) chart.select(selected);
}

function recolour() {
  if (!plan) return;
  topology.recolour();
  buildCharts();
  draw();
  logView.redraw();
}

function selectable(one) {
  if (one.link !== undefined) return plan.links.includes(one.link);
  return one.flow < plan.flows.length && (one.path ?? 0) < plan.flows[one.flow].paths.length;
}

function select(one) {
  const same = JSON.stringify(one) === JSON.stringify(selected);
  selected = same ? null : one;
  topology.mark(selected);
  for (const chart of charts) chart.select(selected);
  drawBars(byId("bars"), plan, runs, optimum, selected);
}

// ------------------------------------------------------------------ time

function hover(time) {
  if (hovered === time) return;
  hovered = time;
  showTime();
}

function showTime() {
  const time = hovered ?? Number(byId("time").value);
  byId("time-text").textContent = inSeconds(time);
  for (const chart of charts) chart.at(time);
  const one = runs[0];
  if (!one) return;
  const points = one.points.time.length ? one.points : one.old ?? empty();
  topology.at(points, points.time.findLastIndex((at) => at <= time));
}

// ------------------------------------------------------------------ the scenario

function showScenario(found) {
  found.rates_mbps ??= [];
  byId("scenario-name").textContent = found.name || "Scenario";
  document.title = `${found.name || "Scenario"} – Anabranch`;
  topology.show(found);
  topology.mark(selected);
  sliders.show(found.parameters, state.set);
  showChanges(found);
  showFault(null);
}

function showFault(error) {
  byId("editor-error").textContent = error ? `${error.line ? `Line ${error.line}: ` : ""}${error.message}` : "";
  editor.fault(error?.line);
}

function showChanges(found) {
  const keys = Object.keys(state.set);
  const chips = keys.map((key) => {
    const drop = make("button", { type: "button", "aria-label": `Take back ${key}` }, "×");
    drop.addEventListener("click", () => changeValue(key, null));
    return make("li", {}, make("code", {}, `${key} = ${state.set[key]}`), drop);
  });
  const parts = [];
  if (keys.length) {
    const write = make("button", { type: "button" }, "Write into the text");
    write.addEventListener("click", () => {
      state.toml = found.text;
      state.set = {};
      editor.text = found.text;
      check();
      remember();
    });
    parts.push(make("p", { className: "small" }, "Changed by sliders, on top of the text:"), make("ul", {}, ...chips), write);
  }
  byId("changes").replaceChildren(...parts);
}

function changeValue(key, toml) {
  if (toml === null) delete state.set[key];
  else state.set[key] = toml;
  rerunSoon();
}

let checking = 0;

function changeText(text) {
  state.toml = text;
  clearTimeout(checking);
  checking = setTimeout(check, CHECK_MS);
}

// Reads the text and shows errors, sliders and the network, without a run.
async function check() {
  try {
    const found = await post("api/check", source());
    showFault(null);
    sliders.show(found.parameters, state.set);
    showChanges(found);
  } catch (error) {
    if (error instanceof Refused) showFault(error);
    else report(error);
  }
}

async function openItem(id) {
  const item = start.gallery.find((one) => one.id === id);
  const found = await get("api/item", { id });
  results = null;
  show("run");
  state = { ...state, item: id, toml: null, set: found.set, a: "" };
  state.seed = Number(byId("seed").value) || 1;
  editor.text = found.toml;
  byId("description").textContent = item?.description ?? "";
  markItem(id);
  await run();
}

function markItem(id) {
  for (const button of byId("gallery").querySelectorAll("button")) {
    button.setAttribute("aria-pressed", button.dataset.id === id);
  }
}

// ------------------------------------------------------------------ controls

function fillGallery() {
  const groups = Map.groupBy(start.gallery, (one) => one.group);
  const sections = [...groups].map(([group, items]) => {
    const buttons = items.map((one) => {
      const button = make("button", { type: "button", title: one.description, "aria-pressed": "false" }, one.title);
      button.dataset.id = one.id;
      button.addEventListener("click", () => {
        byId("picker").open = false;
        openItem(one.id).catch(report);
      });
      return button;
    });
    return make("div", { className: "group" }, make("h3", {}, group), ...buttons);
  });
  byId("gallery").replaceChildren(...sections);
  byId("filter").addEventListener("input", () => {
    const sought = byId("filter").value.toLowerCase();
    for (const button of byId("gallery").querySelectorAll("button")) {
      button.hidden = !`${button.textContent} ${button.title}`.toLowerCase().includes(sought);
    }
    for (const group of byId("gallery").children) group.hidden = !group.querySelector("button:not([hidden])");
  });
  byId("filter").addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") byId("gallery").querySelector("button:not([hidden])")?.focus();
  });
  arrowKeys(byId("gallery"), "button", ["ArrowUp", "ArrowDown"]);
}

function fillSelect(select, names, value) {
  select.replaceChildren(...names.map(([name, label]) => make("option", { value: name }, label)));
  select.value = value;
}

// Shows the rules of the state: names in lists, parameters beside them.
function fillRules() {
  const names = results?.algorithms ?? start.rules.map((rule) => rule.name);
  const own = plan && !results ? plan.algorithm : null;
  for (const [key, none] of [["a", null], ["b", ["", "none"]]]) {
    const spec = state[key] || (key === "a" ? own ?? "" : "");
    const whole = results ? spec : spec.split(":")[0];
    const list = names.map((name) => [name, name]);
    if (none) list.unshift(none);
    if (key === "a" && !results && plan && plan.algorithm === null) list.unshift(["", "each flow's own"]);
    fillSelect(byId(`rule-${key}`), list, whole);
    byId(`with-${key}`).value = results ? "" : spec.split(":").slice(1).join(":");
    showParameters(key);
  }
  byId("rule-a").disabled = !results && plan?.algorithm === null;
  byId("rule-b").disabled = byId("rule-a").disabled;
}

function showParameters(key) {
  const rule = start.rules.find((one) => one.name === byId(`rule-${key}`).value);
  const field = byId(`with-${key}`);
  field.hidden = results !== null || !rule?.parameters.length;
  if (field.hidden) return;
  field.placeholder = rule.parameters.map((one) => `${one.name}=${one.default}`).join(",");
  field.title = rule.parameters.map((one) => `${one.name}: ${one.meaning}`).join("\n");
}

function readControls() {
  for (const key of ["a", "b"]) {
    const name = byId(`rule-${key}`).value;
    const own = byId(`with-${key}`);
    state[key] = name && !own.hidden && own.value.trim() ? `${name}:${own.value.trim()}` : name;
  }
  state.on = byId("backend").value;
  state.seed = Number(byId("seed").value) || 0;
}

function listen() {
  byId("run-form").addEventListener("submit", (event) => {
    event.preventDefault();
    readControls();
    restart();
  });
  byId("stop").addEventListener("click", stop);
  for (const id of ["rule-a", "rule-b", "with-a", "with-b", "backend", "seed"]) {
    byId(id).addEventListener("change", () => {
      if (id.startsWith("rule")) {
        byId(`with-${id.at(-1)}`).value = "";
        showParameters(id.at(-1));
      }
      readControls();
      restart();
    });
  }
  addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.ctrlKey) {
      event.preventDefault();
      readControls();
      restart();
    } else if (event.key === "Escape") {
      stop();
    }
  });
  byId("time").addEventListener("input", () => {
    hovered = null;
    showTime();
  });
  byId("time").addEventListener("keydown", stepTime);
  for (const tab of ["sliders", "text"]) {
    byId(`tab-${tab}`).addEventListener("click", () => openTab(tab));
  }
  arrowKeys(document.querySelector(".tabs"), "button", ["ArrowLeft", "ArrowRight"]);
  document.querySelector(".tabs").addEventListener("focusin", (event) => openTab(event.target.id.slice(4)));
  scheme.addEventListener("change", recolour);
  addEventListener("hashchange", async () => {
    if (location.hash !== linked) await openFragment();
  });
  listenToSave();
}

// With arrows the scrubber goes from sample to sample.
function stepTime(event) {
  const step = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -20, PageUp: 20 }[event.key];
  const times = runs[0]?.points.time;
  if (!step || !times?.length) return;
  event.preventDefault();
  const now = times.findLastIndex((at) => at <= Number(byId("time").value));
  byId("time").value = times[Math.max(0, Math.min(times.length - 1, now + step))];
  hovered = null;
  showTime();
}

function openTab(name) {
  for (const tab of ["sliders", "text"]) {
    byId(tab).hidden = tab !== name;
    byId(`tab-${tab}`).setAttribute("aria-selected", tab === name);
    byId(`tab-${tab}`).tabIndex = tab === name ? 0 : -1;
  }
}

function restart() {
  if (results) replay().catch(report);
  else run();
}

function listenToSave() {
  const name = () => fileName(plan?.name ?? "scenario");
  byId("copy-link").addEventListener("click", async () => {
    await remember();
    const link = `${location.origin}/${linked}`;
    try {
      await navigator.clipboard.writeText(link);
      say("Link copied");
    } catch {
      say("The address of this page is the link");
    }
  });
  byId("save-toml").addEventListener("click", () => {
    const text = Object.keys(state.set).length || state.item && state.toml === null && results ? plan.text : editor.text;
    download(new Blob([text], { type: "application/toml" }), `${name()}.toml`);
  });
  byId("save-figure").addEventListener("click", async () => {
    const order = QUANTITIES.flatMap((one) => charts.filter((chart) => chart.quantity === one));
    download(await figure(plan.name || "Scenario", order, plan.runs.length), `${name()}.png`);
  });
  byId("save-data").addEventListener("click", async () => {
    say("Packing tables and figures");
    try {
      download(await postForBlob("api/export", request()), `${name()}.zip`);
      say("Saved");
    } catch (error) {
      report(error);
    }
  });
}

// ------------------------------------------------------------------ what the page opens with

function show(view) {
  document.body.dataset.view = view;
  byId("run-view").hidden = view === "log";
  byId("log-view").hidden = view !== "log";
  byId("scrub").hidden = view === "log";
  byId("save-data").hidden = view !== "run";
}

async function replay() {
  const query = { a: state.a, seed: state.seed };
  if (state.b) query.b = state.b;
  showProblem(null);
  for await (const event of stored(query)) take(event);
  ended();
}

async function openFragment() {
  const found = await fromFragment(location.hash);
  if (!found) return false;
  results = null;
  show("run");
  state = found;
  const item = state.item ? await get("api/item", { id: state.item }) : null;
  editor.text = state.toml ?? item.toml;
  byId("description").textContent = start.gallery.find((one) => one.id === state.item)?.description ?? "";
  byId("backend").value = state.on;
  byId("seed").value = state.seed;
  markItem(state.item);
  fillRules();
  await run();
  return true;
}

async function open() {
  start = await get("api/start");
  setPalette(start.palette);
  editor = new Editor(byId("editor"), new Schema(start.schema, start.rules), changeText);
  fillGallery();
  fillSelect(byId("backend"), start.backends.map((name) => [name, name]), state.on);
  fillRules();
  listen();
  const { opened } = start;
  if (opened.kind === "gallery" || location.hash) {
    if (!(await openFragment())) await openItem(state.item);
  } else if (opened.kind === "scenario") {
    show("run");
    state = { ...state, item: "", toml: opened.toml };
    editor.text = opened.toml;
    await run();
  } else if (opened.kind === "results") {
    show("results");
    results = opened;
    state = { ...state, item: "", a: opened.algorithms[0], b: opened.algorithms[1] ?? "", seed: opened.seeds[0], on: opened.on };
    byId("seed").value = state.seed;
    fillSelect(byId("backend"), [[opened.on, opened.on]], opened.on);
    fillRules();
    await replay();
    editor.text = plan.text;
    byId("description").textContent = `The stored result ${opened.name}. A scenario of the gallery runs anew.`;
  } else {
    show("log");
    byId("scenario-name").textContent = opened.name;
    byId("description").textContent = "QLOG files. A scenario of the gallery runs anew.";
    await logView.open(opened.logs);
  }
}

open().catch(report);
