"""A rule written in Python, for trying an idea in ten lines."""

from collections.abc import Sequence
from traceback import extract_tb
from typing import Protocol

from anabranch._core import Path, ScenarioError, expected_one_of


class Rule(Protocol):
    """A congestion-avoidance law over the paths of one flow: windows in packets, times in seconds.

    Any object with these two methods is a rule; a class derived from this one inherits the usual
    `decrease`. A rule must be pure: its answers depend on `r` and `paths` only, because one object
    serves every flow and every seed. Slow start, recovery and timeouts are not part of it.

    >>> import anabranch
    >>> class Third(anabranch.Rule):
    ...     def increase(self, r, paths):
    ...         return 1 / paths[r].window
    ...
    ...     def decrease(self, r, paths):
    ...         return paths[r].window / 3
    >>> short = {"measure.duration_s": 10, "measure.warmup_s": 2}
    >>> anabranch.run("examples/two_links.toml", Third(), seeds=1, set=short).algorithms
    ['Third']
    """

    def increase(self, r: int, paths: Sequence[Path]) -> float:
        """I_r: packets by which the window of path `r` grows per acknowledged packet."""
        ...

    def decrease(self, r: int, paths: Sequence[Path]) -> float:
        """D_r: packets by which the window of path `r` shrinks at a loss event."""
        return paths[r].window / 2


def explained(error: AttributeError) -> Exception:
    """For an attribute that a path does not have: its place, and those that it has."""
    if not isinstance(error.obj, Path):
        return error
    place = extract_tb(error.__traceback__)[-1]
    known = [name for name in dir(Path) if not name.startswith("_")]
    return ScenarioError(
        f"{place.filename}:{place.lineno}: a path has no {error.name}: "
        f"{expected_one_of(str(error.name), known)}"
    )
