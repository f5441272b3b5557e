"""The checks that a paper's `claims.toml` may name.

Each check is a pure function of `{metric: {case: value}}`. It gives whether it holds and one line
with the numbers that decide it, and raises `Missing` for a case that has no number.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

Numbers = Mapping[str, Mapping[str, float]]


class Missing(Exception):
    """A check needs a number that is not there."""


def order(
    numbers: Numbers, metric: str, cases: Sequence[str], slack_rel: float = 0.0
) -> tuple[bool, str]:
    """The cases ascend; each may lie below the one before it by `slack_rel` of that one."""
    return _chain(numbers, metric, cases, 1, slack_rel)


def monotone(
    numbers: Numbers, metric: str, cases: Sequence[str], direction: str, slack_rel: float = 0.0
) -> tuple[bool, str]:
    """The cases go one way, `increasing` or `decreasing`, with the slack of `order`."""
    if direction not in ("increasing", "decreasing"):
        raise TypeError(f"direction is {direction!r}: expected increasing or decreasing")
    return _chain(numbers, metric, cases, 1 if direction == "increasing" else -1, slack_rel)


def ratio(
    numbers: Numbers,
    metric: str,
    num: str,
    den: str,
    den_metric: str | None = None,
    min: float = -math.inf,
    max: float = math.inf,
) -> tuple[bool, str]:
    """One case over another lies within a band; `den_metric` when the other is another metric's."""
    top, bottom = _number(numbers, metric, num), _number(numbers, den_metric or metric, den)
    if bottom == 0:
        raise Missing(f"{den} is 0: there is no ratio to it")
    names = f"{num} / {den}" if den_metric is None else f"{metric} / {den_metric} of {num}"
    value = top / bottom
    because = f"{names} = {top:.3g} / {bottom:.3g} = {value:.3g}, {_band(min, max)}"
    return min <= value <= max, because


def range_(
    numbers: Numbers, metric: str, case: str, min: float = -math.inf, max: float = math.inf
) -> tuple[bool, str]:
    """A case lies within a band."""
    value = _number(numbers, metric, case)
    return min <= value <= max, f"{case} = {value:.3g}, {_band(min, max)}"


def close(
    numbers: Numbers,
    metric: str,
    case: str,
    target: float,
    tol_rel: float = 0.0,
    tol_abs: float = 0.0,
) -> tuple[bool, str]:
    """A case lies near a target, by the larger of the two tolerances."""
    value = _number(numbers, metric, case)
    tolerance = max(tol_rel * abs(target), tol_abs)
    away = f", {(value - target) / target:+.1%}" if target else ""
    allowed = f"{tol_rel:.0%}" if tol_rel * abs(target) >= tol_abs else f"{tol_abs:.3g}"
    because = f"{case} = {value:.3g}, expected {target:.3g} ± {allowed}{away}"
    return abs(value - target) <= tolerance, because


def closer(
    numbers: Numbers,
    metric: str,
    case: str,
    other: str,
    target_case: str,
    over: Sequence[str] = (),
) -> tuple[bool, str]:
    """A case lies nearer to a third one than another case does.

    With `over`, each of its parts takes the place of `*` in the cases, and distances are added up.
    """
    near = far = 0.0
    for part in over or ["*"]:
        here, there, goal = (name.replace("*", part) for name in (case, other, target_case))
        target = _number(numbers, metric, goal)
        near += abs(_number(numbers, metric, here) - target)
        far += abs(_number(numbers, metric, there) - target)
    goal = target_case if over else f"{target_case} = {target:.3g}"
    return near < far, f"from {goal}: {case} {near:.3g}, {other} {far:.3g}"


CHECKS: dict[str, Callable[..., tuple[bool, str]]] = {
    "order": order,
    "monotone": monotone,
    "ratio": ratio,
    "range": range_,
    "close": close,
    "closer": closer,
}
"""What `type = "..."` in a `claims.toml` may name, besides `text`: a claim left to the reader."""


def _number(numbers: Numbers, metric: str, case: str) -> float:
    value = numbers.get(metric, {}).get(case, math.nan)
    if math.isnan(value):
        raise Missing(f"no number for {metric} of {case}")
    return value


def _band(low: float, high: float) -> str:
    if math.isinf(low):
        return f"expected at most {high:.3g}"
    if math.isinf(high):
        return f"expected at least {low:.3g}"
    return f"expected {low:.3g} to {high:.3g}"


def _chain(
    numbers: Numbers, metric: str, cases: Sequence[str], sign: int, slack_rel: float
) -> tuple[bool, str]:
    """Whether each step goes the way of `sign`, or against it by no more than the slack."""
    values = [_number(numbers, metric, case) for case in cases]
    holds, because = True, f"{cases[0]} {values[0]:.3g}"
    for case, (before, after) in zip(cases[1:], pairwise(values), strict=True):
        right = sign * (after - before) >= -slack_rel * abs(before)
        holds = holds and right
        relation = ("≤" if sign > 0 else "≥") if right else (">" if sign > 0 else "<")
        because += f" {relation} {case} {after:.3g}"
    slack = f", with a slack of {slack_rel:.0%}" if slack_rel else ""
    return holds, because + slack
