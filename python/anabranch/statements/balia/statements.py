"""The statements of Balia's paper on rules, tested, with a counterexample where one is false."""

from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np

from anabranch.runner import Progress
from anabranch.statements.balia import conditions_of_rules, theorems
from anabranch.statements.balia.conditions_of_rules import TABLE_I, UNEQUAL, at
from anabranch.statements.quotes import quoted
from anabranch.statements.statement import Statement, verdict
from anabranch.theory.guarantees import performance
from anabranch.theory.guarantees.check import Counterexample
from anabranch.theory.guarantees.conditions import Test, numbers, phi_jacobian
from anabranch.theory.law import Law, States

PRINTED = ["ewtcp", "semicoupled", "lia", "coupled"]
"""The rules in the order of section IV-A; the paper's Max is `lia`."""


def statements(progress: Progress | None = None, quick: bool = False) -> list[Statement]:
    """Every statement, in the paper's order; `quick` with the samples of `QUICK`."""
    found = []
    for i, judge in enumerate(JUDGES):
        if progress:
            progress(i / len(JUDGES))
        found.append(judge(**(QUICK.get(judge, {}) if quick else {})))
    return quoted("balia", found)


def bound_is_zero() -> Statement:
    """Theorem 3.5's bound, at the equilibrium of figure 2's network."""
    bounds = [performance.bound_of_theorem_3_5(performance.sharing(name)) for name in TABLE_I]
    return Statement(
        "III-E, theorem 3.5",
        "the real parts of the eigenvalues are at most a bound, which is at most 0 and makes a "
        "rule more responsive than another",
        verdict(max(map(abs, bounds)) < 1e-9),
        f"and the bound is {numbers(np.array(bounds))} for {', '.join(TABLE_I)}: z = (0, p) gives "
        "0 for every rule, so that each is as responsive as any other by this definition",
        {"largest_bound": max(map(abs, bounds))},
    )


def gain_always_helps() -> Statement:
    """Table II by the paper's definition, and by the largest real part itself."""
    states, gamma = States.of_user([10, 5], [0.1, 0.1]), 1e-4
    largest = {}
    for eta in (0, 1):
        law = Law(f"generalized:eta={eta}")
        jacobian, gains = phi_jacobian(law, states)[0], performance.gain(law, states)
        system = performance.linearised(jacobian, gains, np.eye(2), gamma)
        largest[eta] = performance.abscissa(system)
    bounds = [
        performance.bound_of_theorem_3_5(performance.sharing(f"generalized:eta={eta}"))
        for eta in (0, 1)
    ]
    return Statement(
        "III-E and table II",
        "a larger gain K with the same Phi is more responsive",
        verdict(bounds[1] <= bounds[0] + 1e-9),
        "holds by its definition, the bound of theorem 3.5, which is 0 for both; not for the "
        "eigenvalues themselves: with two paths on links of their own at "
        f"States.of_user([10, 5], [0.1, 0.1]) and gamma {gamma:g} the largest real part is "
        f"{largest[0]:.4f}/s with eta = 0 and {largest[1]:.4f}/s with eta = 1, though eta = 1 has "
        "the larger gains",
        {"real_part_eta_0": largest[0], "real_part_eta_1": largest[1]},
    )


def responsive_is_unfriendly() -> Statement:
    """Theorem 3.6 on every pair whose Jacobians are ordered."""
    names = [*TABLE_I, "generalized:norm=1", "generalized:beta=1:norm=2"]
    ordered, broken = [], []
    for one in names:
        for other in names:
            test = conditions_of_rules.jacobian_at_most(one, other)
            if one != other and conditions_of_rules.compare(test, one)[1] is None:
                ordered.append(f"{one} below {other}")
                if conditions_of_rules.compare(conditions_of_rules.phi_at_least(one, other), one)[
                    1
                ]:
                    broken.append(ordered[-1])
    return Statement(
        "III-E, theorem 3.6",
        "a more negative definite Jacobian goes with a larger Phi",
        verdict(not broken),
        "on every pair that is ordered: " + ", ".join(ordered) + "; no other pair is",
    )


def phi_in_order() -> Statement:
    """Section IV-A's first display."""
    tried, example = _first_failure(conditions_of_rules.phi_at_least)
    _, unequal = _first_failure(conditions_of_rules.phi_at_least, UNEQUAL)
    return Statement(
        "IV-A, first display",
        "at equal RTTs phi of " + " >= ".join(PRINTED),
        verdict(example is None),
        f"at {tried} states; at unequal RTTs {at(unequal)}",
    )


def friendliness_in_order() -> Statement:
    """Section IV-A's second display, in the network of figure 1."""
    shares = [performance.share_of_bottleneck(name, [0.04, 0.04]) for name in PRINTED]
    unequal = [performance.share_of_bottleneck(name, [0.02, 0.1]) for name in PRINTED]
    falling = all(a >= b - 1e-6 for a, b in pairwise(shares))
    return Statement(
        "IV-A, friendliness",
        "in figure 1's network the throughput of " + " >= ".join(PRINTED),
        verdict(falling),
        f"shares {numbers(np.array(shares))} with two equal paths: {PRINTED[2]} and "
        f"{PRINTED[3]} tie; {numbers(np.array(unequal))} with RTTs of 20 and 100 ms, against 40 ms",
    )


def weight_below_one() -> Statement:
    """Section IV-A's footnote, in the network of figure 1."""
    shares = {
        a: performance.share_of_bottleneck(f"ewtcp:a={a:g}", [0.04, 0.04])
        for a in (1.0, 0.5, 0.25, 0.2)
    }
    return Statement(
        "IV-A, footnote 1",
        "EWTCP with a < 1 can get less than the NewReno flow beside it",
        verdict(shares[0.2] < 0.5),
        "with n equal paths it gets n sqrt(a) of NewReno's rate, so with two from a < 1/4 on: "
        "shares of the bottleneck "
        + ", ".join(f"{share:.4f} with a = {a:g}" for a, share in shares.items()),
        {f"share_{a:g}": share for a, share in shares.items()},
    )


def jacobians_in_order() -> Statement:
    """Section IV-A's third display."""
    pairs = list(pairwise(PRINTED))
    found = {
        pair: conditions_of_rules.compare(conditions_of_rules.jacobian_at_most(*pair), pair[0])
        for pair in pairs
    }
    words = [
        f"{one} below {other}: " + (f"at {tried} states" if example is None else at(example))
        for (one, other), (tried, example) in found.items()
    ]
    return Statement(
        "IV-A, third display",
        "at equal RTTs the Jacobian of " + " <= ".join(PRINTED),
        verdict(all(example is None for _, example in found.values())),
        "; ".join(words),
    )


def responsiveness_in_order() -> Statement:
    """The same order of responsiveness, in the network of figure 2."""
    names = ["ewtcp", "semicoupled", "lia", "generalized", "coupled"]
    rates = [performance.sharing(name).responsiveness for name in names]
    return Statement(
        "IV-A, responsiveness",
        "responsiveness is in the order " + " >= ".join(PRINTED),
        verdict(rates == sorted(rates, reverse=True)),
        f"the slowest mode in figure 2's network decays with {numbers(np.array(rates))}/s for "
        + ", ".join(names),
    )


def oscillation_below_reno() -> Statement:
    """Section IV-A's last paragraph, and its consequence for eta."""
    names = [*TABLE_I, "balia:cap=inf", "generalized:beta=1:eta=1", "generalized:beta=1:eta=2"]
    worst = {name: performance.largest_oscillation(name) for name in names}
    return Statement(
        "IV-A, window oscillation",
        "(11) is at most 1/2 for every rule with k_r <= x_r |x|_1 / 2",
        verdict(max(value for name, value in worst.items() if "eta=2" not in name) <= 0.5),
        "which eta <= 1 gives; largest found: "
        + ", ".join(f"{name} {value:.3f}" for name, value in worst.items()),
    )


def _first_failure(
    order: Callable[[str, str], Test], rtt_ratio: float = 1.0
) -> tuple[int, Counterexample | None]:
    tried = 0
    for one, other in pairwise(PRINTED):
        number, example = conditions_of_rules.compare(order(one, other), one, rtt_ratio)
        tried += number
        if example:
            return tried, example
    return tried, None


JUDGES: list[Callable[..., Statement]] = [
    conditions_of_rules.rule_of_section_i,
    conditions_of_rules.one_path_is_reno,
    conditions_of_rules.increase_of_section_i,
    conditions_of_rules.table_i,
    conditions_of_rules.equilibrium_without_gain,
    conditions_of_rules.total_falls_for_all,
    theorems.utility_maximisation,
    theorems.existence_and_uniqueness,
    theorems.stability,
    theorems.local_stability,
    theorems.friendliness,
    bound_is_zero,
    gain_always_helps,
    responsive_is_unfriendly,
    theorems.losses_are_rare,
    phi_in_order,
    friendliness_in_order,
    weight_below_one,
    jacobians_in_order,
    responsiveness_in_order,
    oscillation_below_reno,
    conditions_of_rules.kinks_of_max,
    conditions_of_rules.eight_paths,
    conditions_of_rules.similar_rtts,
    theorems.falls_along_every_line,
    theorems.every_path_is_used,
    theorems.weights_are_short,
    theorems.form_is_positive,
]
"""One for each statement, in the paper's order; lemmas of the appendices last."""

QUICK: Mapping[Callable[..., Statement], Mapping[str, int]] = {
    theorems.utility_maximisation: {"users": 50, "nets": 4},
    theorems.existence_and_uniqueness: {"nets": 6, "starts": 2},
    theorems.stability: {"nets": 2, "points": 50},
    theorems.friendliness: {"pairs": 15},
    theorems.every_path_is_used: {"nets": 8},
}
"""Fewer samples for the judges that take longest."""
