// Sliders and numbers for the values of a scenario.

import { make, number } from "./dom.js";

const STEPS = 1000;

export class Sliders {
  // `changed` is called with the key and its TOML, or null to take the change back.
  constructor(place, changed) {
    this.place = place;
    this.changed = changed;
    this.rows = new Map();
  }

  // Shows the parameters; rows that are there stay, so that a slider is not lost while it is moved.
  show(parameters, set) {
    const names = parameters.map((one) => `${one.key} ${one.label}`);
    if (names.join("\n") !== [...this.rows.keys()].join("\n")) this.#build(parameters);
    parameters.forEach((one, index) => this.rows.get(names[index]).update(one, one.key in set));
  }

  #build(parameters) {
    this.rows.clear();
    const groups = Map.groupBy(parameters, (one) => one.group);
    const sections = [...groups].map(([group, own]) => {
      const body = make("div", { className: "rows" });
      for (const one of own) {
        const row = one.choices ? this.#choice(one) : this.#slider(one);
        this.rows.set(`${one.key} ${one.label}`, row);
        body.append(row.element);
      }
      return make("fieldset", {}, make("legend", {}, group), body);
    });
    this.place.replaceChildren(...sections);
  }

  #row(one, ...fields) {
    const undo = make("button", { type: "button", className: "undo", title: "As in the scenario" }, "↺");
    undo.setAttribute("aria-label", `${one.group}, ${one.label}: as in the scenario`);
    undo.addEventListener("click", () => this.changed(one.key, null));
    const element = make("div", { className: "row" }, ...fields, undo);
    return { element, undo };
  }

  #choice(one) {
    const select = make("select", { "aria-label": `${one.group}, ${one.label}` });
    for (const name of Object.keys(one.choices)) select.append(make("option", {}, name));
    let { choices } = one;
    select.addEventListener("change", () => this.changed(one.key, choices[select.value]));
    const label = make("span", { className: "row-label" }, one.label);
    const row = this.#row(one, label, select);
    row.element.classList.add("choice");
    row.update = (now, isChanged) => {
      choices = now.choices;
      select.value = now.value;
      row.undo.hidden = !isChanged;
    };
    return row;
  }

  #slider(first) {
    let one = first;
    const name = `${one.group}, ${one.label}${one.unit ? `, ${one.unit}` : ""}`;
    const range = make("input", { type: "range", "aria-label": name });
    const field = make("input", { type: "number", "aria-label": `${name}, as a number`, step: "any" });
    const toValue = (position) => {
      if (!one.log) return Number(position);
      const value = one.min * (one.max / one.min) ** (Number(position) / STEPS);
      return Number(value.toPrecision(3));
    };
    const toPosition = (value) => {
      if (!one.log) return value;
      return (STEPS * Math.log(value / one.min)) / Math.log(one.max / one.min);
    };
    const send = (value) => {
      const scaled = Number((value * one.factor).toPrecision(12));
      this.changed(one.key, one.toml.replace("%", String(scaled)));
    };
    range.addEventListener("input", () => {
      field.value = toValue(range.value);
      range.setAttribute("aria-valuetext", `${field.value} ${one.unit}`);
      send(toValue(range.value));
    });
    field.addEventListener("change", () => {
      if (field.value !== "") send(Number(field.value));
    });
    const label = make("span", { className: "row-label" }, one.label);
    const unit = make("span", { className: "unit" }, one.unit);
    const row = this.#row(one, label, range, field, unit);
    row.update = (now, isChanged) => {
      // A range that moved with its value would run away from the hand that moves the slider.
      if (isChanged && now.value >= one.min && now.value <= one.max) {
        one = { ...now, min: one.min, max: one.max };
      } else {
        one = now;
      }
      range.min = one.log ? 0 : one.min;
      range.max = one.log ? STEPS : one.max;
      range.step = one.log ? 1 : one.step;
      if (document.activeElement !== range) range.value = toPosition(one.value);
      if (document.activeElement !== field) field.value = number(one.value, 6);
      range.setAttribute("aria-valuetext", `${number(one.value, 6)} ${one.unit}`);
      row.undo.hidden = !isChanged;
    };
    return row;
  }
}
