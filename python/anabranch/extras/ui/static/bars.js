// Goodput per user of each flow as bars, beside the equilibrium and the optimum; and the numbers.

import { make, number } from "./dom.js";
import { ofRule } from "./palette.js";

// The mean of a flow over the samples after the warm-up, or over all of them before it ends.
function soFar(points, plan, flow) {
  const { time, goodput } = points;
  const first = time.findIndex((one) => one > plan.warmup_s);
  let sum = 0;
  let count = 0;
  plan.users.forEach((user, line) => {
    if (user.flow !== flow) return;
    for (const value of (goodput[line] ?? []).slice(Math.max(first, 0))) {
      if (value !== null) {
        sum += value;
        count += 1;
      }
    }
  });
  return count ? sum / count : null;
}

export function drawBars(place, plan, runs, optimum, selected) {
  const rules = plan.runs.map((run) => run.rule);
  const rows = plan.flows.map((flow, index) => ({
    flow,
    index,
    best: optimum?.goodput_mbps?.[index] ?? null,
    runs: runs.map((run, number) => ({
      rule: rules[number],
      measured:
        run.over?.goodput_mbps[index] ?? run.totals?.flows[index].goodput_mbps ?? soFar(run.points, plan, index),
      half: run.over?.half_mbps[index] ?? 0,
      ran: run.totals?.flows[index].rule ?? flow.own ?? rules[number],
      equilibrium: run.equilibrium?.goodput_mbps?.[index] ?? null,
    })),
  }));
  const among = [...new Set([...rules, ...rows.flatMap((row) => row.runs.map((run) => run.ran))])];
  const all = rows.flatMap((row) => [row.best, ...row.runs.flatMap((r) => [r.measured + r.half, r.equilibrium])]);
  const top = Math.max(...all.map((value) => value ?? 0), 1e-9);
  const at = (value) => `${(100 * value) / (1.04 * top)}%`;
  const parts = rows.map((row) => {
    const users = row.flow.count > 1 ? ` × ${row.flow.count}` : "";
    const faint = selected?.flow !== undefined && selected.flow !== row.index;
    const group = make("div", { className: faint ? "flow faint" : "flow", role: "group" });
    group.setAttribute("aria-label", row.flow.name);
    group.append(make("h3", {}, `${row.flow.name}${users}`));
    for (const run of row.runs) {
      const track = make("div", { className: "track", "aria-hidden": "true" });
      if (run.measured !== null) {
        const bar = make("div", { className: "fill" });
        bar.style.width = at(run.measured);
        bar.style.background = ofRule(run.ran, among);
        track.append(bar);
        if (run.half) {
          const whisker = make("div", { className: "interval" });
          whisker.style.left = at(Math.max(0, run.measured - run.half));
          whisker.style.width = at(run.measured + run.half - Math.max(0, run.measured - run.half));
          track.append(whisker);
        }
      }
      if (run.equilibrium !== null) {
        const mark = make("div", { className: "equilibrium" });
        mark.style.left = at(run.equilibrium);
        track.append(mark);
      }
      if (row.best !== null) {
        const mark = make("div", { className: "optimum" });
        mark.style.left = at(row.best);
        track.append(mark);
      }
      const own = run.ran !== run.rule;
      const name = own ? `${run.ran}, beside ${run.rule}` : run.ran;
      const value = run.half ? `${number(run.measured)} ± ${number(run.half, 2)}` : number(run.measured);
      const said = [`${name}: ${value} Mbps`];
      if (run.equilibrium !== null) said.push(`equilibrium ${number(run.equilibrium)}`);
      if (row.best !== null) said.push(`optimum ${number(row.best)}`);
      group.append(
        make(
          "div",
          { className: "bar-row", title: said.join(", ") },
          make("span", { className: "bar-rule", "aria-hidden": "true" }, name),
          track,
          make("span", { className: "bar-value", "aria-hidden": "true" }, value),
          make("span", { className: "spoken" }, said.join(", ")),
        ),
      );
    }
    return group;
  });
  place.replaceChildren(...parts, legend(runs, optimum));
}

function legend(runs, optimum) {
  const over = runs.map((run) => run.over).filter(Boolean);
  const seeds = over[0]?.seeds;
  const varied = over.some((one) => one.half_mbps.some((half) => half > 0));
  const several = varied ? `mean and 95 % interval over ${seeds} seeds` : `the same with ${seeds} seeds`;
  const what = seeds ? several : "one run, one seed";
  const items = [make("li", {}, make("i", { className: "key-measured" }), what)];
  if (runs.some((run) => run.equilibrium?.goodput_mbps)) {
    items.push(make("li", {}, make("i", { className: "key-equilibrium" }), "equilibrium"));
  }
  if (optimum?.goodput_mbps) {
    items.push(make("li", {}, make("i", { className: "key-optimum" }), "optimum, proportionally fair"));
  }
  const reasons = new Set(runs.map((run) => run.equilibrium?.reason && `No equilibrium: ${run.equilibrium.reason}`));
  if (optimum?.reason) reasons.add(`No optimum: ${optimum.reason}`);
  reasons.delete(undefined);
  const notes = [...reasons].map((reason) => make("p", { className: "small" }, reason));
  return make("div", { className: "bars-end" }, make("ul", { className: "keys" }, ...items), ...notes);
}

export function drawNumbers(place, plan, runs) {
  const done = runs.map((run, index) => [plan.runs[index].rule, run.totals]).filter(([, t]) => t);
  if (!done.length) {
    place.replaceChildren(make("p", { className: "small" }, "They come when a run is complete."));
    return;
  }
  const seed = make("p", { className: "small" }, `Of seed ${plan.seed} alone.`);
  place.replaceChildren(seed, totals(done), flows(plan, done), links(plan, done));
}

function table(caption, head, rows) {
  const isName = (index) => rows.some((row) => row[index] !== "–" && Number.isNaN(Number(row[index])));
  const names = head.map((_, index) => (isName(index) ? "name" : ""));
  const cell = (text, index) => {
    const className = names[index];
    return make(index ? "td" : "th", index ? { className } : { className, scope: "row" }, text);
  };
  const top = head.map((text, index) => make("th", { scope: "col", className: names[index] }, text));
  const body = rows.map((row) => make("tr", {}, ...row.map(cell)));
  const whole = make("table", {}, make("caption", {}, caption), make("thead", {}, make("tr", {}, ...top)), make("tbody", {}, ...body));
  return make("div", { className: "wide" }, whole);
}

function totals(done) {
  const rows = done.map(([rule, t]) => [rule, number(t.total_mbps), number(t.jain_index)]);
  return table("All users", ["rule", "total Mbps", "Jain's index"], rows);
}

function flows(plan, done) {
  const head = ["flow", "path", "run", "rule", "Mbps", "RTT ms", "window", "loss"];
  const rows = [];
  plan.flows.forEach((flow, index) => {
    for (const [run, totals] of done) {
      const own = totals.flows[index];
      const loss = own.loss === null ? "–" : number(own.loss, 2);
      own.paths.forEach((path, which) => {
        const numbers = [path.goodput_mbps, path.rtt_ms, path.window_packets].map((v) => number(v));
        rows.push([flow.name, flow.paths[which].name, run, own.rule, ...numbers, loss]);
      });
    }
  });
  return table("Paths, means over users", head, rows);
}

function links(plan, done) {
  const head = ["link", "run", "utilization", "queue, packets", "loss"];
  const rows = plan.links.flatMap((name, index) =>
    done.map(([run, { links: all }]) => {
      const own = all[index];
      const numbers = [own.utilization, own.queue_packets, own.loss].map((value) => number(value));
      return [name, run, ...numbers];
    }),
  );
  return table("Links", head, rows);
}
