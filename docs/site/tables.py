"""Pages of keys, columns and metrics, from the JSON Schemas and the gateway's table of counters."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from anabranch.result.schema import result_schema
from anabranch.scenario import schema

UNITS = {
    "_gib": "GiB", "_mbps": "Mbps", "_ms": "ms", "_us": "us", "_s": "s", "_bytes": "bytes",
    "_packets": "packets", "_per_s": "1/s",
}  # fmt: skip
"""Units by the suffix of a key's name, the longest suffix first where one ends with another."""

Row = tuple[str, dict[str, Any]]


def cell(text: str) -> str:
    """Text in a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def unit(name: str) -> str:
    """The unit that the end of a name says."""
    if name.endswith("_per_s"):
        return "1/s"
    whole = f"_{name}"  # `bytes` and `packets` are keys, too
    return next((u for suffix, u in UNITS.items() if whole.endswith(suffix)), "")


def scenario(root: Path) -> str:
    """The page of the keys of a scenario file."""
    whole = json.loads(schema())
    examples = _examples(root, whole)
    sections: dict[str, list[Row]] = {}
    for path, node in _leaves("", whole, whole):
        sections.setdefault(path.rpartition(".")[0], []).append((path, node))
    text = (
        "# Scenario keys\n\nThis page lists every key of a scenario file (TOML). `NAME` is a name "
        "that you choose, `[]` an entry of a list. A *required* key must be given; a key "
        "without default has none if it is left out. `anabranch schema` prints the same as a JSON "
        "Schema, with which editors check a file while you type; `anabranch init` writes a file to "
        "start from. The examples are from the files in `examples/`.\n"
    )
    for section, rows in sections.items():
        text += f"\n## {f'`{section}`' if section else 'The file'}\n\n"
        text += "| key | unit | range | default | example | meaning |\n|---|---|---|---|---|---|\n"
        for path, node in rows:
            name = path.rpartition(".")[2]
            default = _default(node)
            example = f"`{examples.get(path) or _possible(node)}`"
            meaning = cell(node.get("description", ""))
            cells = [f"`{name}`", unit(name), _range(node), default, example, meaning]
            text += f"| {' | '.join(cells)} |\n"
    return text


def _resolved(node: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in node:
        target = whole["$defs"][node["$ref"].rpartition("/")[2]]
        node = {**target, **{key: value for key, value in node.items() if key != "$ref"}}
    return node


def _leaves(path: str, node: dict[str, Any], whole: dict[str, Any]) -> list[Row]:
    """Every key below a node, with what the schema says of it."""
    node = _resolved(node, whole)
    below: list[Row] = []
    for name, child in node.get("properties", {}).items():
        if name in node.get("required", []):
            child = {**child, "needed": True}
        below += _leaves(f"{path}.{name}".lstrip("."), child, whole)
    if isinstance(named := node.get("additionalProperties"), dict) and "$ref" in named:
        below += _leaves(f"{path}.NAME", named, whole)
    if "$ref" in node.get("items", {}):
        below += _leaves(f"{path}[]", node["items"], whole)
    constants = []
    for variant in node.get("oneOf", node.get("anyOf", [])):
        if "const" in variant:
            constants.append(variant)
        elif "$ref" in variant or "properties" in variant:
            below += _leaves(path, variant, whole)
    if constants:
        said = [": " + it["description"] if "description" in it else "" for it in constants]
        values = "; ".join(
            f'`"{it["const"]}"`{words}' for it, words in zip(constants, said, strict=True)
        )
        described = f"{node.get('description', '')} {values}"
        below.insert(0, (path, {**node, "description": described, "type": "string"}))
    return below or [(path, node)]


def _range(node: dict[str, Any]) -> str:
    kinds = {"boolean": "true, false", "string": "text", "array": "a list", "object": "a table"}
    if "enum" in node:
        shown = (it if isinstance(it, str) else json.dumps(it) for it in node["enum"])
        return ", ".join(f"`{it}`" for it in shown)
    if (kind := node.get("type")) in kinds:
        return kinds[kind]
    low, high = node.get("minimum"), node.get("maximum")
    above = node.get("exclusiveMinimum")
    parts = []
    if above is not None and low is None:
        parts.append(f"above {_number(above)}")
    elif low is not None:
        parts.append(f"from {_number(low)}")
    if high is not None:
        parts.append(f"to {_number(high)}")
    if node.get("multipleOf") == 1 or kind == "integer":
        parts.insert(0, "integer")
    return " ".join(parts) or "number"


def _number(value: float) -> str:
    return f"{value:.10g}" if value < 1e10 else f"{value:.3g}"


def _default(node: dict[str, Any]) -> str:
    """The default of the schema, or in the words of its description."""
    if node.get("needed"):
        return "required"
    if "default" in node:
        return f"`{json.dumps(node['default'])}`"
    stated = r"[Dd]efault: `?([\w.-]+?)`?(?: \(|[.;,](?:\s|$))"
    words = re.search(stated, node.get("description", ""))
    return f"`{words[1]}`" if words else ""


def _possible(node: dict[str, Any]) -> str:
    """A value of a key that no file of examples/ has."""
    constants = [it["const"] for it in node.get("oneOf", []) if "const" in it]
    possible = [*node.get("examples", []), *constants[-1:], *node.get("enum", [])[-1:]]
    if possible:
        return json.dumps(possible[0])
    if node.get("type") == "boolean":
        return "true"
    if node.get("type") == "string":
        return '"text"'
    if node.get("type") == "object":
        return "{ beta = 0.5 }"
    if re.fullmatch(r"`[\d.]+`", usual := _default({**node, "needed": False})):
        return usual.strip("`")
    return _number(max(1, node.get("minimum", 1)))


def _examples(root: Path, whole: dict[str, Any]) -> dict[str, str]:
    """The first value of each key in the files of examples/."""
    found: dict[str, str] = {}

    def collect(path: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, below in value.items():
                name = "NAME" if path == "links" else key
                collect(f"{path}.{name}".lstrip("."), below)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for below in value:
                collect(f"{path}[]", below)
        elif len(json.dumps(value)) < 30:
            whole = int(value) if isinstance(value, float) and value.is_integer() else value
            found.setdefault(path, json.dumps(whole))

    for file in sorted((root / "examples").glob("*.toml")):
        collect("", tomllib.loads(file.read_text()))
    return found


def results() -> str:
    """The page of the columns of a result's tables."""
    tables = result_schema()["properties"]["tables"]["properties"]
    text = (
        "# Result tables\n\nThis page lists the columns of a result's tables: "
        "attributes of `anabranch.Result` in Python, Parquet files of `--out`, and `tables` of "
        "`--json`. Totals are over the measurement window, from `measure.warmup_s` to the end. "
        "An empty value (null) was not measured, or has no meaning on the backend. Every backend "
        "has the same columns. A result of a sweep has a further column for each key swept.\n"
    )
    for name, table in tables.items():
        text += f"\n## `{name}`\n\n| column | unit | meaning |\n|---|---|---|\n"
        for column, node in table["properties"].items():
            text += f"| `{column}` | {unit(column)} | {cell(node.get('description', ''))} |\n"
    return text


COUNTERS = re.compile(r'^    (Counter|Gauge) "(\w+)", "([^"]+)": \{(.*?)^    \}', re.M | re.S)
PATHS = re.compile(r'^    \("(\w+)", "([^"]+)", (?:None|Some\((\w+)\)), \|it\|', re.M)


def metrics(root: Path) -> str:
    """The page of the gateway's metrics."""
    text = (
        "# Metrics of the gateway\n\nThis page lists the metrics that `anabranch-gateway` serves "
        "at `http://ADDRESS/metrics` for Prometheus, in the OpenMetrics text format; `ADDRESS` is "
        "the key `operation.status` ([the gateway](gateway.md)). All names begin with "
        "`anabranch_gateway_`, and names of counters end with `_total`. The metrics of rules in "
        "the kernel are in [Use a rule on your server or router](../how-to/kernel.md).\n\n"
        "## Of the gateway\n\n| metric | kind | labels | meaning |\n|---|---|---|---|\n"
    )
    source = (root / "crates/gateway/gateway/src/counters.rs").read_text()
    for kind, name, meaning, rows in COUNTERS.findall(source):
        labels = dict.fromkeys(re.findall(r'= "(\w+)" "(\w+)"', rows))
        by_label: dict[str, list[str]] = {}
        for label, value in labels:
            by_label.setdefault(label, []).append(f"`{value}`")
        shown = "; ".join(f"`{label}`: {', '.join(it)}" for label, it in by_label.items())
        text += f"| `{name}` | {kind.lower()} | {shown} | {cell(meaning)} |\n"
    text += "\n## Of each path\n\nLabels: `tunnel`, `path`. Counters start again with each tunnel."
    text += "\n\n| metric | unit | meaning |\n|---|---|---|\n"
    source = (root / "crates/gateway/gateway/src/operation/metrics.rs").read_text()
    for name, meaning, of in PATHS.findall(source):
        text += f"| `{name}` | {of.lower()} | {cell(meaning)} |\n"
    return text
