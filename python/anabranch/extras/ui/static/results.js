// What a run shows: charts, bars, numbers and the network, and the time at which they are read.

import { drawBars, drawNumbers } from "./bars.js";
import { Chart, QUANTITIES, drawn } from "./charts.js";
import { byId, make, number } from "./dom.js";
import { ofRule } from "./palette.js";
import { inSeconds } from "./save.js";
import { Topology } from "./topology.js";

const empty = () => ({ time: [], goodput: [], window: [], rtt: [], path_goodput: [], queue: [], throughput: [] });

// A time in the life of the newest run, for who measures how soon the page answers.
function mark(name) {
  performance.clearMarks(name);
  performance.mark(name);
}

export class Results {
  // `say` sets the status, `problem` shows an error, `planned` is called with the plan of a run.
  constructor({ say, problem, planned }) {
    this.say = say;
    this.problem = problem;
    this.planned = planned;
    this.plan = null;
    this.runs = [];
    this.optimum = null;
    this.selected = null;
    this.charts = [];
    this.hovered = null;
    this.seen = false;
    this.frame = 0;
    this.topology = new Topology(byId("topology"), (one) => this.select(one));
  }

  // An event of a run, or of a stored result, in their order.
  take(event, begun) {
    if (event.type === "plan") {
      this.#begin(event);
    } else if (event.type === "samples") {
      if (event.time?.length) this.#append(event);
      this.#progress(event.run, event.progress);
    } else if (event.type === "result") {
      this.#append(event);
      this.runs[event.run].totals = event.totals;
      this.runs[event.run].over = event.over_seeds;
      this.#progress(event.run, 1);
    } else if (event.type === "optimum") {
      this.optimum = event;
      this.#drawSoon();
    } else if (event.type === "equilibrium") {
      this.runs[event.run].equilibrium = event;
      this.#drawSoon();
    } else if (event.type === "queued") {
      this.say(`Waiting for ${event.jobs} other runs`);
    } else if (event.type === "error") {
      this.runs[event.run].failed = event.message;
      this.outdate();
      this.problem(`${this.plan.runs[event.run].rule}: ${event.message}`);
    } else if (event.type === "done") {
      this.#done(begun);
    }
  }

  // What is shown belongs to an earlier run: it turns grey until another one begins.
  outdate(yes = true) {
    byId("run-view").classList.toggle("outdated", yes);
  }

  #begin(found) {
    this.outdate(false);
    const before = this.plan;
    this.plan = found;
    this.optimum = null;
    this.seen = false;
    // What is drawn stays until there are samples, so that a slider does not make it flicker.
    this.runs = found.runs.map((_, index) => ({ points: empty(), old: this.runs[index]?.points, done: 0 }));
    this.topology.show(found);
    const shape = (one) => JSON.stringify([one?.users, one?.paths, one?.links, one?.runs, one?.duration_s, one?.flows]);
    if (shape(before) !== shape(found)) {
      if (this.selected && !this.#selectable(this.selected)) this.selected = null;
      this.#buildCharts();
    }
    this.topology.mark(this.selected);
    const end = byId("time");
    const atEnd = Number(end.value) >= Number(end.max);
    end.max = found.duration_s;
    if (atEnd) end.value = found.duration_s;
    byId("warnings").replaceChildren(...found.warnings.map((text) => make("li", {}, text)));
    this.planned(found);
    this.showTime();
  }

  #append(event) {
    const one = this.runs[event.run];
    for (const name of Object.keys(one.points)) {
      if (name === "time") one.points.time.push(...event.time);
      else event[name].forEach((column, line) => (one.points[name][line] ??= []).push(...column));
    }
    one.old = undefined;
    this.#drawSoon();
  }

  #progress(index, done) {
    this.runs[index].done = done;
    const all = this.runs.reduce((sum, one) => sum + one.done, 0) / this.runs.length;
    byId("progress").hidden = false;
    byId("progress").value = all;
    this.say(all < 1 ? `Running: ${Math.floor(100 * all)} %` : "Complete; the equilibrium follows");
  }

  #done(begun) {
    const { duration_s: length, on, seed } = this.plan;
    const took = begun === undefined ? "Stored result" : `Done in ${number((performance.now() - begun) / 1000, 2)} s`;
    const failed = this.runs.some((one) => one.failed);
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.draw();
    requestAnimationFrame(() => mark("complete"));
    this.say(failed ? "Failed" : `${took}: ${length} s on ${on}, seed ${seed}`);
  }

  // ---------------------------------------------------------------- drawing

  #drawSoon() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  #shown() {
    return this.runs.map((one) => (one.points.time.length ? one.points : (one.old ?? empty())));
  }

  draw() {
    const shown = this.#shown();
    for (const quantity of QUANTITIES) {
      const own = this.charts.filter((one) => one.quantity === quantity);
      const columns = shown.map((points, run) => {
        const lines = own[run].lines.map((_, line) => points[quantity.name][line] ?? []);
        return drawn(quantity, this.plan, points.time, lines);
      });
      const tops = columns.map((all, run) => Chart.topOf(shown[run].time, all, this.plan.warmup_s));
      own.forEach((chart, run) => chart.show(shown[run].time, columns[run], Math.max(...tops)));
    }
    this.#drawBars();
    drawNumbers(byId("numbers"), this.plan, this.runs);
    this.showTime();
    if (!this.seen && this.runs.some((one) => one.points.time.length)) {
      this.seen = true;
      requestAnimationFrame(() => mark("drawn"));
    }
  }

  #drawBars() {
    const shown = this.#shown();
    const runs = this.runs.map((one, index) => ({ ...one, points: shown[index] }));
    drawBars(byId("bars"), this.plan, runs, this.optimum, this.selected);
  }

  #buildCharts() {
    for (const chart of this.charts) chart.close();
    this.charts = [];
    const rules = this.plan.runs.map(({ rule }) => rule);
    byId("charts").classList.toggle("two", rules.length > 1);
    byId("charts").replaceChildren(...rules.map((rule, index) => this.#column(rule, index, rules)));
    for (const chart of this.charts) chart.select(this.selected);
  }

  #column(rule, index, rules) {
    const swatch = make("i", { className: "rule-swatch" });
    swatch.style.background = ofRule(rule, rules);
    const title = rules.length > 1 ? `${"AB"[index]}: ${rule}` : rule;
    const names = { className: "card column", "aria-label": `Charts of ${rule}` };
    const column = make("section", names, make("h2", {}, swatch, title));
    for (const quantity of QUANTITIES) {
      const chart = new Chart(quantity, this.plan, (time) => this.#hover(time), (one) => this.select(one));
      chart.rule = rule;
      column.append(chart.element);
      this.charts.push(chart);
    }
    return column;
  }

  recolour() {
    if (!this.plan) return;
    this.topology.recolour();
    this.#buildCharts();
    this.draw();
  }

  // ---------------------------------------------------------------- selection and time

  #selectable(one) {
    const { flows, links } = this.plan;
    if (one.link !== undefined) return links.includes(one.link);
    return one.flow < flows.length && (one.path ?? 0) < flows[one.flow].paths.length;
  }

  // Selects a path, flow or link; once more, nothing.
  select(one) {
    const same = JSON.stringify(one) === JSON.stringify(this.selected);
    this.selected = same ? null : one;
    this.topology.mark(this.selected);
    for (const chart of this.charts) chart.select(this.selected);
    this.#drawBars();
  }

  #hover(time) {
    if (this.hovered === time) return;
    this.hovered = time;
    this.showTime();
  }

  showTime() {
    const time = this.hovered ?? Number(byId("time").value);
    byId("time-text").textContent = inSeconds(time);
    for (const chart of this.charts) chart.at(time);
    const [points] = this.#shown();
    if (points) this.topology.at(points, points.time.findLastIndex((at) => at <= time));
  }

  // With arrows the scrubber goes from point to point.
  stepTime(event) {
    const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -20, PageUp: 20 };
    const step = steps[event.key];
    const times = this.runs[0]?.points.time;
    if (!step || !times?.length) return;
    event.preventDefault();
    const now = times.findLastIndex((at) => at <= Number(byId("time").value));
    byId("time").value = times[Math.max(0, Math.min(times.length - 1, now + step))];
    this.moveTime();
  }

  moveTime() {
    this.hovered = null;
    this.showTime();
  }
}
