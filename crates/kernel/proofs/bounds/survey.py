"""Bounds of all rules, and their record."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.formats import csv_table
from anabranch.scenario import rules
from bounds.monomial import Bounds
from bounds.rule_bounds import NONE, TIMEOUT_S, RuleBounds, bounds
from bounds.states import MOST_PATHS

if TYPE_CHECKING:
    from anabranch.runner import Progress  # slow to load

PATHS = tuple(range(1, MOST_PATHS + 1))

COLUMNS = ("rule", "paths", "increase", "increase x w", "decrease / w", "exponents", "cases", "s")


@dataclass(frozen=True)
class Survey:
    """The bounds of some rules, for some numbers of paths each."""

    rules: Sequence[RuleBounds]

    def as_dict(self) -> dict[str, Any]:
        return {"rules": [one.as_dict() for one in self.rules]}


def bounds_of(
    specs: Sequence[str],
    paths: Sequence[int] = PATHS,
    timeout_s: float = TIMEOUT_S,
    progress: "Progress | None" = None,
) -> Survey:
    """The bounds of each rule for each number of paths. Raises `ScenarioError`."""
    pairs = [(spec, n) for spec in specs for n in paths]
    found = []
    for number, (spec, n) in enumerate(pairs):
        if progress:
            progress(number / len(pairs))
        found.append(bounds(spec, n, timeout_s))
    return Survey(found)


def every_rule() -> list[str]:
    """The rules of the table that have bounds: all but those by delivery rates."""
    return [rule["name"] for rule in rules() if not rule["by_rate"]]


def rows(found: Survey, per_round: bool) -> Iterator[list[str]]:
    """A row of `COLUMNS` per rule with the bounds over all numbers of paths; failures beside."""
    for name in dict.fromkeys(one.rule for one in found.rules if one.per_round == per_round):
        own = [one for one in found.rules if one.rule == name]
        done = [one for one in own if not one.failure]
        if done:
            yield [
                name,
                _numbers([one.paths for one in done]),
                _range(_hull([one.change for one in done])),
                _range(_hull([one.change_of_window for one in done])),
                _range(_hull([one.decrease_of_window for one in done])),
                "{:.0f} to {:.0f}".format(*_hull([one.exponents for one in done])),
                str(max(one.cases for one in done)),
                f"{max(one.seconds for one in done):.1f}",
            ]
        else:
            yield [name, _numbers([one.paths for one in own]), *["?"] * 6]


def failures(found: Survey) -> Iterator[str]:
    """Bounds that are not shown, and why."""
    for one in found.rules:
        if one.failure:
            yield f"{one.rule}, {_paths(one.paths)}: {one.failure}"
        elif not one.proved:
            part = _range(one.decrease_of_window)
            yield f"{one.rule}, {_paths(one.paths)}: a loss takes {part} of the window"


def record(found: Survey) -> str:
    """A row per rule as CSV: bounds per acknowledged packet or round trip; what is not shown."""
    lines = [
        [name, "round trip" if per_round else "packet", *cells[:-1], _not_shown(found, name)]
        for per_round in (False, True)
        for name, *cells in rows(found, per_round)
    ]
    heads = ("rule", "per", "paths", "change", "change x w or / w", *COLUMNS[4:7], "not shown")
    return csv_table(heads, lines)


def _not_shown(found: Survey, rule: str) -> str:
    return "; ".join(failures(Survey([one for one in found.rules if one.rule == rule])))


def _paths(number: int) -> str:
    return f"{number} path" + "s" * (number > 1)


def _numbers(paths: Sequence[int]) -> str:
    """1 to 8, or 1, 2, 4."""
    if len(paths) > 2 and list(paths) == list(range(paths[0], paths[-1] + 1)):
        return f"{paths[0]} to {paths[-1]}"
    return ", ".join(map(str, paths))


def _hull(found: Sequence[Bounds]) -> Bounds:
    return min(low for low, _ in found), max(high for _, high in found)


def _range(found: Bounds) -> str:
    return "" if found == NONE else f"{_end(found[0])} to {_end(found[1])}"


def _end(number: float) -> str:
    """A number in a few digits, without the rounding errors of soft floats."""
    near = round(number, 3)
    if abs(number - near) < 1e-6 * max(1, abs(near)):
        return f"{near + 0:.4g}"  # not -0
    return f"{number:.2g}"
