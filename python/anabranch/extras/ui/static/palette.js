// Colours and dashes of rules, flows and paths: those of the figures, from the server.

import { schemeName } from "./dom.js";

let palette;

export function setPalette(found) {
  palette = found;
}

const own = () => palette[schemeName()];

export function ofRule(spec, among = []) {
  const name = spec.split(":")[0];
  const twins = among.filter((other) => other.split(":")[0] === name);
  if (own().rules[name] && (twins.length < 2 || twins[0] === spec)) return own().rules[name];
  return own().others[0];
}

export const ofFlow = (index) => own().flows[index % own().flows.length];
// Links follow the flows, so that a link has no flow's colour while there are colours left.
export const ofLink = (index, flows) => ofFlow(index + flows);
export const dashOf = (path) => palette.dashes[path % palette.dashes.length];
