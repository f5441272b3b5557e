// The scenario as text: a text area with line numbers, the line of an error, and completion.

import { make } from "./dom.js";

const MOST_OPTIONS = 60;

export class Editor {
  constructor(place, schema, changed) {
    this.schema = schema;
    this.changed = changed;
    this.gutter = make("div", { className: "gutter", "aria-hidden": "true" });
    this.area = make("textarea", { spellcheck: false, wrap: "off", autocapitalize: "off" });
    this.list = make("ul", { className: "options", role: "listbox", id: "options", hidden: true });
    this.about = make("p", { className: "small about" });
    const names = { role: "combobox", "aria-label": "Scenario as TOML", "aria-autocomplete": "list" };
    for (const [name, text] of Object.entries(names)) this.area.setAttribute(name, text);
    this.area.setAttribute("aria-controls", "options");
    this.area.setAttribute("aria-expanded", "false");
    this.area.setAttribute("aria-describedby", "editor-error");
    place.append(make("div", { className: "code" }, this.gutter, this.area, this.list), this.about);
    this.area.addEventListener("input", () => {
      this.#number();
      this.#suggest(false);
      this.changed(this.area.value);
    });
    this.area.addEventListener("keydown", (event) => this.#key(event));
    this.area.addEventListener("scroll", () => {
      this.gutter.scrollTop = this.area.scrollTop;
      this.#close();
    });
    this.area.addEventListener("blur", () => this.#close());
    this.area.addEventListener("click", () => this.#close());
    this.about.textContent = "Ctrl+Space completes; Ctrl+Enter runs.";
  }

  set text(text) {
    if (text === this.area.value) return;
    this.area.value = text;
    this.#close();
    this.#number();
  }

  get text() {
    return this.area.value;
  }

  // Marks the line of an error, or none.
  fault(line) {
    this.line = line;
    this.area.setAttribute("aria-invalid", String(line !== undefined));
    this.#number();
  }

  #number() {
    const count = this.area.value.split("\n").length;
    const numbers = Array.from({ length: count }, (_, index) => {
      const className = index + 1 === this.line ? "faulty" : "";
      return make("span", { className }, String(index + 1));
    });
    this.gutter.replaceChildren(...numbers);
    this.gutter.scrollTop = this.area.scrollTop;
  }

  #key(event) {
    if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      this.#suggest(true);
      return;
    }
    if (this.list.hidden) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      this.#choose((this.chosen + step + this.options.length) % this.options.length);
    } else if ((event.key === "Enter" && !event.ctrlKey) || event.key === "Tab") {
      event.preventDefault();
      this.#insert(this.options[this.chosen]);
    } else if (event.key === "Escape") {
      event.stopPropagation();
      this.#close();
    }
  }

  #suggest(asked) {
    const position = this.area.selectionStart;
    const { from, options } = this.schema.complete(this.area.value, position);
    if (!options.length || (!asked && from === position)) {
      this.#close();
      return;
    }
    this.from = from;
    this.options = options.slice(0, MOST_OPTIONS);
    const items = this.options.map((option, index) => {
      const item = make("li", { role: "option", id: `option-${index}` }, option.text);
      item.addEventListener("mousedown", (event) => {
        event.preventDefault();
        this.#insert(option);
      });
      return item;
    });
    this.list.replaceChildren(...items);
    this.list.hidden = false;
    this.area.setAttribute("aria-expanded", "true");
    this.#place();
    this.#choose(0);
  }

  #place() {
    const style = getComputedStyle(this.area);
    const before = this.area.value.slice(0, this.from);
    const line = before.split("\n").length;
    const column = this.from - before.lastIndexOf("\n") - 1;
    const height = Number.parseFloat(style.lineHeight);
    const pen = make("canvas").getContext("2d");
    pen.font = style.font;
    const left = column * pen.measureText("0").width + Number.parseFloat(style.paddingLeft);
    const top = line * height + Number.parseFloat(style.paddingTop) - this.area.scrollTop;
    const most = this.area.parentElement.clientWidth - 200;
    this.list.style.left = `${Math.max(0, Math.min(most, this.area.offsetLeft + left - this.area.scrollLeft))}px`;
    this.list.style.top = `${top}px`;
  }

  #choose(index) {
    this.chosen = index;
    [...this.list.children].forEach((item, own) => item.setAttribute("aria-selected", own === index));
    this.list.children[index].scrollIntoView({ block: "nearest" });
    this.area.setAttribute("aria-activedescendant", `option-${index}`);
    this.about.textContent = this.options[index].about ?? "";
  }

  #insert(option) {
    const position = this.area.selectionStart;
    this.area.setSelectionRange(this.from, position);
    // Unlike an assignment to `value` it can be undone with Ctrl+Z.
    document.execCommand("insertText", false, option.text);
    this.#close();
  }

  #close() {
    this.list.hidden = true;
    this.area.setAttribute("aria-expanded", "false");
    this.area.removeAttribute("aria-activedescendant");
  }
}
