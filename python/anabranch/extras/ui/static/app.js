// The page: its state and link, runs, the scenario's text, and what the controls do.

import { Refused, events, get, post, postForBlob, stored } from "./api.js";
import { QUANTITIES } from "./charts.js";
import { Rules, fillGallery, fillSelect, markItem } from "./choices.js";
import { Schema } from "./completion.js";
import { arrowKeys, byId, download, make, scheme } from "./dom.js";
import { Editor } from "./editor.js";
import { LogView } from "./log.js";
import { setPalette } from "./palette.js";
import { Results } from "./results.js";
import { figure, fileName } from "./save.js";
import { Sliders } from "./sliders.js";
import { fromFragment, initial, toFragment } from "./state.js";

const CHECK_MS = 150;
const RERUN_MS = 120;

let start;
let state = initial();
let running = null;
let archived = null;
let editor;
let rules;

const results = new Results({ say, problem: showProblem, planned: showScenario });
const sliders = new Sliders(byId("sliders"), changeValue);
const logView = new LogView(byId("log-view"), say);

// ------------------------------------------------------------------ status

function say(text) {
  byId("status-text").textContent = text;
}

function showProblem(text) {
  byId("problem").hidden = !text;
  byId("problem").textContent = text ?? "";
}

function report(error) {
  say("Not run");
  results.outdate();
  const gone = "The server does not answer. Is anabranch ui still running?";
  const text = error instanceof Refused ? error.message : gone;
  showProblem(error.line ? `Line ${error.line}: ${text}` : text);
  if (error.line) showFault(error);
}

// ------------------------------------------------------------------ the state and its link

let linked = "";

async function remember() {
  linked = await toFragment(state);
  history.replaceState(null, "", linked);
}

function source() {
  const own = state.toml === null ? {} : { toml: state.toml };
  return { item: state.item || undefined, ...own, set: state.set };
}

function request() {
  const chosen = [state.a || null, ...(state.b ? [state.b] : [])];
  return { ...source(), rules: chosen, seed: state.seed, on: state.on };
}

function readControls() {
  for (const key of ["a", "b"]) state[key] = rules.read(key);
  state.on = byId("backend").value;
  state.seed = byId("seed").value.trim() === "" ? null : Number(byId("seed").value);
}

// Seeds of the page are those that a number of JavaScript holds exactly.
function checkSeed() {
  if (state.seed !== null && Number.isSafeInteger(state.seed) && state.seed >= 0) return;
  const given = byId("seed").value.trim() || "nothing";
  throw new Refused({ message: `Seed: expected a whole number from 0 to ${Number.MAX_SAFE_INTEGER}, got ${given}.` });
}

function showControls() {
  const own = archived ? {} : { own: results.plan?.algorithm };
  rules.show(state, { stored: archived?.algorithms, ...own });
  byId("backend").value = state.on;
  byId("seed").value = state.seed;
}

// ------------------------------------------------------------------ runs

let again = null;
let ran = 0;

// The first move of a slider runs at once; those that follow closely wait for one another.
function rerunSoon() {
  clearTimeout(again);
  const wait = Math.max(0, ran + RERUN_MS - performance.now());
  if (wait === 0) run();
  else again = setTimeout(run, wait);
}

async function run() {
  clearTimeout(again);
  running?.abort();
  if (archived) return;
  const controller = new AbortController();
  running = controller;
  const begun = performance.now();
  ran = begun;
  byId("stop").disabled = false;
  showProblem(null);
  say("Starting");
  remember();
  try {
    checkSeed();
    for await (const event of events(request(), controller.signal)) {
      if (running !== controller) return;
      results.take(event, begun);
    }
  } catch (error) {
    if (running !== controller) return;
    if (error.name === "AbortError") say("Stopped");
    else report(error);
  }
  ended();
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

async function replay() {
  const query = { a: state.a, seed: state.seed };
  if (state.b) query.b = state.b;
  showProblem(null);
  checkSeed();
  for await (const event of stored(query)) results.take(event);
  ended();
}

function restart() {
  if (archived) replay().catch(report);
  else run();
}

// ------------------------------------------------------------------ the scenario

function showScenario(found) {
  byId("scenario-name").textContent = found.name || "Scenario";
  document.title = `${found.name || "Scenario"} – Anabranch`;
  sliders.show(found.parameters, state.set);
  showChanges(found);
  showFault(null);
  if (state.a === "") showControls();
}

function showFault(error) {
  const where = error?.line ? `Line ${error.line}: ` : "";
  byId("editor-error").textContent = error ? `${where}${error.message}` : "";
  editor.fault(error?.line);
}

function showChanges(found) {
  const chips = Object.keys(state.set).map((key) => {
    const drop = make("button", { type: "button", "aria-label": `Take back ${key}` }, "×");
    drop.addEventListener("click", () => changeValue(key, null));
    return make("li", {}, make("code", {}, `${key} = ${state.set[key]}`), drop);
  });
  if (!chips.length) {
    byId("changes").replaceChildren();
    return;
  }
  const write = make("button", { type: "button" }, "Write into the text");
  write.addEventListener("click", () => {
    state.toml = found.text;
    state.set = {};
    editor.text = found.text;
    check();
    remember();
  });
  const title = make("p", { className: "small" }, "Changed by sliders, on top of the text:");
  byId("changes").replaceChildren(title, make("ul", {}, ...chips), write);
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

// Reads the text and shows its errors or its sliders, without a run.
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

// ------------------------------------------------------------------ controls

function listen() {
  byId("run-form").addEventListener("submit", (event) => {
    event.preventDefault();
    readControls();
    restart();
  });
  byId("stop").addEventListener("click", stop);
  for (const id of ["rule-a", "rule-b", "with-a", "with-b", "backend", "seed"]) {
    byId(id).addEventListener("change", () => {
      if (id.startsWith("rule")) rules.chosen(id.at(-1));
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
  byId("time").addEventListener("input", () => results.moveTime());
  byId("time").addEventListener("keydown", (event) => results.stepTime(event));
  const tabs = document.querySelector(".tabs");
  arrowKeys(tabs, "button", ["ArrowLeft", "ArrowRight"]);
  for (const kind of ["click", "focusin"]) {
    tabs.addEventListener(kind, ({ target }) => target.id && openTab(target.id.slice("tab-".length)));
  }
  scheme.addEventListener("change", () => {
    results.recolour();
    logView.redraw();
  });
  addEventListener("hashchange", () => {
    if (location.hash !== linked) openFragment().catch(report);
  });
  listenToSave();
}

function openTab(name) {
  for (const tab of ["sliders", "text"]) {
    byId(tab).hidden = tab !== name;
    byId(`tab-${tab}`).setAttribute("aria-selected", tab === name);
    byId(`tab-${tab}`).tabIndex = tab === name ? 0 : -1;
  }
}

function listenToSave() {
  const name = () => fileName(results.plan?.name ?? "scenario");
  byId("copy-link").addEventListener("click", async () => {
    await remember();
    try {
      await navigator.clipboard.writeText(`${location.origin}/${linked}`);
      say("Link copied: it opens on this computer while this server runs. Save TOML gives a file to share.");
    } catch {
      say("The address of this page is the link: it opens on this computer while this server runs");
    }
  });
  byId("save-toml").addEventListener("click", () => {
    const text = Object.keys(state.set).length ? results.plan.text : editor.text;
    download(new Blob([text], { type: "application/toml" }), `${name()}.toml`);
  });
  byId("save-figure").addEventListener("click", async () => {
    const { charts, plan } = results;
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

// The view of runs, of stored results or of logs.
function show(view) {
  document.body.dataset.view = view;
  byId("run-view").hidden = view === "log";
  byId("log-view").hidden = view !== "log";
  byId("scrub").hidden = view === "log";
  byId("save-data").hidden = view !== "run";
  if (view === "run") {
    archived = null;
    fillSelect(byId("backend"), start.backends.map((name) => [name, name]), state.on);
  }
}

function describe(id) {
  const item = start.gallery.find((one) => one.id === id);
  byId("description").textContent = item?.description ?? "";
  markItem(id);
}

async function openItem(id) {
  const found = await get("api/item", { id });
  const on = archived ? "sim" : state.on;
  state = { ...state, item: id, toml: null, set: found.set, a: "", on };
  if (archived) state.b = "";
  show("run");
  editor.text = found.toml;
  describe(id);
  await run();
}

async function openFragment() {
  const found = await fromFragment(location.hash);
  if (!found) return false;
  state = found;
  show("run");
  const item = state.item ? await get("api/item", { id: state.item }) : null;
  editor.text = state.toml ?? item.toml;
  describe(state.item);
  showControls();
  await run();
  return true;
}

async function openResults(opened) {
  archived = opened;
  show("results");
  const [a, b = ""] = opened.algorithms;
  state = { ...state, item: "", a, b, seed: opened.seeds[0], on: opened.on };
  fillSelect(byId("backend"), [[opened.on, opened.on]], opened.on);
  showControls();
  await replay();
  editor.text = results.plan.text;
  byId("description").textContent = `The stored result ${opened.name}. A scenario of the gallery runs anew.`;
}

async function open() {
  start = await get("api/start");
  setPalette(start.palette);
  editor = new Editor(byId("editor"), new Schema(start.schema, start.rules), changeText);
  rules = new Rules(start.rules);
  fillGallery(start.gallery, (id) => openItem(id).catch(report));
  show("run");
  showControls();
  listen();
  const { opened } = start;
  if (location.hash && (await openFragment())) return;
  if (opened.kind === "results") {
    await openResults(opened);
  } else if (opened.kind === "qlog") {
    show("log");
    byId("scenario-name").textContent = opened.name;
    byId("description").textContent = "QLOG files. A scenario of the gallery runs anew.";
    await logView.open(opened.logs);
  } else if (opened.kind === "scenario") {
    state = { ...state, item: "", toml: opened.toml };
    editor.text = opened.toml;
    await run();
  } else {
    await openItem(state.item);
  }
}

open().catch(report);
