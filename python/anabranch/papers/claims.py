"""The checks that a paper's `claims.toml` may name.

Each check is a pure function of `{metric: {case: value}}`, in which the printed number of a case is
the case `<case>.published`. It returns whether the check holds and one line with the numbers
compared, and raises `Missing` for a case without a number.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

Numbers = Mapping[str, Mapping[str, float]]

PUBLISHED = ".published"
"""What ends the name of the case of a printed number."""


class Missing(Exception):
    """A check needs a number that was neither measured nor published."""


def order(
    numbers: Numbers, metric: str, cases: Sequence[str], slack_rel: float = 0.0
) -> tuple[bool, str]:
    """The cases ascend; each may be below the previous one by the fraction `slack_rel` of it."""
    return _chain(numbers, metric, cases, 1, slack_rel)


def monotone(
    numbers: Numbers, metric: str, cases: Sequence[str], direction: str, slack_rel: float = 0.0
) -> tuple[bool, str]:
    """The cases are monotonic, `increasing` or `decreasing`, with the slack of `order`."""
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
    """The ratio of two cases is within a band; `den_metric` is the metric of `den`, if another."""
    top, bottom = _number(numbers, metric, num), _number(numbers, den_metric or metric, den)
    if bottom == 0:
        raise Missing(f"{den} is 0, so the ratio is undefined")
    names = f"{num} / {den}" if den_metric is None else f"{metric} / {den_metric} of {num}"
    value = top / bottom
    because = f"{names} = {top:.3g} / {bottom:.3g} = {value:.3g}, {_band(min, max)}"
    return min <= value <= max, because


def range_(
    numbers: Numbers, metric: str, case: str, min: float = -math.inf, max: float = math.inf
) -> tuple[bool, str]:
    """A case is within a band."""
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
    """A case is near a target, within the larger of the two tolerances."""
    value = _number(numbers, metric, case)
    tolerance = max(tol_rel * abs(target), tol_abs)
    away = f", {(value - target) / target:+.1%}" if target else ""
    allowed = f"{tol_rel:.0%}" if tol_rel * abs(target) >= tol_abs else f"{tol_abs:.3g}"
    because = f"{case} = {value:.3g}, expected {target:.3g} ± {allowed}{away}"
    return abs(value - target) <= tolerance, because


def levels(
    numbers: Numbers,
    metric: str,
    tol_rel: float,
    cases: Sequence[str] = (),
) -> tuple[bool, str]:
    """Every case is within `tol_rel` of its printed number; by default all that are printed."""
    named = numbers.get(metric, {})
    printed = [name.removesuffix(PUBLISHED) for name in named if name.endswith(PUBLISHED)]
    if not (cases or printed):
        raise Missing(f"no printed number for {metric}")
    away = {
        case: _number(numbers, metric, case) / _number(numbers, metric, case + PUBLISHED) - 1
        for case in cases or printed
    }
    far = [case for case in away if abs(away[case]) > tol_rel]
    because = f"{len(away) - len(far)} of {len(away)} within {tol_rel:.0%}: "
    return not far, because + ", ".join(f"{case} {off:+.0%}" for case, off in away.items())


def closer(
    numbers: Numbers,
    metric: str,
    case: str,
    other: str,
    target_case: str,
    over: Sequence[str] = (),
) -> tuple[bool, str]:
    """A case is nearer to the target case than another case is.

    With `over`, each of its parts replaces `*` in the case names, and the distances are added up.
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
    "levels": levels,
    "closer": closer,
}
"""The checks by the name that `type = "..."` in a `claims.toml` gives, besides `text`."""


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
    """Whether each step has the sign `sign`, or the opposite one but within the slack."""
    values = [_number(numbers, metric, case) for case in cases]
    holds, because = True, f"{cases[0]} {values[0]:.3g}"
    for case, (before, after) in zip(cases[1:], pairwise(values), strict=True):
        right = sign * (after - before) >= -slack_rel * abs(before)
        holds = holds and right
        relation = ("≤" if sign > 0 else "≥") if right else (">" if sign > 0 else "<")
        because += f" {relation} {case} {after:.3g}"
    slack = f", with a slack of {slack_rel:.0%}" if slack_rel else ""
    return holds, because + slack
