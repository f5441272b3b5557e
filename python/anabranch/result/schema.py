"""The JSON Schema of what `anabranch run --json` prints: `Result.as_dict()` as a document."""

from typing import Any

from anabranch import _core

SUMMARIES = {
    "flows": {
        "flow": ("string", "name of the flow"),
        "rule": ("string", "what the flow ran: the algorithm of the run, or its own"),
        "users": ("integer", "number of users of the flow"),
        "goodput_mbps": ("number", "mean over the users, Mbps"),
        "loss_probability": ("number", "lost packets over sent packets"),
        "rtt_ms": ("number", "mean over the paths, weighted by packets sent, ms"),
    },
    "links": {
        "link": ("string", "name of the link"),
        "throughput_mbps": ("number", "bytes delivered, Mbps"),
        "utilization": ("number", "throughput over the link's mean rate within the window"),
        "loss_probability": ("number", "dropped packets over arrived packets"),
        "queue_packets": ("number", "packets that wait, mean of the samples"),
    },
    "totals": {
        "total_goodput_mbps": ("number", "sum over all users, Mbps"),
        "jain_index": ("number", "Jain's index of the goodputs of all users"),
    },
    "transfers": {
        "flow": ("string", "name of the flow"),
        "transfers": ("number", "files that arrived after the warm-up and were completed"),
        "mean_s": ("number", "time from a file's arrival to its last byte, the mean, s"),
        "median_s": ("number", "the median, s"),
        "p95_s": ("number", "the 95th percentile, s"),
    },
    "gain": {
        "flow": ("string", "name of a flow with several paths"),
        "best_path": ("string", "the best of its paths"),
        "gain": ("number", "goodput over that of a run with the best path alone, with Reno"),
    },
    "optimum": {
        "efficiency": ("number", "goodput of all users over that at the optimum"),
        "jain_index": ("number", "Jain's index of the goodputs of all users"),
        "optimal_jain_index": ("number", "the same at the optimum"),
        "utility_gap": ("number", "mean over the users of log(optimal rate / measured rate)"),
        "price_spread": ("number", "(dearest - cheapest) / dearest of the paths that a user uses"),
    },
}
"""The rows of each summary: column to type and meaning."""

MEASURED: dict[str, tuple[str | list[str], str]] = {
    "backend": ("string", "what computed it"),
    "algorithm": ("string", "of the run"),
    "flow": ("string", "name of the flow"),
    "quantity": ("string", "Mbps, of goodput, of a transfer or while it sends; or RTT, ms"),
    "measured": ("number", "as given, or read from a file; the mean of several"),
    "measurements": ("integer", "how many were given"),
    "measured_ci95": (["number", "null"], "half the 95 % interval of their mean; null for one"),
    "computed": (["number", "null"], "mean over the seeds; null where no transfer was done"),
    "low": (["number", "null"], "95 % of runs are above it; null for one seed"),
    "high": (["number", "null"], "95 % of runs are below it"),
    "verdict": ("string", "inside, or how far from what was computed"),
}
"""The rows of `measured`."""


def result_schema() -> dict[str, Any]:
    """The schema as plain data, with the type and the meaning of every column.

    >>> result_schema()["properties"]["tables"]["required"][:4]
    ['flows', 'paths', 'links', 'transfers']
    """
    tables = {name: _table(columns) for name, columns in _core.columns().items()}
    tables.pop("media")
    summaries = {name: _summary(name, columns) for name, columns in SUMMARIES.items()}
    scenario = {
        "name": _field("string", "empty where the file has none"),
        "description": _field("string", "empty where the file has none"),
        "duration_s": _field("number", "length of a run, s"),
        "warmup_s": _field("number", "start of the measurement window, which ends with the run, s"),
    }
    properties = {
        "anabranch": _field("string", "version of Anabranch"),
        "backend": _field("string", "what ran the scenario, such as sim"),
        "scenario": _object(scenario, "The scenario, without the values that a sweep varied."),
        "algorithms": _list(_field("string", "what flows without an algorithm of their own ran")),
        "seeds": _list({"type": "integer", "minimum": 0}),
        "one_trajectory": _field(
            "boolean",
            "whether each number is of one trajectory, without an interval: one seed, or nothing "
            "in the scenario is random",
        ),
        **summaries,
        "warnings": _list(_field("string", "what is probably not meant, or was approximated")),
        "tables": _object(tables, "The tables, over all algorithms and seeds."),
        "lateness": _lateness(),
        "measured": _list(_object({name: _field(*field) for name, field in MEASURED.items()})),
        "media": _media(),
        "failures": {
            "type": "object",
            "description": "algorithms that are in no table because a run failed, with the reason",
            "additionalProperties": {"type": "string"},
        },
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Result of `anabranch run` and `anabranch compare`",
        "description": "Totals are over the measurement window. null: not measured or modelled.",
        **_object(
            properties,
            optional={"gain", "measured", "optimum", "lateness", "media", "failures"},
        ),
    }


def _lateness() -> dict[str, Any]:
    late = {"type": ["number", "null"]}
    row = {
        "algorithm": _field("string", "what flows without an algorithm of their own ran"),
        "seed": _field("integer", "seed of the run"),
        "packets": _field("integer", "packets delivered"),
        "median_us": late | {"description": "median of their lateness, us"},
        "p99_us": late | {"description": "99th percentile, us"},
        "worst_us": late | {"description": "maximum, us"},
        "too_late": _field("boolean", "whether the 99th percentile is above 1 ms"),
    }
    rows = _object(row) | {"additionalProperties": True}
    meaning = "Lateness, on backends in real time: a row per run."
    return _list(rows) | {"description": meaning}


def _media() -> dict[str, Any]:
    described = _core.columns()["media"].items()
    row = {
        name: {"type": [kind, "null"] if kind == "number" else kind, "description": meaning}
        for name, (kind, meaning) in described
    }
    meaning = "Media, where a flow sends any: a row per run and user."
    return _list(_object(row) | {"additionalProperties": True}) | {"description": meaning}


def _field(kind: str | list[str], meaning: str) -> dict[str, Any]:
    return {"type": kind, "description": meaning}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _object(
    properties: dict[str, Any], description: str = "", optional: set[str] | None = None
) -> dict[str, Any]:
    return {
        "type": "object",
        **({"description": description} if description else {}),
        "properties": properties,
        "required": [name for name in properties if name not in (optional or ())],
        "additionalProperties": False,
    }


def _table(columns: dict[str, tuple[str, str]]) -> dict[str, Any]:
    """A table as an object of columns; the keys of a sweep are columns, too."""
    keys = {
        "algorithm": _column("string", "what flows without an algorithm of their own ran"),
        "seed": _column("integer", "seed of the run"),
    }
    described = {name: _column(*column) for name, column in columns.items()}
    table = _object(keys | described, "Columns of equal length; a column per key of a sweep.")
    return table | {"additionalProperties": {"type": "array"}}


def _column(kind: str, meaning: str) -> dict[str, Any]:
    items = {"type": kind if kind == "string" else [kind, "null"]}
    return {"type": "array", "items": items, "description": meaning}


def _summary(name: str, columns: dict[str, tuple[str, str]]) -> dict[str, Any]:
    """A list of rows, one per case: means over seeds, each with half its 95 % interval."""
    row: dict[str, Any] = {
        "algorithm": _field("string", "what flows without an algorithm of their own ran")
    }
    for column, (kind, meaning) in columns.items():
        if kind != "number":
            row[column] = _field(kind, meaning)
            continue
        row[column] = {"type": ["number", "null"], "description": meaning}
        row[f"{column}_ci95"] = {
            "type": ["number", "null"],
            "description": "half the 95 % interval over seeds; null for one seed",
        }
    if name not in ("gain", "optimum"):
        meaning = "whether these numbers are of one trajectory, without an interval"
        row["one_trajectory"] = _field("boolean", meaning)
    rows = _object(row) | {"additionalProperties": True}
    return _list(rows) | {"description": f"{name.capitalize()}: a row per case, means over seeds."}
