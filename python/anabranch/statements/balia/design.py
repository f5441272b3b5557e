"""Balia's statements on Coupled, on the design space (12) and on its proof in appendix G."""

import numpy as np
from scipy.optimize import brentq

from anabranch.statements.balia import conditions_of_rules, theorems
from anabranch.statements.balia.conditions_of_rules import UNEQUAL
from anabranch.statements.balia.theorems import Net, Point
from anabranch.statements.statement import CONDITION, Statement, verdict
from anabranch.theory.array import Array
from anabranch.theory.guarantees import performance, random_states
from anabranch.theory.guarantees.conditions import numbers, phi_jacobian
from anabranch.theory.law import Law, States

SHARED = Net(np.ones((1, 2)), np.array([100.0]), np.array([0, 2]), np.full(2, 0.1))
"""One user with two paths of 100 ms over one link of 100 packets/s."""


def phi_of_max(states: States) -> Array:
    """Max's phi of section II-B, without the minimum with 1/w_r; one user."""
    rate, rtt = states.rate, states.rtt
    return np.asarray(2 * (rate / rtt).max() / (rate * rtt * rate.sum() ** 2))


def minimum_is_ignored(users: int = 300, nets: int = 20, seed: int = 1) -> Statement:
    """Section II-B, Max with and without the minimum with 1/w_r."""
    law, dice, acts = Law("lia"), np.random.default_rng(seed), {}
    for ratio in (4.0, UNEQUAL):
        changed = []
        for _ in range(users):
            paths = int(dice.integers(2, 9))
            rtt = 0.01 * ratio ** dice.random(paths)
            states = States.of_user(10 ** dice.uniform(1, 4, paths) * rtt, rtt)
            changed.append(float((1 - law.phi(states) / phi_of_max(states)).max()))
        acts[ratio] = np.array(changed)
    off = 0.0
    for _ in range(nets):
        rtt = (0.01 * UNEQUAL ** dice.random(int(dice.integers(2, 9)))).tolist()
        # Without it all paths of one price together have the rate of NewReno on the fastest.
        ignored = 0.04 / (0.04 + min(rtt))
        off = max(off, abs(performance.share_of_bottleneck("lia", rtt, 0.04) - ignored))
    often = float((acts[UNEQUAL] > 1e-9).mean())
    return Statement(
        "II-B, Max",
        "the minimum with 1/w_r is ignored because the performance is captured without it",
        verdict(float(acts[4.0].max()) < 1e-9 and off < 1e-3 and often < 0.5),
        "x_r x_k tau_r / tau_k > (sum x)^2 is needed for it to act, and x_r x_k is at most a "
        f"quarter of that: it never acts where RTTs are within 4 to 1 ({users} random users). Up "
        f"to {UNEQUAL:g} to 1 it does for {often:.0%} of them, where it lowers a phi by up to "
        f"{acts[UNEQUAL].max():.0%}; in figure 1's network the share without it is the one with "
        f"it, to {off:.0e}, for any RTTs",
        {"acts_within_4": float(acts[4.0].max()), "acts_beyond": often, "off_share": off},
    )


def coupled_keeps_any_split(splits: int = 20, seed: int = 1) -> Statement:
    """Sections I and III-B: Coupled and EWTCP over one link."""
    dice, law = np.random.default_rng(seed), Law("coupled")
    price = law.phi(SHARED.states(np.array([50.0, 50.0])))[:1]
    first = 100 * dice.uniform(0.05, 0.95, splits)
    at = [Point(np.array([one, 100 - one]), price) for one in first]
    off = max(float(np.abs(SHARED.phi(law, one.rate) / price - 1).max()) for one in at)
    gammas = 10 ** dice.uniform(-7, -3, splits)
    modes = [theorems.slowest_mode(SHARED, law, *one) for one in zip(at, gammas, strict=True)]
    ewtcp = Law("ewtcp")
    even = theorems.equilibrium(SHARED, ewtcp, dice)
    assert even is not None
    ends = [theorems.trajectory_end(SHARED, ewtcp, one, even, 0.3).rate for one in at[:3]]
    back = max(float(np.abs(end / 50 - 1).max()) for end in ends)
    neutral = off < 1e-9 and max(map(abs, modes)) < 1e-9
    return Statement(
        "I and III-B, Coupled",
        "Coupled can be unstable and can have several equilibria, EWTCP has one, which is stable",
        CONDITION if neutral and back < 0.01 else verdict(False),
        "a user with two paths over one link: phi_r = 2 / (sum w)^2 is the price on both paths for "
        f"every split, which (6) and (7) allow (to {off:.0e} at {splits} random splits). (10) has "
        f"the eigenvalue 0 there, to {max(map(abs, modes)):.0e}: a split that is disturbed does "
        f"not return, nor does it move on. EWTCP returns from these to 1:1, within {back:.1g}",
        {"off": off, "largest_mode": max(map(abs, modes)), "ewtcp_off": back},
        needs='"unstable" as not asymptotically stable: a disturbance of a split stays',
    )


NORMS, BETA = ("1", "2", "inf"), 0.2
"""n, and the beta that the paper chooses."""


def phi_in_between(users: int = 300) -> Statement:
    """Section IV-B, Phi of beta = 0.2 beside beta = 1 and 0, for each n."""
    tried, broken = 0, []
    for norm in NORMS:
        ours = f"generalized:beta={BETA}:norm={norm}"
        for upper, lower in ((f"generalized:beta=1:norm={norm}", ours), (ours, "coupled")):
            test = conditions_of_rules.phi_at_least(upper, lower)
            number, example = conditions_of_rules.compare(test, upper, users=users)
            tried += number
            if example is not None:
                broken.append(f"{upper} below {lower}")
    states = States.of_user([30, 10], [0.1, 0.1])
    ratio = [
        Law(f"generalized:beta={BETA}:norm={norm}").phi(states)
        / Law(f"generalized:beta=1:norm={norm}").phi(states)
        for norm in NORMS
    ]
    return Statement(
        "IV-B, Phi",
        "for the same n Phi with beta = 0.2 is at most that of Max and Semicoupled (beta = 1) and "
        "at least that of Coupled (beta = 0)",
        verdict(not broken),
        f"at {tried} states of 2 to 8 paths with equal RTTs, n = {', '.join(NORMS)}. At rates of 3 "
        "to 1 it is "
        + "; ".join(f"{numbers(one)} of that with beta = 1 for n = {norm}"
                    for norm, one in zip(NORMS, ratio, strict=True))
        + ": the fastest path has the same phi where n = inf",
        {"states": tried, "broken": len(broken), "ratio_of_slow_path": float(ratio[2][1])},
    )  # fmt: skip


def parts_of_paths(law: Law, states: States) -> tuple[Array, Array]:
    """Parts of each path in responsiveness and oscillation of one user: the elasticities of the
    slowest mode of K dPhi/dx and of (11) in the gain k_r. Both add up to 1."""
    jacobian, gains = phi_jacobian(law, states)[0], performance.gain(law, states)

    def slowest(gains: Array) -> float:
        return float(np.linalg.eigvals(gains[:, None] * jacobian).real.max())

    step = 1e-5
    raised = gains * (1 + step * np.eye(len(gains)))
    modes = np.log([slowest(one) / slowest(gains) for one in raised]) / np.log1p(step)
    lost = states.rtt * law.phi(states) * gains
    return modes, np.asarray(lost / lost.sum())


RATIOS = (1.5, 2.0, 3.0, 6.0, 10.0, 30.0, 100.0)


def small_and_large_paths() -> Statement:
    """Section IV-B, which paths responsiveness and oscillation depend on."""
    rules = ("semicoupled", "lia", "generalized")
    at = {name: parts_of_paths(Law(name), performance.sharing(name).multipath) for name in rules}
    there = all(modes[1] > 0.5 and lost[0] > 0.5 for modes, lost in at.values())
    found = {
        name: [parts_of_paths(Law(name), States.of_user([100 * r, 100], [0.1, 0.1]))
               for r in RATIOS]
        for name in (*rules, "ewtcp")
    }  # fmt: skip
    everywhere = all(m[1] > 0.5 and o[0] > 0.5 for row in found.values() for m, o in row)
    return Statement(
        "IV-B, small and large paths",
        "responsiveness is mainly affected by paths with a small throughput, oscillation by those "
        "with a large one",
        verdict(everywhere) if everywhere or not there else CONDITION,
        "elasticities in k_r: in figure 2's network, whose paths differ by 3 to 6 to 1, that of "
        "the slowest mode in the small path's is "
        + numbers(np.array([modes[1] for modes, _ in at.values()]))
        + f" for {', '.join(rules)}, that of (11) in the large one's "
        + numbers(np.array([lost[0] for _, lost in at.values()]))
        + f". Two paths with rates as {', '.join(f'{r:g}' for r in RATIOS)} to 1, small path's: "
        + "; ".join(f"{name} {numbers(np.array([m[1] for m, _ in row]).round(3))}"
                    for name, row in found.items())
        + ". So of `generalized` the large path decides the slowest mode from 30 to 1 on, and of "
        "EWTCP always, whose paths decay at 2 / (tau^2 x_r)",
        {f"small_{name}": float(modes[1]) for name, (modes, _) in at.items()},
        needs="a coupled rule, and rates that differ as in figure 2's network",
    )  # fmt: skip


def closed_rates(beta: float, n: int, rtt: Array, price: Array) -> tuple[Array, Array]:
    """(32): the rates at which phi of (12) equals the prices; and psi of (29) at 20 values of C
    from (30) to twice the root."""
    scaled = price * rtt**2
    least = 2 / scaled.min()

    def parts(total: float) -> Array:
        return np.asarray(2 * beta / (2 * beta + scaled * total - 2))

    def psi(total: float) -> float:
        return float((parts(total) ** n).sum())

    # Where the path of the least price has a part below 1 / len(rtt), psi is below 1.
    most = least * (1 + beta * len(rtt))
    root = brentq(lambda total: psi(total) - 1, least, most, xtol=1e-15 * least, rtol=1e-15)
    a = parts(root)
    curve = np.array([psi(total) for total in np.linspace(least, 2 * root, 20)])
    return np.asarray(a / a.sum() * np.sqrt(root)), curve


def closed_form(users: int = 300, seed: int = 1) -> Statement:
    """Appendix G, (28) to (32)."""
    dice, off, rising = np.random.default_rng(seed), 0.0, 0
    for _ in range(users):
        n, paths = int(dice.integers(1, 3)), int(dice.integers(2, 9))
        beta = round(float(dice.uniform(0.02, 1.0)), 4)
        rtt, price = 10 ** dice.uniform(-2, -0.5, paths), 10 ** dice.uniform(-4, -2, paths)
        rate, curve = closed_rates(beta, n, rtt, price)
        states = States.of_user(rate * rtt, rtt)
        phi = Law(f"generalized:beta={beta}:norm={n}").phi(states)
        off = max(off, float(np.abs(phi / price - 1).max()))
        rising += bool((np.diff(curve) >= 0).any())
    return Statement(
        "appendix G, (28) to (32)",
        "the rates at given prices are (32), with the one C at which psi, which decreases, is 1",
        verdict(off < 1e-6 and not rising),
        f"at {users} random prices, RTTs and beta, n = 1 and 2, 2 to 8 paths: phi of these rates "
        f"is the price to {off:.0e}, and psi falls at 20 values of C from (30) on",
        {"users": users, "off": off, "rising": rising},
    )


def jacobian_as_printed(beta: float, n: int, rate: Array, rtt: float) -> Array:
    """dPhi/dx of (12) in appendix G."""
    total, norm, ones = rate.sum(), (rate**n).sum() ** (1 / n), np.ones(len(rate))
    a = 2 * rate / total - rate**n / norm**n
    inner = np.eye(len(rate)) + np.outer(ones, a)
    first = -4 * (1 - beta) / (rtt**2 * total**3) * np.outer(ones, ones)
    return np.asarray(first - 2 * beta * norm / (rtt**2 * total**2) * inner / np.outer(rate, rate))


def printed_jacobian(users: int = 300, seed: int = 1) -> Statement:
    """Appendix G, the Jacobian of (12)."""
    dice, off = np.random.default_rng(seed), 0.0
    for _ in range(users):
        n, paths = int(dice.integers(1, 3)), int(dice.integers(2, 9))
        beta, rtt = round(float(dice.uniform(0.0, 1.0)), 4), float(10 ** dice.uniform(-2, -0.5))
        rate = 10 ** dice.uniform(0, 3, paths)
        printed = jacobian_as_printed(beta, n, rate, rtt)
        states = random_states.plain(rate[None] * rtt, np.full((1, paths), rtt))
        exact = phi_jacobian(Law(f"generalized:beta={beta}:norm={n}"), states)[0]
        off = max(off, float(np.abs(printed - exact).max() / np.abs(exact).max()))
    return Statement(
        "appendix G, the Jacobian",
        "the Jacobian of (12) at equal RTTs",
        verdict(off < 1e-9),
        f"at {users} random rates and beta, n = 1 and 2, 2 to 8 paths it is the exact derivative "
        f"of the rule, to {off:.0e} of its largest entry",
        {"users": users, "off": off},
    )
