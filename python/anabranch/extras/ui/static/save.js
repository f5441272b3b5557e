// The charts as one picture.

import { colourOf, make, number } from "./dom.js";

const MARGIN = 16;
const TITLE = 26;

export function figure(title, charts, columns) {
  const scale = devicePixelRatio;
  const width = Math.max(...charts.map((chart) => chart.plot.width)) + 2 * MARGIN;
  const legends = charts.map((chart) => 18 * Math.min(chart.values.size, 8) + 6);
  const height = Math.max(...charts.map((chart, i) => chart.plot.height + legends[i])) + TITLE + MARGIN;
  const rows = Math.ceil(charts.length / columns);
  const canvas = make("canvas", { width: columns * width * scale, height: (rows * height + 40) * scale });
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.fillStyle = colourOf("--card");
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.fillStyle = colourOf("--ink");
  pen.font = "600 16px system-ui, sans-serif";
  pen.fillText(title, MARGIN, 26);
  charts.forEach((chart, index) => {
    const x = (index % columns) * width + MARGIN;
    const y = Math.floor(index / columns) * height + 40;
    const { title: name, unit } = chart.quantity;
    pen.font = "600 13px system-ui, sans-serif";
    pen.fillStyle = colourOf("--ink");
    pen.fillText(`${chart.rule}: ${name} (${unit})`, x, y + 16);
    const { plot } = chart;
    pen.drawImage(plot.ctx.canvas, x, y + TITLE, plot.width, plot.height);
    pen.font = "12px system-ui, sans-serif";
    [...chart.values].slice(0, 8).forEach(([entry, { swatch }], row) => {
      const at = y + TITLE + plot.height + 18 * row + 12;
      pen.drawImage(swatch, x, at - 6, 22, 4);
      pen.fillText(entry, x + 30, at);
    });
  });
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

export const fileName = (name) => name.toLowerCase().replace(/[^\w]+/g, "-").replace(/^-|-$/g, "") || "anabranch";

export const inSeconds = (value) => `${number(value, 5)} s`;
