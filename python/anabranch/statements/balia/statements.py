"""The statements of Balia's paper on rules, tested, with a counterexample where one is false."""

from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np

from anabranch.runner import Progress
from anabranch.statements.balia import conditions_of_rules, design, theorems
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


FASTER = {
    "larger K": ("generalized:eta=1", "generalized:eta=0"),
    "more negative definite Jacobian": ("ewtcp", "semicoupled"),
}
"""Rules of which the first has the larger K with the same Phi, or the more negative definite
Jacobian with the same K."""


def faster_by_its_bound(window: tuple[float, float] = (10, 5), gamma: float = 1e-4) -> Statement:
    """Table II, by the bound of theorem 3.5 and by the least bound, the largest real part."""
    states = States.of_user(window, [0.1, 0.1])
    bounds, parts = {}, {}
    for name in (name for pair in FASTER.values() for name in pair):
        law = Law(name)
        jacobian, gains = phi_jacobian(law, states)[0], performance.gain(law, states)
        bounds[name] = performance.bound_of_theorem_3_5(jacobian, gains, 2, gamma)
        parts[name] = performance.abscissa(
            performance.linearised(jacobian, gains, np.eye(2), gamma)
        )
    so = [all(b[one] < b[other] - 1e-9 for one, other in FASTER.values()) for b in (bounds, parts)]
    return Statement(
        "III-E and table II",
        "a larger K, or a more negative definite Jacobian, has a smaller, more negative upper "
        "bound of the real parts",
        verdict(any(so)),
        f"neither the bound of theorem 3.5, which is 0 for every rule (here to "
        f"{max(map(abs, bounds.values())):.0e}), nor the least one, the largest real part: with "
        f"two paths of {window[0]:g} and {window[1]:g} packets, RTTs of 0.1 s, links of their own "
        f"and gamma {gamma:g} it is "
        + "; ".join(
            f"{parts[one]:.4f}/s for {one}, with the {more}, and {parts[other]:.4f}/s for {other}"
            for more, (one, other) in FASTER.items()
        ),
        {f"real_part_{name}": part for name, part in parts.items()},
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


def friendliness_in_order(nets: int = 30, seed: int = 1) -> Statement:
    """Section IV-A's second display, in the network of figure 1."""
    dice, least, most_paths, broken = np.random.default_rng(seed), np.inf, 0, 0
    for _ in range(nets):
        paths, weight = int(dice.integers(2, 9)), float(dice.choice([1, 2, 4]))
        rtt, reno_rtt = 10 ** dice.uniform(-2, -0.5, 2)
        names = [f"ewtcp:a={weight:g}", *PRINTED[1:]]
        least = min(least, _least_step(names, [float(rtt)] * paths, float(reno_rtt)))
        most_paths = max(most_paths, paths)
        spread = (rtt * 5 ** dice.random(paths)).tolist()
        broken += _least_step(names, spread, float(reno_rtt)) < -SHARE_ROUNDING
    equal, unequal = (
        [performance.share_of_bottleneck(name, rtts) for name in PRINTED]
        for rtts in ([0.04, 0.04], [0.02, 0.1])
    )
    return Statement(
        "IV-A, friendliness",
        "in figure 1's network the throughput of " + " >= ".join(PRINTED),
        verdict(least > -SHARE_ROUNDING),
        f"in {nets} random networks of 2 to {most_paths} paths of one RTT, a = 1, 2 or 4 and any "
        f"RTT of NewReno, as the sentence before asks for; the least step is {least:.0e}. Two "
        f"paths of 40 ms: {numbers(np.array(equal))}, {PRINTED[2]} and {PRINTED[3]} tie. With RTTs "
        f"up to 5 to 1 the order is another in {broken} of {nets}, as with 20 and 100 ms, against "
        f"40 ms: {numbers(np.array(unequal))}",
        {"networks": nets, "least_step": least, "broken_at_unequal": broken},
    )


SHARE_ROUNDING = 1e-4
"""A share of the bottleneck is known to this."""


def _least_step(names: list[str], rtt: list[float], reno_rtt: float) -> float:
    """The least difference of a rule's share and the next one's, below 0 where it has less."""
    shares = [performance.share_of_bottleneck(name, rtt, reno_rtt) for name in names]
    return min(a - b for a, b in pairwise(shares))


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
    design.minimum_is_ignored,
    conditions_of_rules.increase_of_section_i,
    conditions_of_rules.table_i,
    conditions_of_rules.equilibrium_without_gain,
    conditions_of_rules.total_falls_for_all,
    theorems.utility_maximisation,
    theorems.existence_and_uniqueness,
    theorems.stability,
    design.coupled_keeps_any_split,
    theorems.local_stability,
    theorems.friendliness,
    theorems.below_the_bound,
    faster_by_its_bound,
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
    design.phi_in_between,
    design.small_and_large_paths,
    theorems.falls_along_every_line,
    theorems.every_path_is_used,
    design.closed_form,
    design.printed_jacobian,
    theorems.weights_are_short,
    theorems.form_is_positive,
]
"""One for each statement, in the paper's order; lemmas of the appendices last."""

QUICK: Mapping[Callable[..., Statement], Mapping[str, int]] = {
    theorems.utility_maximisation: {"users": 50, "nets": 4},
    theorems.existence_and_uniqueness: {"nets": 6, "starts": 2},
    theorems.stability: {"nets": 2, "points": 50},
    theorems.friendliness: {"pairs": 15},
    theorems.below_the_bound: {"nets": 4},
    friendliness_in_order: {"nets": 8},
    theorems.every_path_is_used: {"nets": 8},
}
"""Fewer samples for the judges that take longest."""
