// Charts over time: one per quantity and run, with the same scales for both runs.

import { colourOf, make, number } from "./dom.js";
import { dashOf, ofFlow, ofLink } from "./palette.js";

const HEIGHT = 186;
const label = (text) => ({ label: text, labelSize: 16, labelGap: 0, labelFont: "12px system-ui, sans-serif" });

// Goodput of a sample is a few packets; its line is the mean over this part of the run.
const SMOOTH = 1 / 60;

export const QUANTITIES = [
  { name: "goodput", title: "Goodput per user", unit: "Mbps", of: "users" },
  { name: "window", title: "Window per path", unit: "packets", of: "paths" },
  { name: "rtt", title: "RTT per path", unit: "ms", of: "paths" },
  { name: "queue", title: "Queue per link", unit: "packets", of: "links" },
];

// The lines of a quantity: label of their legend entry, colour, dash, and what selects them.
export function linesOf(quantity, plan) {
  if (quantity.of === "links") {
    return plan.links.map((name, index) => ({
      entry: name,
      link: name,
      colour: ofLink(index, plan.flows.length),
      dash: [],
    }));
  }
  return plan[quantity.of].map(({ flow, user, path }) => {
    const { name, paths } = plan.flows[flow];
    const several = path !== undefined && paths.length > 1;
    return {
      entry: several ? `${name} via ${paths[path].name}` : name,
      flow,
      user,
      path,
      colour: ofFlow(flow),
      dash: dashOf(path ?? 0),
    };
  });
}

// Means over the points of the last `points`, without what was not measured.
function smoothed(column, points) {
  let sum = 0;
  let count = 0;
  const counted = (value, sign) => {
    if (value === null || value === undefined) return;
    sum += sign * value;
    count += sign;
  };
  return column.map((value, index) => {
    counted(value, 1);
    if (index >= points) counted(column[index - points], -1);
    // What adding and taking away leaves of nothing is nothing.
    return count ? Math.round((1e6 * sum) / count) / 1e6 : null;
  });
}

// The lines of a quantity at these times, as they are drawn.
export function drawn(quantity, plan, time, columns) {
  if (quantity.name !== "goodput" || time.length < 2) return columns;
  const points = Math.round((SMOOTH * plan.duration_s) / (time[1] - time[0]));
  return points > 1 ? columns.map((column) => smoothed(column, points)) : columns;
}

// Whether what is selected in the topology or a legend includes a line.
export function includes(selected, line, plan) {
  if (!selected) return true;
  if (selected.link !== undefined) {
    if (line.link !== undefined) return line.link === selected.link;
    const { paths } = plan.flows[line.flow];
    const its = line.path === undefined ? paths : [paths[line.path]];
    return its.some((path) => path.links.includes(selected.link));
  }
  if (line.link !== undefined) {
    const { paths } = plan.flows[selected.flow];
    const its = selected.path === undefined ? paths : [paths[selected.path]];
    return its.some((path) => path.links.includes(line.link));
  }
  if (line.flow !== selected.flow) return false;
  return selected.path === undefined || line.path === undefined || line.path === selected.path;
}

export class Chart {
  // `moved` is called with the time under the pointer, or null when it leaves.
  constructor(quantity, plan, moved, select) {
    this.quantity = quantity;
    this.plan = plan;
    this.lines = linesOf(quantity, plan);
    this.time = plan.duration_s;
    this.top = 1;
    this.place = make("div", { className: "plot" });
    this.legend = make("ul", { className: "legend" });
    const title = `${quantity.title} (${quantity.unit})`;
    this.element = make(
      "figure",
      { className: "chart", "aria-label": title },
      make("figcaption", {}, quantity.title, make("span", { className: "small" }, quantity.unit)),
      this.place,
      this.legend,
    );
    this.#entries(select);
    this.moved = moved;
    this.selected = null;
    this.points = [[0], ...this.lines.map(() => [null])];
    this.#build();
    this.resized = new ResizeObserver(() => requestAnimationFrame(() => this.#fit()));
    this.resized.observe(this.place);
  }

  #build() {
    const axis = {
      stroke: colourOf("--muted"),
      font: "12px system-ui, sans-serif",
      grid: { stroke: colourOf("--grid"), width: 1 },
      ticks: { show: false },
    };
    const options = {
      width: this.place.clientWidth || 400,
      height: HEIGHT,
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, sync: { key: "time" }, points: { show: false } },
      scales: {
        x: { time: false, range: () => [0, this.plan.duration_s] },
        y: { range: () => [0, this.top] },
      },
      axes: [
        { ...axis, ...label("time (s)"), size: 26, values: (_, splits) => splits.map((split) => `${number(split, 6)}`) },
        { ...axis, ...label(this.quantity.unit), size: 50, values: (_, splits) => splits.map((split) => number(split, 4)) },
      ],
      series: [
        {},
        ...this.lines.map((line) => ({
          stroke: () => (includes(this.selected, line, this.plan) ? line.colour : colourOf("--faint")),
          width: 1.5,
          dash: line.dash,
          points: { show: false },
        })),
      ],
      hooks: {
        draw: [(plot) => this.#drawTime(plot)],
        setCursor: [
          (plot) => {
            const inside = plot.cursor.left >= 0;
            if (plot.cursor.event) this.moved(inside ? plot.posToVal(plot.cursor.left, "x") : null);
          },
        ],
      },
    };
    this.plot = new uPlot(options, this.points, this.place);
  }

  #fit() {
    const width = this.place.clientWidth;
    if (width && width !== this.plot.width) this.plot.setSize({ width, height: HEIGHT });
  }

  #drawTime(plot) {
    const x = Math.round(plot.valToPos(this.time, "x", true));
    const { left, top, width, height } = plot.bbox;
    if (x < left || x > left + width) return;
    plot.ctx.save();
    plot.ctx.strokeStyle = colourOf("--ink");
    plot.ctx.globalAlpha = 0.55;
    plot.ctx.lineWidth = devicePixelRatio;
    plot.ctx.setLineDash([]);
    plot.ctx.beginPath();
    plot.ctx.moveTo(x, top);
    plot.ctx.lineTo(x, top + height);
    plot.ctx.stroke();
    plot.ctx.restore();
  }

  #entries(select) {
    this.values = new Map();
    for (const line of this.lines) {
      if (this.values.has(line.entry)) continue;
      const value = make("output", { className: "value" });
      const swatch = make("canvas", { className: "swatch", width: 44, height: 8 });
      const { flow, path, link } = line;
      const button = make("button", { type: "button" }, swatch, line.entry, value);
      button.addEventListener("click", () => select(link === undefined ? { flow, path } : { link }));
      this.legend.append(make("li", {}, button));
      this.values.set(line.entry, { value, swatch, button });
    }
    this.recolour();
  }

  recolour() {
    this.lines = linesOf(this.quantity, this.plan);
    for (const line of this.lines) {
      const pen = this.values.get(line.entry).swatch.getContext("2d");
      pen.clearRect(0, 0, 44, 8);
      pen.strokeStyle = line.colour;
      pen.lineWidth = 4;
      pen.setLineDash(line.dash.map((length) => 2 * length));
      pen.beginPath();
      pen.moveTo(0, 4);
      pen.lineTo(44, 4);
      pen.stroke();
    }
    if (this.plot) {
      this.plot.destroy();
      this.#build();
    }
  }

  // The largest value of these columns after the warm-up, or before there are any, for a scale that
  // all runs share: a peak of slow start would make all that follows flat.
  static topOf(times, columns, warmup) {
    const after = times.findIndex((time) => time > warmup);
    let top = 0;
    for (const column of columns) {
      for (let at = Math.max(after, 0); at < column.length; at += 1) top = Math.max(top, column[at]);
    }
    return top > 0 ? 1.08 * top : 1;
  }

  show(time, columns, top) {
    this.points = [time, ...columns];
    this.top = top;
    this.plot.setData(this.points);
    this.at(this.time);
  }

  at(time) {
    this.time = time;
    const times = this.points[0];
    let index = times.findLastIndex((one) => one <= time);
    if (index < 0) index = 0;
    const sums = new Map();
    this.lines.forEach((line, number) => {
      const value = this.points[number + 1][index];
      const sum = sums.get(line.entry) ?? [0, 0];
      if (value !== null && value !== undefined) sums.set(line.entry, [sum[0] + value, sum[1] + 1]);
    });
    for (const [entry, { value }] of this.values) {
      const [sum, count] = sums.get(entry) ?? [0, 0];
      value.textContent = count ? number(sum / count) : "–";
    }
    this.plot.redraw(false);
  }

  select(selected) {
    this.selected = selected;
    for (const line of this.lines) {
      const { button } = this.values.get(line.entry);
      button.classList.toggle("faint", !includes(selected, line, this.plan));
    }
    this.plot.redraw(true);
  }

  close() {
    this.resized.disconnect();
    this.plot.destroy();
    this.element.remove();
  }
}
