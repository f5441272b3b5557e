"""The statements of Balia's paper on rules, tested, with a counterexample where one is false."""

from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np

from anabranch.runner import Progress
from anabranch.theory.array import Array
from anabranch.theory.guarantees import limits, orders, performance, random_states
from anabranch.theory.guarantees.check import Counterexample, check
from anabranch.theory.guarantees.conditions import Test, numbers
from anabranch.theory.guarantees.jacobian import phi_jacobian
from anabranch.theory.guarantees.response import rates_at
from anabranch.theory.guarantees.theorems import equilibria, lemmas
from anabranch.theory.law import Law, States
from anabranch.theory.statement import EMPTY, FALSE, Statement, verdict

PRINTED = ["ewtcp", "semicoupled", "lia", "coupled"]
"""The rules in the order of section IV-A; the paper's Max is `lia`."""

TABLE_I: dict[str, dict[str, bool]] = {
    "ewtcp": {"C0": True, "C1": True, "C2": True, "C3": True, "C4": True, "C5": True},
    "coupled": {"C0": True, "C1": True, "C2": False, "C3": False, "C4": True, "C5": True},
    "semicoupled": {"C0": False, "C1": True, "C2": True, "C3": True, "C4": True, "C5": True},
    "lia": {"C0": False, "C1": True, "C2": True, "C3": True, "C4": True, "C5": True},
    "generalized": {"C0": False, "C1": True, "C2": True, "C3": True, "C4": True, "C5": True},
}
"""As printed; C2 and C3 share a column there, so that Coupled's "No" counts for both."""

UNEQUAL = 10.0
"""Ratio of RTTs at which statements without a condition on RTTs are tested."""


def statements(progress: Progress | None = None, quick: bool = False) -> list[Statement]:
    """Every statement, in the paper's order; `quick` with the samples of `QUICK`."""
    found = []
    for i, judge in enumerate(JUDGES):
        if progress:
            progress(i / len(JUDGES))
        found.append(judge(**(QUICK.get(judge, {}) if quick else {})))
    return found


def rule_of_section_i() -> Statement:
    """(1) and (2) as a rule with the guarantees of section IV."""
    law = Law("balia:cap=inf")
    states = States.of_user([1, 1], [0.1, 0.1], loss_probability=0.005)
    rates = rates_at(law, states)[0]
    example = check("balia:cap=inf", paths=[2]).verdicts["C2"].counterexample
    assert example is not None
    return Statement(
        "I, (1) and (2); IV-B",
        "the rule printed as (1) and (2) is (12) with (0.2, 0.5, inf), which satisfies C1 to C3",
        FALSE,
        f"{_at(example)}. Two equal paths are stationary at rates 1:1, which is unstable, and at "
        f"{max(rates) / min(rates):.2f}:1. (1) is phi D of (12), but with (12)'s own D, which is "
        "the rule `generalized`",
    )


def one_path_is_reno(users: int = 1000, seed: int = 1) -> Statement:
    """On one path: I = 1/w and D = w/2."""
    window = 10 ** np.random.default_rng(seed).uniform(0, 4, users)
    off = {}
    for name in [*TABLE_I, "balia"]:
        increase, decrease = Law(name).evaluate(_single_paths(window))
        off[name] = float(max(np.abs(increase * window - 1).max(),
                              np.abs(decrease / window - 0.5).max()))  # fmt: skip
    return Statement(
        "II-B, one path",
        "with one path every rule is NewReno",
        verdict(max(off.values()) < 1e-12),
        f"increase 1/w and decrease w/2 at {users} random windows, to {max(off.values()):.0e}: "
        + ", ".join(off),
        {"windows": users, "off": max(off.values())},
    )


def _single_paths(window: Array) -> States:
    """Users of one path each."""
    ones = np.ones(len(window))
    return States(
        np.arange(len(window) + 1), window, 0.1 * ones, 0.1 * ones, 0.0 * ones, 1e3 * ones
    )


def increase_of_section_i(users: int = 1000, seed: int = 1) -> Statement:
    """(12)'s increase with the constants of section IV-B, and (1)."""
    printed, family = Law("balia:cap=inf"), Law("generalized:beta=0.2:eta=0.5:norm=inf")
    off = 0.0
    for paths in (1, 2, 3, 8):
        drawn = random_states.draw(paths, users, 10.0, np.random.default_rng([seed, paths]))
        one, other = printed.evaluate(drawn)[0], family.evaluate(drawn)[0]
        off = max(off, float(np.abs(other / one - 1).max()))
    return Statement(
        "IV-B, the increase",
        "with beta = 0.2, eta = 0.5 and n = inf the increase that (12) implies is (1)",
        verdict(off < 1e-12),
        f"at {users} random users of 1, 2, 3 and 8 paths each, RTTs up to 10 to 1: they differ by "
        f"at most {off:.0e} of it",
        {"users": 4 * users, "off": off},
    )


def table_i() -> Statement:
    """At equal RTTs, two to eight paths."""
    differ = [
        f"{rule} {condition}"
        for rule, row in TABLE_I.items()
        for condition, judged in check(rule).verdicts.items()
        if condition in row and judged.holds != row[condition]
    ]
    return Statement(
        "III, table I",
        "which rule satisfies which condition",
        verdict(not differ),
        "every cell at equal RTTs and 2 to 8 paths" if not differ else "not " + ", ".join(differ),
    )


def total_falls_for_all() -> Statement:
    """C4 at any RTTs."""
    first = limits.ratio_limit("semicoupled", "C4", 2)
    examples = {name: check(name, [2], UNEQUAL).verdicts["C4"] for name in TABLE_I}
    failing = [f"{name}: {_at(v.counterexample)}" for name, v in examples.items() if not v.holds]
    return Statement(
        "III-A",
        "C4 is satisfied by all the algorithms considered",
        verdict(not failing),
        "; ".join(failing) + f". semicoupled fails from an RTT ratio of {first.ratio:.2f} on",
    )


def bound_is_zero() -> Statement:
    """Theorem 3.5's bound, at the equilibrium of figure 2's network."""
    bounds = [performance.bound_of_theorem_3_5(performance.sharing(name)) for name in TABLE_I]
    return Statement(
        "III-E, theorem 3.5",
        "the real parts of the eigenvalues are at most a bound, which makes a rule more "
        "responsive than another",
        EMPTY,
        f"it is {numbers(np.array(bounds))} for {', '.join(TABLE_I)}: z = (0, p) gives 0, so it "
        "ranks nothing",
    )


def gain_always_helps() -> Statement:
    """The reading of theorem 3.5 by the largest real part itself instead of its bound."""
    states, gamma = States.of_user([10, 5], [0.1, 0.1]), 1e-4
    largest = {}
    for eta in (0, 1):
        law = Law(f"generalized:eta={eta}")
        jacobian, gains = phi_jacobian(law, states)[0], performance.gain(law, states)
        system = performance.linearised(jacobian, gains, np.eye(2), gamma)
        largest[eta] = performance.abscissa(system)
    return Statement(
        "III-F, IV-B and table II",
        "a larger gain K with the same Phi is more responsive",
        verdict(largest[1] <= largest[0]),
        f"two paths with links of their own at States.of_user([10, 5], [0.1, 0.1]), gamma "
        f"{gamma:g}: the largest real part is {largest[0]:.4f}/s with eta = 0 and "
        f"{largest[1]:.4f}/s with eta = 1, though eta = 1 has the larger gains",
    )


def responsive_is_unfriendly() -> Statement:
    """Theorem 3.6 on every pair whose Jacobians are ordered."""
    names = [*TABLE_I, "generalized:norm=1", "generalized:beta=1:norm=2"]
    ordered, broken = [], []
    for one in names:
        for other in names:
            test = orders.jacobian_at_most(one, other)
            if one != other and orders.compare(test, one)[1] is None:
                ordered.append(f"{one} below {other}")
                if orders.compare(orders.phi_at_least(one, other), one)[1]:
                    broken.append(ordered[-1])
    return Statement(
        "III-E, theorem 3.6",
        "a more negative definite Jacobian goes with a larger Phi",
        verdict(not broken),
        "on every pair that is ordered: " + ", ".join(ordered) + "; no other pair is",
    )


def phi_in_order() -> Statement:
    """Section IV-A's first display."""
    tried, example = _first_failure(orders.phi_at_least)
    _, unequal = _first_failure(orders.phi_at_least, UNEQUAL)
    return Statement(
        "IV-A, first display",
        "at equal RTTs phi of " + " >= ".join(PRINTED),
        verdict(example is None),
        f"at {tried} states; at unequal RTTs {_at(unequal)}",
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


def jacobians_in_order() -> Statement:
    """Section IV-A's third display."""
    pairs = list(pairwise(PRINTED))
    found = {pair: orders.compare(orders.jacobian_at_most(*pair), pair[0]) for pair in pairs}
    words = [
        f"{one} below {other}: " + (f"at {tried} states" if example is None else _at(example))
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
        "(11) is at most 1/2 for every rule with k_r <= x_r |x|_1 / 2, so for all with eta <= 1",
        verdict(max(value for name, value in worst.items() if "eta=2" not in name) <= 0.5),
        "largest found: " + ", ".join(f"{name} {value:.3f}" for name, value in worst.items()),
    )


def eight_paths() -> Statement:
    """Theorem 4.1: how many paths C2 allows."""
    found = limits.margins("semicoupled", range(2, 11))
    holding = [margin.paths for margin in found if margin.violation <= 0]
    words = ", ".join(f"{margin.paths}: {margin.violation:.4f}" for margin in found)
    return Statement(
        "IV-B, theorem 4.1",
        "C2 holds for 0 < beta <= 1 at equal RTTs and up to 8 paths",
        verdict(max(holding) >= 8),
        f"and for 9, where it fails only in the limit; the first counterexample has "
        f"{max(holding) + 1} paths. Largest scaled eigenvalue of semicoupled by paths: {words}",
    )


def similar_rtts() -> Statement:
    """Theorem 4.1's remark on RTTs that do not differ much."""
    ratios = {
        name: [limits.ratio_limit(name, "C2", n).ratio for n in (2, 3, 8)]
        for name in ("semicoupled", "lia", "generalized")
    }
    words = "; ".join(f"{name} {numbers(np.array(values))}" for name, values in ratios.items())
    return Statement(
        "IV-B, after theorem 4.1",
        "the theorem holds if the RTTs do not differ much",
        verdict(min(min(values) for values in ratios.values()) > 1.0),
        f"ratios from which C2 fails, with 2, 3 and 8 paths: {words}",
    )


def _first_failure(
    order: Callable[[str, str], Test], rtt_ratio: float = 1.0
) -> tuple[int, Counterexample | None]:
    tried = 0
    for one, other in pairwise(PRINTED):
        number, example = orders.compare(order(one, other), one, rtt_ratio)
        tried += number
        if example:
            return tried, example
    return tried, None


def _at(example: Counterexample | None) -> str:
    return f"{example.why} at {example.code}" if example else "it holds there too"


JUDGES: list[Callable[..., Statement]] = [
    rule_of_section_i,
    one_path_is_reno,
    increase_of_section_i,
    table_i,
    total_falls_for_all,
    equilibria.utility_maximisation,
    equilibria.existence_and_uniqueness,
    equilibria.stability,
    equilibria.friendliness,
    bound_is_zero,
    gain_always_helps,
    responsive_is_unfriendly,
    lemmas.losses_are_rare,
    phi_in_order,
    friendliness_in_order,
    jacobians_in_order,
    responsiveness_in_order,
    oscillation_below_reno,
    eight_paths,
    similar_rtts,
    lemmas.falls_along_every_line,
    lemmas.every_path_is_used,
    lemmas.weights_are_short,
    lemmas.form_is_positive,
]
"""One for each statement, in the paper's order; lemmas of the appendices last."""

QUICK: Mapping[Callable[..., Statement], Mapping[str, int]] = {
    equilibria.utility_maximisation: {"users": 50, "nets": 4},
    equilibria.existence_and_uniqueness: {"nets": 6, "starts": 2},
    equilibria.stability: {"nets": 2, "points": 50},
    equilibria.friendliness: {"pairs": 15},
    lemmas.every_path_is_used: {"nets": 8},
}
"""Fewer samples for the judges that take longest."""
