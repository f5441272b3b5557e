"""Requests of the page, checked: a scenario with changed values, rules, seed and backend; and the
directory of one, as a ZIP file."""

import io
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

from anabranch._core import Cancelled, algorithm
from anabranch.extras.ui.gallery import item
from anabranch.runner import BACKENDS, run
from anabranch.scenario import Scenario, ScenarioError, named

BACKENDS_OF_PAGE = [name for name, backend in BACKENDS.items() if not backend.real_time]
"""The backends that need neither root nor real time."""

NAME = "scenario.toml"
"""Name of a text that the page sends, in errors."""

MOST_RULES = 2
STAND_IN = "lia"
"""The algorithm with which a scenario without one is read."""


@dataclass(frozen=True)
class Asked:
    """A run of each rule."""

    scenario: Scenario
    rules: list[str | None]
    """Canonical names; None where every flow has its own, so that there is one run."""
    seed: int
    on: str


def scenario_of(document: Mapping[str, Any], folder: Path) -> Scenario:
    """The scenario of a document from the page: `toml` or `item`, and `set`.

    Traces that a text names are looked for in `folder`. Raises `ScenarioError`.
    """
    values = document.get("set", {})
    if not isinstance(values, dict) or not all(isinstance(one, str) for one in values.values()):
        raise ScenarioError("set: expected an object of keys to TOML values")
    base = item(str(document["item"])) if document.get("item") else None
    text = document.get("toml") or (base.toml if base else None)
    if not isinstance(text, str):
        raise ScenarioError("expected toml or item")
    file = str((base.file.parent if base else folder) / NAME)
    inputs = base.inputs if base else {}
    try:
        return named(Scenario.parse(text, file, list(values.items()), inputs, STAND_IN))
    except ScenarioError as error:
        raise ScenarioError(plain(str(error), file)) from None


def plain(message: str, source: str) -> str:
    """An error in which the scenario has the name that the page gives it."""
    return message.replace(source, NAME)


def asked(document: Mapping[str, Any], folder: Path) -> Asked:
    """The runs of a document from the page. Raises `ScenarioError`."""
    scenario = scenario_of(document, folder)
    rules, seed, on = (document.get(key) for key in ("rules", "seed", "on"))
    if not isinstance(rules, list) or not 1 <= len(rules) <= MOST_RULES:
        raise ScenarioError(f"rules: expected a list of one or {MOST_RULES}")
    if not all(rule is None or isinstance(rule, str) for rule in rules):
        raise ScenarioError("rules: expected names of rules")
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**64:
        raise ScenarioError(f"seed: expected a whole number from 0 on, got {seed!r}")
    if on not in BACKENDS_OF_PAGE:
        raise ScenarioError(f"on: expected one of {', '.join(BACKENDS_OF_PAGE)}, got {on!r}")
    if scenario.algorithm is None:
        return Asked(scenario, [None], seed, on)
    return Asked(scenario, [algorithm(rule or scenario.algorithm) for rule in rules], seed, on)


def archive(asked: Asked, stop: threading.Event) -> bytes:
    """Run once more, which gives the same bits, and pack what `anabranch run --out` would write.

    Raises `Cancelled` soon after `stop` is set, and as `run` does.
    """
    from anabranch.figures import result as figures  # slow to load

    def watch(_: float) -> None:
        if stop.is_set():
            raise Cancelled("the run was cancelled")

    rules = None if asked.rules == [None] else [rule or "" for rule in asked.rules]
    result = run(asked.scenario, rules, [asked.seed], on=asked.on, jobs=1, progress=watch)
    content = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        result.write(Path(folder))
        figures.write(result, Path(folder))
        with ZipFile(content, "w", ZIP_DEFLATED) as packed:
            for file in sorted(Path(folder).iterdir()):
                packed.write(file, f"anabranch/{file.name}")
    return content.getvalue()
