// The lists of the page: the gallery, and the two rules with their parameters.

import { arrowKeys, byId, make } from "./dom.js";

export function fillSelect(select, names, value) {
  select.replaceChildren(...names.map(([name, label]) => make("option", { value: name }, label)));
  select.value = value;
}

export function fillGallery(items, open) {
  const groups = Map.groupBy(items, (one) => one.group);
  const sections = [...groups].map(([group, own]) => {
    const buttons = own.map((one) => {
      const names = { type: "button", title: one.description, "aria-pressed": "false" };
      const button = make("button", names, one.title);
      button.dataset.id = one.id;
      button.addEventListener("click", () => {
        byId("picker").open = false;
        open(one.id);
      });
      return button;
    });
    return make("div", { className: "group" }, make("h3", {}, group), ...buttons);
  });
  const gallery = byId("gallery");
  gallery.replaceChildren(...sections);
  byId("filter").addEventListener("input", () => {
    const sought = byId("filter").value.toLowerCase();
    for (const button of gallery.querySelectorAll("button")) {
      button.hidden = !`${button.textContent} ${button.title}`.toLowerCase().includes(sought);
    }
    for (const group of gallery.children) group.hidden = !group.querySelector("button:not([hidden])");
  });
  byId("filter").addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") gallery.querySelector("button:not([hidden])")?.focus();
  });
  arrowKeys(gallery, "button", ["ArrowUp", "ArrowDown"]);
}

export function markItem(id) {
  for (const button of byId("gallery").querySelectorAll("button")) {
    button.setAttribute("aria-pressed", button.dataset.id === id);
  }
}

// Rules A and B: a name from a list, and its parameters as text, as in balia:cap=inf.
export class Rules {
  constructor(table) {
    this.table = table;
  }

  // `stored`: the algorithms of a stored result, which are whole names; `own`: the scenario's.
  show(state, { stored, own }) {
    this.stored = stored !== undefined;
    const names = stored ?? this.table.map((rule) => rule.name);
    for (const key of ["a", "b"]) {
      const spec = state[key] || (key === "a" ? (own ?? "") : "");
      const list = names.map((name) => [name, name]);
      if (key === "b") list.unshift(["", "none"]);
      else if (own === null) list.unshift(["", "each flow's own"]);
      fillSelect(byId(`rule-${key}`), list, this.stored ? spec : spec.split(":")[0]);
      byId(`with-${key}`).value = this.stored ? "" : spec.split(":").slice(1).join(":");
      byId(`rule-${key}`).disabled = own === null && !this.stored;
      this.#showParameters(key);
    }
  }

  #showParameters(key) {
    const rule = this.table.find((one) => one.name === byId(`rule-${key}`).value);
    const field = byId(`with-${key}`);
    field.hidden = this.stored || !rule?.parameters.length;
    if (field.hidden) return;
    field.placeholder = rule.parameters.map((one) => `${one.name}=${one.default}`).join(",");
    field.title = rule.parameters.map((one) => `${one.name}: ${one.meaning}`).join("\n");
  }

  // Another name was chosen: the parameters of the old one go.
  chosen(key) {
    byId(`with-${key}`).value = "";
    this.#showParameters(key);
  }

  read(key) {
    const name = byId(`rule-${key}`).value;
    const own = byId(`with-${key}`);
    return name && !own.hidden && own.value.trim() ? `${name}:${own.value.trim()}` : name;
  }
}
