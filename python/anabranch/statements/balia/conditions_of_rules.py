"""Balia's statements on the conditions that rules satisfy: section I, table I, theorem 4.1."""

from collections.abc import Sequence

import numpy as np
from scipy.optimize import differential_evolution

from anabranch.statements.statement import CONDITION, WRONG, Statement, verdict
from anabranch.theory.array import Array
from anabranch.theory.guarantees import performance, random_states
from anabranch.theory.guarantees.check import (
    DECADES,
    GENERATIONS,
    PATHS,
    SEED,
    Counterexample,
    check,
    readable,
    violators,
    worst_states,
)
from anabranch.theory.guarantees.conditions import (
    CONDITIONS,
    ROUNDING,
    Test,
    numbers,
    phi_jacobian,
    rates_at,
    symmetric_part,
)
from anabranch.theory.law import Law, States

# Two rules compared at each state: whose phi is larger, whose Jacobian is more negative.


def phi_at_least(upper: str, lower: str) -> Test:
    """Test that phi of `upper`, the law that is tested, is nowhere below phi of `lower`."""
    other = Law(lower)

    def violation(law: Law, states: States) -> Array:
        shortfall = 1 - law.phi(states) / other.phi(states)
        return np.asarray(random_states.by_user(states, shortfall).max(axis=1) - ROUNDING)

    def why(law: Law, states: States) -> str:
        return (
            f"phi of {law.name} is {numbers(law.phi(states))}, "
            f"of {other.name} {numbers(other.phi(states))}"
        )

    return Test(violation, why)


def jacobian_at_most(lower: str, upper: str) -> Test:
    """Test that `[dPhi/dx]^+` of `lower`, the law that is tested, minus `upper`'s is negative
    semidefinite everywhere.
    """
    other = Law(upper)

    def violation(law: Law, states: States) -> Array:
        rate = random_states.by_user(states, states.rate)
        scale = rate[:, :, None] * rate[:, None, :]  # a congruence: see jacobian.scaled
        mine, theirs = phi_jacobian(law, states) * scale, phi_jacobian(other, states) * scale
        size = np.abs(mine).max(axis=(1, 2)) + np.abs(theirs).max(axis=(1, 2))
        eigenvalues = np.linalg.eigvalsh(symmetric_part(mine - theirs))
        return np.asarray(eigenvalues[:, -1] / size - ROUNDING)

    def why(law: Law, states: States) -> str:
        difference = phi_jacobian(law, states) - phi_jacobian(other, states)
        eigenvalues = np.linalg.eigvalsh(symmetric_part(difference)[0])
        return (
            f"the eigenvalues of [dPhi/dx]^+ of {law.name} minus that of {other.name} "
            f"are {numbers(eigenvalues)}"
        )

    return Test(violation, why)


def compare(
    test: Test, spec: str, rtt_ratio: float = 1.0, users: int = 500, seed: int = SEED
) -> tuple[int, Counterexample | None]:
    """How many states were tried, and one where the order fails."""
    law, tried = Law(spec), 0
    for n in PATHS:
        drawn = random_states.draw(n, users, rtt_ratio, np.random.default_rng([seed, n]))
        number, bad = violators(test, law, drawn)
        tried += number
        if bad:
            example = readable(test, law, bad, rtt_ratio)
            return tried, Counterexample.of(test, law, example)
    return tried, None


# The range of a condition: up to how many paths, and up to which ratio of RTTs, it holds.


WIDEST_RATIO = 100.0
"""The largest RTT ratio that is tried."""

BISECTIONS = 16


def margins(spec: str, paths: Sequence[int], seed: int = 1) -> dict[int, float]:
    """C2's largest scaled eigenvalue at equal RTTs, above 0 where it is violated, by paths.

    That of the worst state of differential evolution, or of the one with all rates but one at the
    smallest allowed: the vertex of theorem 4.1's proof.
    """
    law, test = Law(spec), CONDITIONS["C2"][1][0]
    return {
        n: max(
            worst_states(test, law, n, 1.0, seed, generations=200)[0],
            float(test.violation(law, vertex(n))[0]),
        )
        for n in paths
    }


def vertex(paths: int) -> States:
    """Equal RTTs, and one path ten thousand times as fast as each other."""
    rate = np.full((1, paths), random_states.SLOWEST_RATE)
    rate[0, 0] *= 10**DECADES
    rtt = np.full_like(rate, random_states.SHORTEST_RTT)
    return random_states.plain(rate * rtt, rtt)


def ratio_limit(spec: str, condition: str, paths: int) -> tuple[float, States]:
    """The smallest ratio of RTTs at which the condition's first test fails, and the states there.

    Infinite where none up to `WIDEST_RATIO` violates it.

    Differential evolution over rates and over the places of the RTTs between the shortest and the
    longest; what it minimises is the ratio at which that user begins to violate the test.
    """
    law, test = Law(spec), CONDITIONS[condition][1][0]

    def states(columns: Array, log_ratio: Array) -> States:
        rate = random_states.SLOWEST_RATE * 10 ** columns[:paths].T
        place = columns[paths:].T
        place = place - place.min(axis=1, keepdims=True)
        place = place / np.maximum(place.max(axis=1, keepdims=True), 1e-9)
        rtt = random_states.SHORTEST_RTT * np.exp(log_ratio[:, None] * place)
        return random_states.plain(rate * rtt, rtt)

    def least(columns: Array) -> Array:
        """The log ratio from which the test fails, by bisection; more than the widest if none."""
        low = np.zeros(columns.shape[1])
        high = np.full(columns.shape[1], np.log(WIDEST_RATIO))
        at_widest = test.violation(law, states(columns, high))
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            fails = test.violation(law, states(columns, middle)) > 0
            low, high = np.where(fails, low, middle), np.where(fails, middle, high)
        return np.where(at_widest > 0, high, np.log(WIDEST_RATIO) + 1 - np.minimum(at_widest, 0))

    found = differential_evolution(
        least,
        [(0.0, DECADES)] * paths + [(0.0, 1.0)] * paths,
        vectorized=True,
        updating="deferred",
        polish=False,
        popsize=10,
        maxiter=GENERATIONS,
        seed=np.random.default_rng(1),  # rng since SciPy 1.15, which takes both
    )
    ratio = float("inf") if found.fun > np.log(WIDEST_RATIO) else float(np.exp(found.fun))
    log_ratio = np.array([min(found.fun, np.log(WIDEST_RATIO))])
    return ratio, states(found.x[:, None], log_ratio)


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
        WRONG,
        f"{at(example)}. Two equal paths are stationary at rates 1:1, which is unstable, and at "
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
        + ", ".join(off)
        + "; EWTCP with a = 1, as everywhere here",
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
    """Every cell at equal RTTs and two to eight paths, with what the printed conditions leave out.

    C2 asks for a continuously differentiable Phi, C4 for an inverse Jacobian.
    """
    found = {rule: check(rule) for rule in TABLE_I}
    differ = [
        f"{rule} {condition}"
        for rule, row in TABLE_I.items()
        for condition, judged in found[rule].verdicts.items()
        if condition in row and judged.holds != row[condition]
    ]
    kinks = [rule for rule, one in found.items() if one.kinks and TABLE_I[rule]["C2"]]
    singular = [rule for rule, one in found.items() if one.singular and TABLE_I[rule]["C4"]]
    cells = sum(map(len, TABLE_I.values()))
    literal = cells - len(differ) - len(kinks) - len(singular)
    apart = [
        f"{rule} {condition}"
        for rule, row in TABLE_I.items()
        for condition, judged in check(rule, [2], UNEQUAL).verdicts.items()
        if condition in row and judged.holds != row[condition]
    ]
    return Statement(
        "III, table I",
        "which rule satisfies which condition",
        CONDITION if not differ else WRONG,
        f"at equal RTTs and 2 to 8 paths {literal} of {cells} cells hold to the letter"
        + (f", {', '.join(differ)} do not" if differ else "")
        + f". C2 of {' and '.join(kinks)}, the latter with n = inf: where two paths tie for the "
        "largest rate Phi has a kink, so that it is not continuously differentiable; on either "
        f"side of it the Jacobian is negative definite. C4 of {' and '.join(singular)}: the "
        "Jacobian has no inverse; what C4 is for, a total rate that does not rise with a price, "
        f"holds. With 2 paths whose RTTs differ by up to {UNEQUAL:g} to 1 these cells do not hold: "
        + ", ".join(apart),
        {"cells": cells, "to_the_letter": literal},
        needs="equal RTTs, at most 8 paths, one-sided derivatives where paths tie, and for Coupled "
        "the total rate instead of the inverse",
    )


def equilibrium_without_gain(users: int = 1000, seed: int = 1) -> Statement:
    """(6) and (7) have no k: (12) with three eta."""
    laws = [Law(f"generalized:eta={eta}") for eta in (0, 0.5, 2)]
    phi, gains = 0.0, np.inf
    for paths in (2, 3, 8):
        drawn = random_states.draw(paths, users, 10.0, np.random.default_rng([seed, paths]))
        first, *others = (law.phi(drawn) for law in laws)
        phi = max(phi, *(float(np.abs(other / first - 1).max()) for other in others))
        small, *_, large = (performance.gain(law, drawn).sum() for law in laws)
        gains = min(gains, float(large / small))
    return Statement(
        "III, the gain",
        "the equilibrium does not depend on K",
        verdict(phi < 1e-12),
        f"(6) and (7) contain Phi and no K. The rules of (12) with eta = 0, 0.5 and 2, whose gains "
        f"differ by a factor of {gains:.2g} and more in sum, have the same Phi at {3 * users} "
        f"random users, to {phi:.0e}",
        {"users": 3 * users, "off": phi},
    )


def total_falls_for_all() -> Statement:
    """C4 at any RTTs."""
    first, _ = ratio_limit("semicoupled", "C4", 2)
    examples = {name: check(name, [2], UNEQUAL).verdicts["C4"] for name in TABLE_I}
    failing = [f"{name}: {at(v.counterexample)}" for name, v in examples.items() if not v.holds]
    equal = [name for name in TABLE_I if not check(name, [2]).verdicts["C4"].holds]
    return Statement(
        "III-A",
        "C4 is satisfied by all the algorithms considered",
        verdict(not failing) if not failing or equal else CONDITION,
        "no condition on RTTs is printed with it. "
        + "; ".join(failing)
        + f". semicoupled fails from an RTT ratio of {first:.2f} on. At equal RTTs the total "
        "rate of all of them falls with a price; C4 itself asks for an inverse, which Coupled's "
        "Jacobian does not have at any RTTs",
        {"first_ratio": first},
        needs="RTTs that are equal, or for semicoupled within "
        f"{first:.2f} to 1, and for Coupled the total rate instead of the inverse",
    )


def kinks_of_max() -> Statement:
    """Theorem 4.1 applied to n = inf, which is not in N_+."""
    found = margins("lia", [2, 3, 8])
    law, even = Law("lia"), States.of_user([10, 10], [0.1, 0.1])
    sides = [
        phi_jacobian(law, even.with_rate(even.rate * np.array([1 + step, 1])))[0][1, 0]
        for step in (-1e-9, 1e-9)
    ]
    return Statement(
        "IV-A, theorem 4.1 for Max",
        "Max satisfies C1 to C3 with up to 8 paths",
        CONDITION if max(found.values()) <= 0 else WRONG,
        "the theorem is for n in N_+, Max is n = inf. Its Phi has a kink where two paths tie for "
        "the largest rate, and C2 asks for a continuously differentiable one: dphi_2/dx_1 of two "
        f"paths of 100 packets/s is {sides[0]:.3g} on one side and {sides[1]:.3g} on the other. On "
        "either side the Jacobian is negative definite at equal RTTs (largest scaled eigenvalues "
        f"{numbers(np.array(list(found.values())))} with 2, 3 and 8 paths), "
        "which suffices for the proofs of uniqueness and stability",
        {"below": float(sides[0]), "above": float(sides[1])},
        needs="one-sided derivatives where paths tie, and the theorem's equal RTTs",
    )


def eight_paths() -> Statement:
    """Theorem 4.1: how many paths C2 allows, and C1 at any RTTs, for finite n."""
    found = margins("semicoupled", range(2, 11))
    holding = [paths for paths, violation in found.items() if violation <= 0]
    words = ", ".join(f"{paths}: {violation:.4f}" for paths, violation in found.items())
    euclidean = margins("generalized:beta=0.5:norm=2", [8])[8]
    decreasing = [
        check(f"generalized:beta={beta}:norm=2", [2, 3], UNEQUAL).verdicts["C1"].holds
        for beta in (0, 0.5, 1)
    ]
    return Statement(
        "IV-B, theorem 4.1",
        "(12) with an integer n satisfies C1, and C2 for 0 < beta <= 1 at equal RTTs and up to 8 "
        "paths",
        verdict(max(holding) >= 8 and euclidean <= 0 and all(decreasing)),
        f"C2 even with 9 paths, where it fails only in the limit; the first counterexample has "
        f"{max(holding) + 1} paths. Largest scaled eigenvalue of semicoupled, n = 1, by paths: "
        f"{words}; with n = 2, beta = 0.5 and 8 paths {euclidean:.4f}. C1 with n = 2, beta = 0, "
        f"0.5 and 1, and RTTs up to {UNEQUAL:g} to 1",
        {"most_paths": max(holding), "largest_with_8": max(euclidean, found[8])},
    )


def similar_rtts() -> Statement:
    """Theorem 4.1's remark on RTTs that do not differ much."""
    ratios = {
        name: [ratio_limit(name, "C2", n)[0] for n in (2, 3, 8)]
        for name in ("semicoupled", "lia", "generalized")
    }
    words = "; ".join(f"{name} {numbers(np.array(values))}" for name, values in ratios.items())
    return Statement(
        "IV-B, after theorem 4.1",
        "the theorem holds if the RTTs do not differ much",
        verdict(min(min(values) for values in ratios.values()) > 1.0),
        f"ratios from which C2 fails, with 2, 3 and 8 paths: {words}",
    )


def at(example: Counterexample | None) -> str:
    """A counterexample in words, or that there is none."""
    return f"{example.why} at {example.code}" if example else "it holds there too"
