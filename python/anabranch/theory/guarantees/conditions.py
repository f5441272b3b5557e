"""Balia's conditions C0 to C5 on a rule, as tests of states.

A test gives the violation of the condition for each user: above 0 the condition fails. Everything
is evaluated on the rule itself; the conditions are in Peng, Walid, Hwang and Low, section
III-A. C3's second half, that the routing matrix has full row rank, concerns the network.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import numpy as np

from anabranch import formats
from anabranch.theory.array import Array
from anabranch.theory.guarantees.random_states import by_user
from anabranch.theory.law import Law, States

# The Jacobian of Phi in the rates, user by user, and its properties.


SINGULAR = 1e-9
"""A scaled Jacobian is singular if smallest over largest singular value is below this."""


def phi_jacobian(law: Law, states: States) -> Array:
    """dPhi/dx of each user, with the RTTs held: users by paths by paths, s/packet.

    All users have the same number of paths. As `w_k = x_k tau_k`, column k of the derivative in
    the windows is multiplied by `tau_k`.
    """
    users, paths = len(states.starts) - 1, int(states.starts[1])
    sparse = law.phi_derivatives(states, "window").tocoo()
    blocks = np.zeros((users, paths, paths))
    blocks[sparse.row // paths, sparse.row % paths, sparse.col % paths] = sparse.data
    return np.asarray(blocks * by_user(states, states.rtt)[:, None, :])


def symmetric_part(jacobian: Array) -> Array:
    """`[J]^+ = (J + J')/2` of each."""
    return np.asarray((jacobian + jacobian.transpose(0, 2, 1)) / 2)


def scaled(jacobian: Array) -> tuple[Array, Array]:
    """`S J S` with a diagonal S > 0 that makes the diagonal +-1, and S as rows.

    A congruence: it keeps definiteness, and brings paths of very different rates to one size.
    """
    diagonal = np.abs(np.diagonal(jacobian, axis1=1, axis2=2))
    scale = 1 / np.sqrt(np.maximum(diagonal, 1e-300))
    return jacobian * scale[:, :, None] * scale[:, None, :], scale


def largest_eigenvalue(jacobian: Array) -> Array:
    """Largest eigenvalue of the scaled symmetric part: below 0 exactly where the symmetric part is
    negative definite.

    1 where a diagonal entry isn't negative, which already rules that out.
    """
    rising = (np.diagonal(jacobian, axis1=1, axis2=2) >= 0).any(axis=1)
    eigenvalues = np.linalg.eigvalsh(scaled(symmetric_part(jacobian))[0])
    return np.where(rising, np.maximum(1.0, eigenvalues[:, -1]), eigenvalues[:, -1])


def asymmetry(jacobian: Array) -> Array:
    """Largest `|J_rk - J_kr|` over the largest entry."""
    difference = np.abs(jacobian - jacobian.transpose(0, 2, 1)).max(axis=(1, 2))
    return np.asarray(difference / np.abs(jacobian).max(axis=(1, 2)))


def column_sums_of_inverse(jacobian: Array) -> tuple[Array, Array]:
    """`1' D` with `D = J^-1`: the derivative of the total rate in the price of each path.

    Where J is singular, the least solution of `z' J = 1'`, which is the same where it exists; the
    second value is its residual (0 elsewhere).
    """
    matrix, scale = scaled(jacobian)
    v = np.linalg.pinv(matrix.transpose(0, 2, 1), rcond=SINGULAR) @ scale[:, :, None]
    missed = matrix.transpose(0, 2, 1) @ v - scale[:, :, None]
    size = np.abs(scale).max(axis=1)
    return v[:, :, 0] * scale, np.abs(missed[:, :, 0]).max(axis=1) / size


def regular(jacobian: Array) -> Array:
    """Mask of the Jacobians that are numerically regular."""
    singular_values = np.linalg.svd(scaled(jacobian)[0], compute_uv=False)
    return np.asarray(singular_values[:, -1] > SINGULAR * singular_values[:, 0])


# Discontinuities and kinks of Phi, by bisection of a line towards the largest change.


HALVINGS = 40
"""After these the change of a smooth function is rounding."""

CHANGE = 1e-3
"""Relative change over the last piece of the line above which Phi is not smooth."""


def jump(law: Law, states: States) -> tuple[Array, States, States]:
    """Change of phi over the last piece, relative to phi at the ends of the line; its two ends.

    The line of each user leads from its rates to the same rates given to the next path, so
    paths overtake each other on the way.
    """

    first, last = _ends(states)
    size = np.abs(law.phi(first)) + np.abs(law.phi(last))

    def change(a: States, b: States) -> Array:
        difference = np.abs(law.phi(a) - law.phi(b)) / size
        return np.asarray(by_user(a, difference).max(axis=1))

    return _halve(states, change)


def kink(law: Law, states: States) -> Array:
    """Relative change of the Jacobian over the last piece."""

    def change(a: States, b: States) -> Array:
        before, scale = scaled(phi_jacobian(law, a))
        after = phi_jacobian(law, b) * scale[:, :, None] * scale[:, None, :]
        return np.asarray(np.abs(before - after).max(axis=(1, 2)))

    return _halve(states, change)[0]


def _ends(states: States) -> tuple[States, States]:
    rate = by_user(states, states.rate)
    return states, states.with_rate(np.roll(rate, 1, axis=1).ravel())


def _halve(
    states: States, change: Callable[[States, States], Array]
) -> tuple[Array, States, States]:
    low, high = _ends(states)
    paths = int(states.starts[1])
    for _ in range(HALVINGS):
        middle = states.with_rate((low.rate + high.rate) / 2)
        first = np.repeat(change(low, middle) >= change(middle, high), paths)
        low, high = (
            states.with_rate(np.where(first, low.rate, middle.rate)),
            states.with_rate(np.where(first, middle.rate, high.rate)),
        )
    return change(low, high), low, high


# The stationary rates of a user under given prices: the solution of phi_r(x) = q_r.


UNUSED = 1e-4
"""A path with less than this part of its user's rate counts as unused."""

ACCURACY = 1e-6
"""Accuracy of `log phi_r - log q_r` on a path in use."""

STEPS = 3000


def rates_at(law: Law, states: States) -> tuple[Array, Array]:
    """Rates at the prices `q_r = 1 / loss_interval`, packets/s, and which users' rates were found.

    Balia, equation 6: `phi_r = q_r` on paths in use, `phi_r <= q_r` on the others. Each user
    follows its rule's own drift in `log x_r` from the rate of one Reno, shared almost evenly over
    its paths, with steps that grow while the drift keeps its sign and shrink where it changes. So
    of several solutions it finds a stable one.
    """
    log_price = -np.log(states.loss_interval)
    users = np.diff(states.starts)
    reno = np.sqrt(2 * states.loss_interval) / states.rtt
    uneven = 1 + 0.01 * (np.arange(len(reno)) - np.repeat(states.starts[:-1], users))
    log_rate = np.log(reno / np.repeat(users, users) / uneven)
    step, before = np.full(len(log_rate), 0.5), np.zeros(len(log_rate))
    for i in range(STEPS):
        rate = np.exp(log_rate)
        phi = law.phi(states.with_rate(rate))
        drift = np.log(np.maximum(phi, 1e-300)) - log_price
        share = by_user(states, rate) / by_user(states, rate).sum(axis=1, keepdims=True)
        unused = (share.ravel() < UNUSED) & (drift < ACCURACY)
        found = by_user(states, (np.abs(drift) < ACCURACY) | unused).all(axis=1)
        if i % 10 == 0 and found.all():
            break
        step = np.where(drift * before < 0, step / 2, 1.1 * step)
        before = drift
        log_rate = np.maximum(log_rate + np.clip(step * drift, -2, 2), np.log(reno) - 30)
    return rate, np.asarray(found)


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


def _at_infinity_violation(law: Law, states: States) -> Array:
    """phi_r at least halves each time x_r is multiplied by a thousand."""
    growth = [_growth(law, states, r, LIMIT) for r in _paths(states)]
    return np.asarray(np.max(growth, axis=0) - 0.5)


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


def _limit_why(factor: float, limit: str, law: Law, states: States) -> str:
    """phi_r grows most, or least for a `factor` below 1, at the worst path."""
    worst = max if factor > 1 else min
    r = worst(_paths(states), key=lambda r: float(_growth(law, states, r, factor)[0]))
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
        (
            Test(
                _at_zero_violation,
                partial(_limit_why, 1 / LIMIT, "infinite"),
                positive=False,
                share=0.25,
            ),
        ),
    ),
    "C4": (
        "the column sums of the inverse Jacobian are at most 0",
        (Test(_total_violation, _total_why),),
    ),
    "C5": (
        "phi_r tends to 0 as x_r grows",
        (
            Test(
                _at_infinity_violation, partial(_limit_why, LIMIT, "0"), positive=False, share=0.25
            ),
        ),
    ),
}
"""Conditions with their requirements and tests. A is the paper's standing assumption."""
