"""A rule written in Python, for trying an idea in ten lines."""

from collections.abc import Sequence
from typing import Protocol

from anabranch._core import Path


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
