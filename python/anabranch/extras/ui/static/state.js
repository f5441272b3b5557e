// What the page shows, as the fragment of its address: gallery item and changes, or the whole text.

export function initial() {
  return { item: "examples/two_links", toml: null, set: {}, a: "", b: "", on: "sim", seed: 1 };
}

export async function toFragment(state) {
  const query = new URLSearchParams();
  if (state.item) query.set("item", state.item);
  for (const key of ["a", "b"]) if (state[key]) query.set(key, state[key]);
  if (state.on !== "sim") query.set("on", state.on);
  if (state.seed !== 1) query.set("seed", state.seed);
  if (Object.keys(state.set).length) query.set("set", JSON.stringify(state.set));
  if (state.toml !== null) query.set("toml", await packed(state.toml));
  return `#${query}`;
}

export async function fromFragment(fragment) {
  const query = new URLSearchParams(fragment.replace(/^#/, ""));
  const known = ["item", "a", "b", "on", "seed", "set", "toml"];
  if (!known.some((key) => query.has(key))) return null;
  const seed = Number.parseInt(query.get("seed") ?? "1", 10);
  const set = JSON.parse(query.get("set") ?? "{}");
  return {
    item: query.get("item") ?? "",
    toml: query.has("toml") ? await unpacked(query.get("toml")) : null,
    set: Object.fromEntries(Object.entries(set).map(([key, value]) => [key, String(value)])),
    a: query.get("a") ?? "",
    b: query.get("b") ?? "",
    on: query.get("on") ?? "sim",
    seed: Number.isSafeInteger(seed) && seed >= 0 ? seed : 1,
  };
}

async function through(stream, bytes) {
  const answer = new Response(new Blob([bytes]).stream().pipeThrough(stream));
  return new Uint8Array(await answer.arrayBuffer());
}

async function packed(text) {
  const bytes = await through(
    new CompressionStream("deflate-raw"),
    new TextEncoder().encode(text),
  );
  const binary = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

async function unpacked(text) {
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(binary, (letter) => letter.charCodeAt(0));
  const plain = await through(new DecompressionStream("deflate-raw"), bytes);
  return new TextDecoder().decode(plain);
}
