// The scenario's network: a click or Enter on a path or link selects it; widths follow the time.

import { number } from "./dom.js";
import { dashOf, ofFlow } from "./palette.js";

const WIDEST = 7;
const NARROWEST = 1.5;
const FITS = 420;

export class Topology {
  constructor(place, select) {
    this.place = place;
    this.select = select;
    this.markup = "";
  }

  // `plan.topology` is SVG from the server, in which data attributes say what is what.
  show(plan) {
    this.plan = plan;
    if (plan.topology === this.markup) return;
    this.markup = plan.topology;
    const focused = document.activeElement?.dataset?.key;
    const parsed = new DOMParser().parseFromString(plan.topology, "text/html").querySelector("svg");
    this.svg = document.importNode(parsed, true);
    this.svg.setAttribute("aria-label", "Network: flows on the left, their paths through links");
    this.svg.setAttribute("role", "group");
    this.paths = [...this.svg.querySelectorAll("path[data-flow]")];
    this.links = [...this.svg.querySelectorAll("rect[data-link]")];
    for (const path of this.paths) this.#path(path);
    for (const link of this.links) this.#link(link);
    this.place.replaceChildren(this.svg);
    // A wide network gets the whole row; beside the bars it would have to be scrolled.
    this.place.closest(".overview").classList.toggle("stacked", Number(this.svg.getAttribute("width")) > FITS);
    if (focused) this.svg.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
    this.recolour();
  }

  #path(path) {
    const [flow, which] = [Number(path.dataset.flow), Number(path.dataset.path)];
    // A wide, invisible copy is easier to hit.
    const target = path.cloneNode();
    target.setAttribute("class", "target");
    target.dataset.key = `${flow}/${which}`;
    const { name, paths } = this.plan.flows[flow];
    this.#button(target, `Path of ${name} via ${paths[which].name}`, { flow, path: which });
    path.after(target);
    path.target = target;
  }

  #link(link) {
    const name = link.dataset.link;
    const fill = link.cloneNode();
    fill.removeAttribute("rx");
    fill.setAttribute("class", "load");
    fill.removeAttribute("data-link");
    link.after(fill);
    link.load = fill;
    link.dataset.key = name;
    this.#button(link, `Link ${name}`, { link: name });
  }

  #button(element, label, selected) {
    element.setAttribute("tabindex", "0");
    element.setAttribute("role", "button");
    element.setAttribute("aria-label", label);
    element.addEventListener("click", () => this.select(selected));
    element.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      if (event.ctrlKey) return;
      event.preventDefault();
      this.select(selected);
    });
  }

  recolour() {
    for (const path of this.paths ?? []) {
      path.style.stroke = ofFlow(Number(path.dataset.flow));
      path.style.strokeDasharray = dashOf(Number(path.dataset.path)).join(" ");
    }
  }

  mark(selected) {
    const is = (one) => JSON.stringify(one) === JSON.stringify(selected);
    for (const path of this.paths) {
      const flow = Number(path.dataset.flow);
      const which = Number(path.dataset.path);
      const crosses = this.plan.flows[flow].paths[which].links.includes(selected?.link);
      const own = selected?.flow === flow && [undefined, which].includes(selected?.path);
      path.classList.toggle("faint", Boolean(selected) && !own && !crosses);
      path.target.setAttribute("aria-pressed", is({ flow, path: which }));
    }
    for (const link of this.links) {
      link.setAttribute("aria-pressed", is({ link: link.dataset.link }));
    }
  }

  // Widths of paths and loads of links at the index of a time, of one run.
  at(points, index) {
    if (!this.paths || index < 0) return;
    const { plan } = this;
    const rate = new Map();
    plan.paths.forEach(({ flow, user, path }, line) => {
      const value = points.path_goodput[line]?.[index];
      const users = user === null ? plan.flows[flow].count : 1;
      const key = `${flow}/${path}`;
      if (value) rate.set(key, (rate.get(key) ?? 0) + users * value);
    });
    const top = Math.max(...plan.rates_mbps, ...rate.values(), 1e-9);
    for (const path of this.paths) {
      const own = rate.get(`${path.dataset.flow}/${path.dataset.path}`) ?? 0;
      path.style.strokeWidth = NARROWEST + (WIDEST - NARROWEST) * Math.sqrt(own / top);
      const title = `${number(own)} Mbps`;
      path.target.querySelector("title")?.remove();
      path.target.append(this.#title(title));
    }
    for (const link of this.links) {
      const number_ = plan.links.indexOf(link.dataset.link);
      const carried = points.throughput[number_]?.[index] ?? 0;
      const share = plan.rates_mbps[number_] ? Math.min(1, carried / plan.rates_mbps[number_]) : 0;
      link.load.setAttribute("width", share * Number(link.getAttribute("width")));
      link.querySelector("title")?.remove();
      link.append(this.#title(`${number(carried)} of ${number(plan.rates_mbps[number_])} Mbps`));
    }
  }

  #title(text) {
    const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
    title.textContent = text;
    return title;
  }
}
