"""Five rules that are LIA but for one place, each of which an item of RFC 9743 has to find."""

import anabranch


class LIA(anabranch.Rule):
    """RFC 6356, equation (1) and algorithm of section 3."""

    def increase(self, r, paths):
        best = max(path.window / path.rtt**2 for path in paths)
        return min(best / sum(path.rate for path in paths) ** 2, 1 / paths[r].window)


class LongPaths(LIA):
    """Grows twice as fast where the RTT is above 200 ms."""

    def increase(self, r, paths):
        return super().increase(r, paths) * (2 if paths[r].rtt > 0.2 else 1)


class LargeWindows(LIA):
    """Grows four times as fast above a window of 30 packets."""

    def increase(self, r, paths):
        return super().increase(r, paths) * (4 if paths[r].window > 30 else 1)


class ThreePaths(LIA):
    """Backs off by a tenth where it has three paths or more."""

    def decrease(self, r, paths):
        return paths[r].window * (0.1 if len(paths) > 2 else 0.5)


class OnceInTen(LIA):
    """Backs off at one loss in ten, chosen by the digits of the window, since a rule is pure."""

    def decrease(self, r, paths):
        return paths[r].window / 2 if paths[r].window * 997 % 1 < 0.1 else 0.0


class IgnoringMarks(LIA):
    """Takes what comes with a short queue for no congestion: the marks and drops of an AQM."""

    def decrease(self, r, paths):
        return paths[r].window / 2 if paths[r].queue_delay > 0.02 else 0.0
