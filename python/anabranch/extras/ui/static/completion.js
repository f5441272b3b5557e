// What may be written at a place of a scenario, from its JSON schema.

const HEADER = /^\s*(\[\[?)\s*([^\]]*?)\s*(\]\]?)?\s*(#.*)?$/;

function parts(key) {
  return [...key.matchAll(/"([^"]*)"|[^.\s]+/g)].map((found) => found[1] ?? found[0]);
}

export class Schema {
  constructor(schema, rules) {
    this.root = schema;
    this.rules = rules;
  }

  // The schemas that a value may have: references, alternatives and lists resolved.
  #open(schema) {
    if (!schema) return [];
    const { $ref: reference, anyOf = [], oneOf = [], allOf = [] } = schema;
    const named = reference ? [this.root.$defs[reference.split("/").at(-1)]] : [];
    const more = [...named, ...anyOf, ...oneOf, ...allOf].flatMap((one) => this.#open(one));
    return [schema, ...more];
  }

  // The keys of a table: name to schema. `links` and other tables by name give none.
  #keys(schemas) {
    const keys = new Map();
    for (const one of schemas) {
      for (const [name, own] of Object.entries(one.properties ?? {})) keys.set(name, own);
    }
    return keys;
  }

  #at(path) {
    let schemas = this.#open(this.root);
    for (const name of path) {
      const next = schemas.flatMap((one) => {
        const own = one.properties?.[name] ?? one.additionalProperties;
        return typeof own === "object" ? this.#open(own) : [];
      });
      schemas = next.flatMap((one) => (one.items ? [one, ...this.#open(one.items)] : [one]));
    }
    return schemas;
  }

  #values(path) {
    if (path.at(-1) === "algorithm") return this.rules.map(({ name, summary }) => ({ text: `"${name}"`, about: summary }));
    const found = new Map();
    for (const one of this.#at(path)) {
      const named = one.enum ?? ("const" in one ? [one.const] : []);
      for (const value of named) found.set(JSON.stringify(value), one.description);
      if (one.type === "boolean") for (const value of ["true", "false"]) found.set(value, undefined);
      if (one.default !== undefined && typeof one.default !== "object") {
        const text = JSON.stringify(one.default);
        if (!found.has(text)) found.set(text, "the default");
      }
    }
    return [...found].map(([text, about]) => ({ text, about }));
  }

  #headers(text) {
    const names = [...text.matchAll(/^\s*\[\s*links\.([^\].]+)/gm)].map((found) => found[1]);
    const tables = ["[measure]", "[tcp]", "[links.NAME]", "[[flows]]", "[flows.workload.poisson]"];
    for (const name of new Set(names)) tables.push(`[links.${name}.queue]`);
    return tables.map((one) => ({ text: one }));
  }

  // What may follow at `position`: { from, options }, with `from` where the word there begins.
  complete(text, position) {
    const begin = text.lastIndexOf("\n", position - 1) + 1;
    const line = text.slice(begin, position);
    if (/(^|\s)#/.test(line)) return { from: position, options: [] };
    if (/^\s*\[/.test(line) && !line.includes("=")) {
      const from = begin + line.search(/\[/);
      return { from, options: fitting(this.#headers(text), text.slice(from, position)) };
    }
    const table = header(text.slice(0, begin));
    const equals = line.indexOf("=");
    if (equals >= 0) {
      const after = line.slice(equals + 1);
      if (/[{[,]/.test(after)) return { from: position, options: [] };
      const from = begin + equals + 1 + after.search(/\S|$/);
      const options = this.#values([...table, ...parts(line.slice(0, equals))]);
      return { from, options: fitting(options, text.slice(from, position)) };
    }
    const written = parts(line);
    const ends = /\.\s*$/.test(line) || line.trim() === "";
    const word = ends ? "" : written.pop();
    const options = [...this.#keys(this.#at([...table, ...written]))].map(([name, own]) => ({
      text: name,
      about: own.description ?? this.#open(own).map((one) => one.description).find(Boolean),
    }));
    return { from: position - word.length, options: fitting(options, word) };
  }
}

// The dotted key of the table in which a text ends.
function header(text) {
  const lines = text.split("\n");
  for (let index = lines.length - 1; index >= 0; index -= 1) {
    const found = HEADER.exec(lines[index]);
    if (found?.[3]) return parts(found[2]);
  }
  return [];
}

function fitting(options, word) {
  const plain = (text) => text.toLowerCase().replace(/^["[]+/, "");
  const sought = plain(word);
  return options.filter(({ text }) => plain(text).startsWith(sought) && text !== word);
}
