// Short forms for what every part of the page does with elements.

export const byId = (id) => document.getElementById(id);

// An element with properties; those with a dash are attributes. No markup is parsed.
export function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.includes("-") || key === "role" || key === "for") element.setAttribute(key, value);
    else element[key] = value;
  }
  element.append(...children);
  return element;
}

export function number(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  if (value !== 0 && Math.abs(value) < 0.001) return value.toExponential(1);
  return Number(value.toPrecision(digits)).toString();
}

export const scheme = matchMedia("(prefers-color-scheme: dark)");
export const schemeName = () => (scheme.matches ? "dark" : "light");

export function colourOf(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export function download(blob, name) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// Arrow keys move the focus among the elements that `select` finds.
export function arrowKeys(container, select, [back, on]) {
  container.addEventListener("keydown", (event) => {
    const all = [...container.querySelectorAll(select)].filter((one) => !one.hidden);
    const at = all.indexOf(document.activeElement);
    const next = { [back]: at - 1, [on]: at + 1, Home: 0, End: all.length - 1 }[event.key];
    if (at < 0 || next === undefined || !all[next]) return;
    event.preventDefault();
    all[next].focus();
  });
}
