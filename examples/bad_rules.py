"""Three rules that should not be deployed: `anabranch judge examples/bad_rules.py:Starving`.

Each has a fault of its own, after which it is named.
"""

import anabranch


class Stubborn(anabranch.Rule):
    """Never backs off: NewReno's increase, and a loss costs nothing."""

    def increase(self, r, paths):
        return 1 / paths[r].window

    def decrease(self, r, paths):
        return 0


class Overfilling(anabranch.Rule):
    """Overfills the queue of a single path: a loss costs a sixteenth of the window."""

    def increase(self, r, paths):
        return 1 / paths[r].window

    def decrease(self, r, paths):
        return paths[r].window / 16


class Starving(anabranch.Rule):
    """Starves who is beside it: it grows twice as fast as NewReno, and a loss costs one packet.

    Increase and decrease by a constant never approach a fair share (Chiu and Jain 1989).
    """

    def increase(self, r, paths):
        return min(1, 2 / paths[r].window)

    def decrease(self, r, paths):
        return min(1, paths[r].window / 2)
