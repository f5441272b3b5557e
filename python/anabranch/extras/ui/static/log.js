// A qlog file: one graph per path with window, bytes in flight, rates and RTTs; events on hover.

import { get } from "./api.js";
import { colourOf, make, number } from "./dom.js";
import { ofFlow } from "./palette.js";

const LINES = [
  { name: "window_kb", title: "window", unit: "kB", dash: [] },
  { name: "in_flight_kb", title: "in flight", unit: "kB", dash: [2, 2] },
  { name: "pacing_mbps", title: "pacing rate", unit: "Mbps", dash: [] },
  { name: "sent_mbps", title: "sent", unit: "Mbps", dash: [6, 3] },
  { name: "rtt_ms", title: "smoothed RTT", unit: "ms", dash: [] },
  { name: "latest_rtt_ms", title: "latest RTT", unit: "ms", dash: [2, 2] },
];
const HEIGHT = 260;
const NEAR_PX = 7;

export class LogView {
  constructor(place, status) {
    this.place = place;
    this.status = status;
    this.charts = [];
    this.hidden = new Set(["latest_rtt_ms"]);
  }

  async open(files) {
    const choice = make("select", { "aria-label": "Connection" });
    for (const file of files) choice.append(make("option", {}, file));
    choice.addEventListener("change", () => this.#load(choice.value));
    const whole = make("button", { type: "button" }, "Whole file");
    whole.addEventListener("click", () => this.#load(this.file));
    const hint = make("span", { className: "small" }, "Drag in a graph to zoom; a mark above it is an event.");
    this.title = make("h2", {});
    this.graphs = make("div", {});
    const head = make("div", { className: "log-head" }, choice, whole, hint);
    this.place.replaceChildren(this.title, head, this.graphs);
    await this.#load(files.find((file) => file.includes("sender")) ?? files[0], choice);
  }

  async #load(file, choice) {
    if (choice) choice.value = file;
    this.file = file;
    await this.#show();
  }

  async #show(span = {}) {
    this.status("Reading the file");
    const log = await get("api/qlog", { file: this.file, ...span });
    this.status(`${log.paths.length} paths, ${number(log.end_ms / 1000, 4)} s`);
    this.log = log;
    this.redraw();
  }

  redraw() {
    if (!this.log) return;
    for (const chart of this.charts) chart.destroy();
    this.title.textContent = this.log.title;
    this.graphs.replaceChildren();
    this.charts = this.log.paths.map((path) => this.#graph(path));
  }

  #graph(path) {
    const lines = LINES.filter(({ name }) => path.lines[name]);
    const colours = new Map([["kB", ofFlow(0)], ["Mbps", ofFlow(2)], ["ms", ofFlow(1)]]);
    const place = make("div", { className: "plot" });
    const tip = make("div", { className: "tip", hidden: true });
    const legend = make("ul", { className: "legend" });
    const missing = path.lines.pacing_mbps ? "" : "The file has no pacing rate.";
    this.graphs.append(
      make(
        "figure",
        { className: "chart card", "aria-label": `Path ${path.path}` },
        make("figcaption", {}, `Path ${path.path} `, make("span", { className: "small" }, missing)),
        make("div", { className: "hover" }, place, tip),
        legend,
      ),
    );
    const axis = { font: "12px system-ui, sans-serif", ticks: { show: false } };
    const grid = { stroke: colourOf("--grid"), width: 1 };
    const side = (unit, where, show) => ({
      ...axis,
      scale: unit,
      side: where,
      stroke: colours.get(unit),
      grid: show ? grid : { show: false },
      label: unit,
      labelSize: 16,
      labelFont: axis.font,
      size: 46,
      values: (_, splits) => splits.map((split) => number(split, 4)),
    });
    const options = {
      width: place.clientWidth || 600,
      height: HEIGHT,
      legend: { show: false },
      padding: [14, 0, 0, 0],
      cursor: { sync: { key: "log" }, drag: { x: true, y: false, setScale: false }, points: { size: 5 } },
      scales: {
        x: { time: false },
        kB: { range: (_, _low, high) => [0, 1.05 * (high || 1)] },
        Mbps: { range: (_, _low, high) => [0, 1.05 * (high || 1)] },
        ms: { range: (_, _low, high) => [0, 1.05 * (high || 1)] },
      },
      axes: [
        { ...axis, stroke: colourOf("--muted"), grid, size: 26, values: (_, all) => all.map((one) => `${number(one / 1000, 5)}`) },
        side("kB", 3, true),
        side("ms", 1, false),
        side("Mbps", 1, false),
      ],
      series: [
        {},
        ...lines.map(({ name, unit, dash }) => ({
          scale: unit,
          stroke: colours.get(unit),
          width: 1.3,
          dash,
          show: !this.hidden.has(name),
          points: { show: false },
        })),
      ],
      hooks: {
        draw: [(plot) => drawMarks(plot, path.events)],
        setCursor: [(plot) => showTip(plot, tip, path.events, lines)],
        setSelect: [
          (plot) => {
            if (plot.select.width < 4) return;
            const from = plot.posToVal(plot.select.left, "x");
            const to = plot.posToVal(plot.select.left + plot.select.width, "x");
            this.#show({ from_ms: from, to_ms: to });
          },
        ],
      },
    };
    const plot = new uPlot(options, [this.log.time_ms, ...lines.map(({ name }) => path.lines[name])], place);
    lines.forEach(({ name, title, unit, dash }, index) => {
      const swatch = make("canvas", { className: "swatch", width: 44, height: 8 });
      const pen = swatch.getContext("2d");
      pen.strokeStyle = colours.get(unit);
      pen.lineWidth = 4;
      pen.setLineDash(dash.map((length) => 2 * length));
      pen.beginPath();
      pen.moveTo(0, 4);
      pen.lineTo(44, 4);
      pen.stroke();
      const button = make("button", { type: "button", "aria-pressed": !this.hidden.has(name) }, swatch, `${title}, ${unit}`);
      button.addEventListener("click", () => {
        if (!this.hidden.delete(name)) this.hidden.add(name);
        button.setAttribute("aria-pressed", !this.hidden.has(name));
        plot.setSeries(index + 1, { show: !this.hidden.has(name) });
      });
      legend.append(make("li", {}, button));
    });
    const fit = () => {
      const width = place.clientWidth;
      if (width && width !== plot.width) plot.setSize({ width, height: HEIGHT });
    };
    new ResizeObserver(() => requestAnimationFrame(fit)).observe(place);
    return plot;
  }
}

function said(event) {
  const times = event.count > 1 ? ` × ${event.count}` : "";
  const details = event.details ? `: ${event.details}` : "";
  return `${number(event.time_ms / 1000, 6)} s, ${event.kind}${times}${details}`;
}

const isLoss = (event) => event.kind === "lost" || event.kind === "timeout";

// A triangle above the plot for each mark: losses filled, other events hollow.
function drawMarks(plot, events) {
  const { ctx: pen, bbox } = plot;
  const size = 4 * devicePixelRatio;
  pen.save();
  pen.lineWidth = devicePixelRatio;
  for (const event of events) {
    const x = plot.valToPos(event.time_ms, "x", true);
    if (x < bbox.left - 1 || x > bbox.left + bbox.width + 1) continue;
    pen.beginPath();
    pen.moveTo(x - size, bbox.top - 2 * size);
    pen.lineTo(x + size, bbox.top - 2 * size);
    pen.lineTo(x, bbox.top);
    pen.closePath();
    pen.fillStyle = pen.strokeStyle = colourOf(isLoss(event) ? "--loss" : "--ink");
    if (isLoss(event)) pen.fill();
    else pen.stroke();
  }
  pen.restore();
}

function showTip(plot, tip, events, lines) {
  const { left, idx } = plot.cursor;
  if (left === undefined || left < 0 || idx === null || idx === undefined) {
    tip.hidden = true;
    return;
  }
  const near = events.filter((event) => Math.abs(plot.valToPos(event.time_ms, "x") - left) < NEAR_PX);
  const values = lines
    .map(({ title, unit }, index) => [title, plot.data[index + 1][idx], unit, plot.series[index + 1].show])
    .filter(([, value, , show]) => show && value !== null)
    .map(([title, value, unit]) => make("div", {}, `${title} ${number(value, 4)} ${unit}`));
  const time = make("strong", {}, `${number(plot.data[0][idx] / 1000, 6)} s`);
  tip.replaceChildren(time, ...values, ...near.slice(0, 8).map((event) => make("div", { className: "mark" }, said(event))));
  tip.hidden = false;
  const room = plot.over.clientWidth;
  tip.style.left = `${plot.over.offsetLeft + (left < room / 2 ? left + 12 : left - tip.offsetWidth - 12)}px`;
  tip.style.top = `${plot.over.offsetTop + 6}px`;
}
