"""The schema of scenario files and their reader: what one refuses, the other refuses."""

import contextlib
import copy
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from anabranch.scenario import Scenario, ScenarioError, schema, toml_value

SCHEMA = json.loads(schema())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

TRACE = str(Path(__file__).parents[2] / "examples" / "lte.trace")
EVERY_TABLE = f"""
algorithm = "lia"
name = "every table"
description = "of the schema"
seeds = [1, 2]
measure = {{ duration_s = 60, warmup_s = 20, sample_ms = 100, max_memory_gib = 4 }}
tcp = {{ profile = "linux", recovery = "sack", packet_bytes = 1500, undo = true, ecn = "accurate" }}
links.a = {{ rate_mbps = 9, delay_ms = 5, queue.red = {{ min_packets = 9 }}, loss = "none" }}
links.b = {{ trace_file = {TRACE!r}, delay_ms = 5, queue.drop_tail = {{ packets = 9 }} }}
links.c.rate_mbps = 9
links.c.delay_ms = 5
links.c.loss.bernoulli = {{ probability = 0.1 }}
links.c.down = [{{ from_s = 1, to_s = 2 }}]
links.d.rate_mbps = 9
links.d.delay_ms = 5
links.e = {{ rate_mbps = 9, delay_ms = 5, queue.codel = {{ target_ms = 9 }} }}
links.f = {{ rate_mbps = 9, delay_ms = 5, queue.fq_codel = {{ flows = 9 }} }}
links.g = {{ rate_mbps = 9, delay_ms = 5, queue.pie = {{ tupdate_ms = 9 }} }}
links.i = {{ rate_mbps = 9, delay_ms = 5, queue.dualpi2 = {{ classic_share = 0 }} }}
links.h.rate_mbps = 9
links.h.loss.periodic.packets = 9
links.h.delay_ms = 5
links.h.queue.policer = {{ rate_mbps = 9, burst_bytes = 1500 }}
links.d.loss.gilbert_elliott = {{ good_to_bad = 0.1, bad_to_good = 1 }}
links.d.arq = {{ retries = 3, delay_ms = 8 }}
links.d.jitter_ms = 5
links.d.keeps_order = false
links.d.reorder = {{ share = 0.1, packets = 5, hold_ms = 9 }}
links.c.reorder = {{ share = 0.1, by_ms = 5 }}
[[flows]]
name = "bulk"
workload = "bulk"
paths = [["a", "b"], {{ links = ["c"], return_delay_ms = 9, start_s = 1 }}]
[[flows]]
name = "file"
paths = [["a"], {{ links = ["a"], back = ["c", "d"] }}]
algorithm = "balia"
parameters = {{ cap = 2 }}
workload.file = {{ bytes = 1e6 }}
[[flows]]
name = "on and off"
paths = [["a"]]
workload.on_off = {{ on_s = 1, off_s = 2 }}
[[flows]]
name = "poisson"
paths = [["a"]]
workload.poisson = {{ rate_per_s = 1, size.pareto = {{ mean_bytes = 1e4, shape = 1.5 }} }}
[[flows]]
name = "lognormal"
paths = [["a"]]
workload.poisson = {{ rate_per_s = 1, size.lognormal = {{ mean_bytes = 1e4, sigma = 2 }} }}
[[flows]]
name = "weibull"
paths = [["a"]]
workload.poisson = {{ rate_per_s = 1, size.weibull = {{ mean_bytes = 1e4, shape = 0.5 }} }}
[[flows]]
name = "periodic messages"
paths = [["a"]]
packet_bytes = 300
workload.messages = {{ size_bytes = 100, interval_ms = 20 }}
[[flows]]
name = "listed messages"
paths = [["a"]]
workload.messages.list = [{{ time_s = 1, bytes = 100 }}]
[[flows]]
name = "call"
paths = [["a"]]
workload.media = {{ rate_mbps = 1, late_ms = 100 }}
[[flows]]
name = "nada"
paths = [["a"]]
workload.media.nada = {{ max_mbps = 2 }}
[[flows]]
name = "gateway"
paths = [["d"]]
algorithm = "vegas"
[flows.workload.gateway]
clients = 2
rate_per_s = 1
size.exponential = {{ mean_bytes = 1e4 }}
adjust = {{ samples = 60, guard = true, max_kappa = "active", back_pressure = true }}
"""

Place = tuple[str | int, ...]
OTHERS: list[Any] = [[[5]], {"x": 1}, -1, "x", {"bulk": {}}]
LONGER: list[Any] = [[], [5, 1], {}, 5, 0.5, True, [{"x": 1}], {"bulk": []}, {"none": {}}]
LONGER += [{"none": []}]
"""Substitutes for every value: one of each type, and in `make test-all` others."""


def places(value: Any, here: Place = ()) -> Iterator[Place]:
    """Every place in a document, outermost first."""
    yield here
    if isinstance(value, (dict, list)):
        for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(entry, (*here, key))


def replaced(document: dict[str, Any], place: Place, value: Any) -> dict[str, Any]:
    changed: Any = copy.copy(document)
    inner = changed
    for key in place[:-1]:
        inner[key] = copy.copy(inner[key])
        inner = inner[key]
    inner[place[-1]] = value
    return dict(changed)


def text(document: dict[str, Any]) -> str:
    return "".join(f"{json.dumps(key)} = {toml_value(value)}\n" for key, value in document.items())


def tables(node: Any) -> Iterator[frozenset[str]]:
    """The keys of every table that the schema describes by its keys."""
    if isinstance(node, dict):
        if isinstance(node.get("properties"), dict) and node.get("type") == "object":
            yield frozenset(node["properties"])
        for inner in node.values():
            yield from tables(inner)
    if isinstance(node, list):
        for inner in node:
            yield from tables(inner)


def test_the_scenario_has_every_table_of_the_schema() -> None:
    document = tomllib.loads(EVERY_TABLE)
    VALIDATOR.validate(document)
    assert Scenario.parse(text(document)).name == "every table"
    values = (at(document, place) for place in places(document))
    written = [value for value in values if isinstance(value, dict)]
    for keys in tables(SCHEMA):
        assert any(value.keys() <= keys for value in written), sorted(keys)


def at(document: Any, place: Place) -> Any:
    for key in place:
        document = document[key]
    return document


@pytest.mark.parametrize(
    "value", [*OTHERS, *(pytest.param(it, marks=pytest.mark.slow) for it in LONGER)], ids=str
)
def test_what_the_schema_refuses_the_reader_refuses(value: Any) -> None:
    document = tomllib.loads(EVERY_TABLE)
    read = []
    for place in places(document):
        wrong = replaced(document, place, value) if place else None
        if wrong is None or VALIDATOR.is_valid(wrong):
            continue
        with contextlib.suppress(ScenarioError):
            Scenario.parse(text(wrong))
            read.append(place)
    assert read == []
