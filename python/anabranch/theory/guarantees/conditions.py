"""Balia's conditions C0 to C5 on a rule, as tests of states.

A test gives the violation of the condition for each user: above 0 the condition fails. Everything
is evaluated on the rule itself; the conditions are in Peng, Walid, Hwang and Low, section
III-A. C3's second half, that the routing matrix has full row rank, concerns the network.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from anabranch import formats
from anabranch.theory.array import Array
from anabranch.theory.guarantees.jacobian import (
    asymmetry,
    column_sums_of_inverse,
    largest_eigenvalue,
    phi_jacobian,
    regular,
    symmetric_part,
)
from anabranch.theory.guarantees.random_states import by_user
from anabranch.theory.guarantees.response import rates_at
from anabranch.theory.guarantees.smoothness import CHANGE, jump
from anabranch.theory.law import Law, States

ROUNDING = 1e-9
"""Rounding error allowed to exact derivatives, relative to what they are compared with."""

LIMIT = 1e3
"""Factor by which a rate or a price is multiplied, three times, to find a limit."""


@dataclass(frozen=True)
class Test:
    """One requirement of a condition."""

    violation: Callable[[Law, States], Array]
    """Violation by each user; above 0 where the requirement is violated."""
    why: Callable[[Law, States], str]
    """The violation at the state of a single user, in words and numbers."""
    positive: bool = True
    """Only states with every phi positive and finite count: a rule is stationary at no other."""
    share: float = 1.0
    """The part of the states that is tried: less for a slow test."""


def _phi_violation(law: Law, states: States) -> Array:
    phi = by_user(states, law.phi(states))
    return np.asarray(np.where((phi > 0) & np.isfinite(phi), -1.0, 1.0).max(axis=1))


def _phi_why(law: Law, states: States) -> str:
    return f"phi = {numbers(law.phi(states))} at finite rates, where it must be positive"


def _symmetry_violation(law: Law, states: States) -> Array:
    return asymmetry(phi_jacobian(law, states)) - ROUNDING


def _symmetry_why(law: Law, states: States) -> str:
    jacobian = phi_jacobian(law, states)[0]
    r, k = np.unravel_index(np.argmax(np.abs(jacobian - jacobian.T)), jacobian.shape)
    return (
        f"dphi_{r + 1}/dx_{k + 1} = {jacobian[r, k]:.4g}, "
        f"dphi_{k + 1}/dx_{r + 1} = {jacobian[k, r]:.4g}"
    )


def _definite_violation(law: Law, states: States) -> Array:
    return largest_eigenvalue(phi_jacobian(law, states)) + ROUNDING


def _definite_why(law: Law, states: States) -> str:
    jacobian = phi_jacobian(law, states)
    eigenvalues = np.linalg.eigvalsh(symmetric_part(jacobian)[0])
    return f"the eigenvalues of [dPhi/dx]^+ are {numbers(eigenvalues)}"


def _jump_violation(law: Law, states: States) -> Array:
    return jump(law, states)[0] - CHANGE


def _jump_why(law: Law, states: States) -> str:
    _, before, after = jump(law, states)
    return (
        f"phi jumps from {numbers(law.phi(before))} to {numbers(law.phi(after))} at rates "
        f"{numbers(before.rate)}, which is on the line from these to the same given in turn"
    )


def _falling_violation(law: Law, states: States) -> Array:
    jacobian = phi_jacobian(law, states)
    sound = regular(jacobian)
    violation = np.full(len(jacobian), -1.0)
    if sound.any():
        inverse = np.linalg.inv(jacobian[sound])
        size = np.abs(inverse).sum(axis=(1, 2))
        rises = [
            inverse[:, subset][:, :, subset].sum(axis=(1, 2))
            for subset in map(list, _subsets(jacobian.shape[1]))
        ]
        violation[sound] = np.max(rises, axis=0) / size - ROUNDING
    return violation


def _falling_why(law: Law, states: States) -> str:
    inverse = np.linalg.inv(phi_jacobian(law, states)[0])
    n = len(inverse)
    rise, subset = max((inverse[np.ix_(s, s)].sum(), s) for s in map(list, _subsets(n)))
    paths = ", ".join(str(r + 1) for r in subset)
    return (
        f"at prices phi = {numbers(law.phi(states))} the rate through a link of path {paths} "
        f"rises with the link's price: dy/dp = {rise:.4g}"
    )


def _subsets(n: int) -> Iterator[tuple[int, ...]]:
    """Every set of paths that a link may carry."""
    return (s for size in range(1, n + 1) for s in combinations(range(n), size))


def _solution_violation(law: Law, states: States) -> Array:
    return np.where(rates_at(law, states)[1], -1.0, 1.0)


def _solution_why(law: Law, states: States) -> str:
    prices = numbers(1 / states.loss_interval)
    return f"no rates were found at which phi equals the prices {prices}"


def _response_violation(law: Law, states: States) -> Array:
    """A link through the first half of the paths: its rate falls with its price, and to 0."""
    half = by_user(states, states.window).shape[1] // 2
    rate, found = rates_at(law, states)
    higher, found_higher = rates_at(law, _raised(states, half, 1.2))
    highest, found_highest = rates_at(law, _raised(states, half, LIMIT**3))
    through, then, last = (
        by_user(states, x)[:, :half].sum(axis=1) for x in (rate, higher, highest)
    )
    # Relative to the user's total, which the solutions give to a thousandth.
    total = by_user(states, rate).sum(axis=1)
    worst = np.maximum(then - through, last - through / LIMIT) / total - 1e-3
    return np.where(found & found_higher & found_highest, worst, -1.0)


def _response_why(law: Law, states: States) -> str:
    half = by_user(states, states.window).shape[1] // 2
    rates = [rates_at(law, _raised(states, half, factor))[0] for factor in (1, 1.2, LIMIT**3)]
    through = np.array([rate[:half].sum() for rate in rates])
    return (
        f"a link of the first {half} paths carries {numbers(through)} packets/s at prices "
        f"{numbers(1 / states.loss_interval)}, at 1.2 times and {LIMIT**3:g} times its price"
    )


def _raised(states: States, paths: int, factor: float) -> States:
    interval = by_user(states, states.loss_interval).copy()
    interval[:, :paths] /= factor
    return replace(states, loss_interval=interval.ravel())


def _at_zero_violation(law: Law, states: States) -> Array:
    """phi_r at least doubles each time x_r is divided by a thousand."""
    growth = [_growth(law, states, r, 1 / LIMIT) for r in _paths(states)]
    return np.asarray(2.0 - np.min(growth, axis=0))


def _at_zero_why(law: Law, states: States) -> str:
    return _limit_why(law, states, 1 / LIMIT, "infinite", lambda growth: -growth)


def _at_infinity_violation(law: Law, states: States) -> Array:
    """phi_r at least halves each time x_r is multiplied by a thousand."""
    growth = [_growth(law, states, r, LIMIT) for r in _paths(states)]
    return np.asarray(np.max(growth, axis=0) - 0.5)


def _at_infinity_why(law: Law, states: States) -> str:
    return _limit_why(law, states, LIMIT, "0", lambda growth: growth)


def _paths(states: States) -> range:
    return range(int(states.starts[1]))


def _growth(law: Law, states: States, r: int, factor: float) -> Array:
    """How phi_r changes, for `factor` > 1 at most and else at least, in the last two steps of x_r
    by that factor. A phi that is not positive at the start counts as unchanged.
    """
    values = [_phi_of(law, states, r, factor**i) for i in (1, 2, 3)]
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.array([values[1] / values[0], values[2] / values[1]])
    steps = np.where(np.isfinite(steps), steps, 1.0)
    return np.asarray(steps.max(axis=0) if factor > 1 else steps.min(axis=0))


def _phi_of(law: Law, states: States, r: int, factor: float) -> Array:
    rate = by_user(states, states.rate).copy()
    rate[:, r] *= factor
    return by_user(states, law.phi(states.with_rate(rate.ravel())))[:, r]


def _limit_why(
    law: Law, states: States, factor: float, limit: str, badness: Callable[[float], float]
) -> str:
    r = max(_paths(states), key=lambda r: badness(float(_growth(law, states, r, factor)[0])))
    values = np.array([_phi_of(law, states, r, factor**i)[0] for i in (1, 2, 3)])
    return (
        f"phi_{r + 1} = {numbers(values)} as x_{r + 1} is multiplied by {factor:g} once, twice, "
        f"three times: it doesn't become {limit}"
    )


def _total_violation(law: Law, states: States) -> Array:
    sums, missed = column_sums_of_inverse(phi_jacobian(law, states))
    rises = sums.max(axis=1) / np.abs(sums).max(axis=1) - ROUNDING
    return np.where(missed > 1e-6, 1.0, rises)


def _total_why(law: Law, states: States) -> str:
    sums, missed = column_sums_of_inverse(phi_jacobian(law, states))
    if missed[0] > 1e-6:
        return "the Jacobian is singular and prices do not determine the total rate"
    return f"the column sums of the inverse Jacobian are {numbers(sums[0])}"


def numbers(values: Array) -> str:
    """A vector to four digits, with 0 for what is 0 but for rounding."""
    rounding = 1e-12 * np.abs(values).max()
    values = np.where(np.abs(values) < rounding, 0.0, values)
    return f"[{formats.numbers(values)}]"


_CONTINUOUS = Test(_jump_violation, _jump_why, positive=False, share=0.05)

CONDITIONS: dict[str, tuple[str, tuple[Test, ...]]] = {
    "A": (
        "0 < phi_r < infinity at finite rates",
        (Test(_phi_violation, _phi_why, positive=False),),
    ),
    "C0": (
        "the Jacobian of Phi is continuous and symmetric",
        (Test(_symmetry_violation, _symmetry_why), _CONTINUOUS),
    ),
    "C1": (
        "rates exist at all prices, and a link's rate falls with its price, to 0",
        (
            Test(_falling_violation, _falling_why, share=0.25),
            Test(_solution_violation, _solution_why, positive=False, share=0.02),
            Test(_response_violation, _response_why, positive=False, share=0.02),
        ),
    ),
    "C2": (
        "Phi is smooth, the symmetric part of its Jacobian negative definite",
        (Test(_definite_violation, _definite_why), _CONTINUOUS),
    ),
    "C3": (
        "phi_r is infinite exactly where x_r = 0",
        (Test(_at_zero_violation, _at_zero_why, positive=False, share=0.25),),
    ),
    "C4": (
        "the column sums of the inverse Jacobian are at most 0",
        (Test(_total_violation, _total_why),),
    ),
    "C5": (
        "phi_r tends to 0 as x_r grows",
        (Test(_at_infinity_violation, _at_infinity_why, positive=False, share=0.25),),
    ),
}
"""Conditions with their requirements and tests. A is the paper's standing assumption."""
