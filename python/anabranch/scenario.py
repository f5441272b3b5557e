"""Scenario files: loading, overriding single values, the table of rules."""

import json
import os
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from anabranch._core import (
    Scenario,
    ScenarioError,
    couplings,
    expected_one_of,
    rules,
    schedulers,
    schema,
)
from anabranch.formats import is_printable, printable

__all__ = [
    "Scenario",
    "ScenarioError",
    "Toml",
    "couplings",
    "expected_one_of",
    "load",
    "named",
    "path_names",
    "rules",
    "schedulers",
    "schema",
    "settings",
    "toml_value",
]


class Toml(str):
    """A value of the scenario as TOML text, such as `30` or `[1, 2]`.

    Text that is not TOML, such as a bare word, is a string.

    >>> load("examples/two_links.toml", {"seeds": Toml("[1, 2]"), "name": Toml("Wide")}).name
    'Wide'
    """


def load(
    source: str | os.PathLike[str] | Scenario,
    set: Mapping[str, Any] | None = None,
    algorithm: str | None = None,
) -> Scenario:
    """Read and check a scenario file, with single values replaced.

    A file in which a flow has no algorithm gets `algorithm`. `set` maps a dotted key to a Python
    value, `{"links.R1.rate_mbps": 30}`, or to `Toml`. Raises `ScenarioError`, whose message is one
    line that names file, line and key.

    >>> scenario = load("examples/two_links.toml", {"links.left.rate_mbps": 30, "seeds": [7]})
    >>> scenario.name, scenario.seeds, scenario.link_names
    ('Two links', [7], ['left', 'right'])
    """
    given = settings(set)
    if isinstance(source, Scenario):
        if given:
            raise ScenarioError("set needs a scenario file: give its path, not a Scenario")
        return named(source)
    file = _path(source)
    values = {key: toml_value(value) for key, value in given.items()}
    try:
        return named(Scenario.load(file, list(values.items()), algorithm))
    except ScenarioError as error:
        message = str(error)
        for key, text in values.items():
            if not isinstance(given[key], Toml):  # else it comes from the command line
                message = message.replace(f"--set {key}={text}", f"set[{key!r}] = {text}")
        raise ScenarioError(message) from None


def named(scenario: Scenario) -> Scenario:
    """The scenario. Raises `ScenarioError` for a name that would not be printed as it is.

    Names are in tables, warnings and figures; a terminal would obey the control characters in one.
    """
    kinds = {"name": [scenario.name], "links": scenario.link_names, "flows": scenario.flow_names}
    for kind, names in kinds.items():
        for name in names:
            if odd := next((letter for letter in name if not is_printable(letter)), None):
                what = "the name" if kind == "name" else f"{kind}: the name"
                raise ScenarioError(
                    f'{scenario.source}: {what} "{printable(name)}" has the control character '
                    f"U+{ord(odd):04X}: names are printed: leave it out"
                )
    return scenario


def settings(set: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The argument `set` of `run` and others; empty for None. Raises `ScenarioError`."""
    if set is None or (isinstance(set, Mapping) and all(isinstance(key, str) for key in set)):
        return set or {}
    raise ScenarioError(
        f"set = {set!r}: expected a dict of keys to values, as in {{'links.R1.rate_mbps': 30}}"
    )


def _path(source: object) -> str:
    """The path of a scenario file. Raises `ScenarioError` for what is none."""
    if isinstance(source, str) and "\n" in source:
        raise ScenarioError(
            "expected the path of a scenario file, got text: Scenario.parse(text) reads it"
        )
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    raise ScenarioError(
        f"expected the path of a scenario file or a Scenario, got a {type(source).__name__}: "
        "Scenario.parse(text) reads TOML text"
    )


def path_names(scenario: Scenario) -> dict[str, list[str]]:
    """The names of the paths of each flow: their links, joined by `+`.

    >>> path_names(load("examples/two_links.toml"))["two-path"]
    ['left', 'right']
    """
    plain = scenario.network()
    links = [link["name"] for link in plain["links"]]
    return {
        flow["name"]: _numbered(["+".join(links[i] for i in path["links"]) for path in paths])
        for flow in plain["flows"]
        for paths in [flow["paths"]]
    }


def _numbered(names: list[str]) -> list[str]:
    """The names; equal ones are numbered."""
    return [
        name if names.count(name) == 1 else f"{name} ({names[: i + 1].count(name)})"
        for i, name in enumerate(names)
    ]


def toml_value(value: Any) -> str:
    """The TOML text of a Python value; numbers may be of NumPy.

    Raises `ScenarioError` for a type that TOML does not have.

    >>> toml_value({"rates": [10, 2.5], "name": "a"})
    '{ "rates" = [10, 2.5], "name" = "a" }'
    """
    match value:
        case Toml():
            return value
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case Integral():
            return str(int(value))
        case Real():
            return repr(float(value))
        case Mapping():
            pairs = (f"{json.dumps(str(k))} = {toml_value(v)}" for k, v in value.items())
            return "{ " + ", ".join(pairs) + " }"
        case list() | tuple():
            return "[" + ", ".join(map(toml_value, value)) + "]"
        case _:
            raise ScenarioError(f"a value of set cannot be a {type(value).__name__}: {value!r}")
