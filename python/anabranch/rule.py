"""A rule written in Python, for trying an idea in ten lines."""

from collections.abc import Sequence
from typing import Protocol

from anabranch._core import Path


class Rule(Protocol):
    """A congestion-avoidance law over the paths of one flow: windows in packets, times in seconds.

    Any object with these two methods will do; deriving from this class gives `decrease` its
    usual form. A rule must be pure: answers depend on `r` and `paths` only, because one object
    serves every flow and every seed. Slow start, recovery and timeouts are not its business.
    """

    def increase(self, r: int, paths: Sequence[Path]) -> float:
        """I_r: packets by which the window of path `r` grows per acknowledged packet."""
        ...

    def decrease(self, r: int, paths: Sequence[Path]) -> float:
        """D_r: packets by which the window of path `r` shrinks at a loss event."""
        return paths[r].window / 2
