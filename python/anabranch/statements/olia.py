"""Statements of the OLIA draft on regular TCP, LIA's family and OLIA, by calculation on the rules.

Khalili, Gast, Popovic, Le Boudec, draft-khalili-mptcp-performance-issues-06, sections 1, 2 and 7.
The family is indexed by phi: traffic is proportional to (1/p_r)^(1/phi).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from anabranch.runner import Progress
from anabranch.scenario import Scenario
from anabranch.statements.quotes import quoted
from anabranch.statements.statement import CONDITION, WRONG, Statement, verdict
from anabranch.theory.array import Array
from anabranch.theory.law import Law, States
from anabranch.theory.optimum.fixed_points import ACCEPTED_RESIDUAL, Complementarity, solve


@dataclass(frozen=True, eq=False)
class Net:
    """Links, and users whose paths have one RTT per user; packets and seconds."""

    routes: Array
    """Links by paths."""
    capacity: Array
    starts: Array
    """The paths of user u are those from `starts[u]` to `starts[u + 1]`; int64."""
    rtt: Array
    """Round-trip time of each path."""

    @property
    def sums(self) -> Array:
        """Users by paths: 1 for their own."""
        sizes = np.diff(self.starts)
        return np.repeat(np.eye(len(sizes)), sizes, axis=1)


def draw(dice: np.random.Generator, most_paths: int) -> Net:
    """Random links, two to four, all in use; two to five users with up to `most_paths` each."""
    while True:
        links, sizes = int(dice.integers(2, 5)), dice.integers(1, most_paths + 1, 5)
        sizes = sizes[: int(dice.integers(2, 6))]
        routes = np.zeros((links, int(sizes.sum())))
        for path in range(routes.shape[1]):
            crossed = int(dice.integers(1, min(2, links) + 1))
            routes[dice.choice(links, crossed, replace=False), path] = 1
        if (routes.sum(axis=1) > 0).all():
            break
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    rtt = np.repeat(10 ** dice.uniform(-2, -0.5, len(sizes)), sizes)
    return Net(routes, 10 ** dice.uniform(2, 4, links), starts, rtt)


def fixed_rates(law: Law, net: Net) -> Array | None:
    """Stationary rates of the paths, packets/s; None if none were found."""

    def phi(window: Array) -> tuple[Array, Array]:
        # Loss intervals as at OLIA's fixed point: the best paths have the largest windows.
        interval = window * net.rtt**2
        states = States(net.starts, window, net.rtt, net.rtt, 0 * net.rtt, interval)
        return law.phi(states), law.phi_derivatives(states, "window").toarray()

    even = (net.capacity / net.routes.sum(axis=1))[:, None]
    share = np.where(net.routes > 0, even, np.inf).min(axis=0)
    load = net.routes / net.capacity[:, None] / net.rtt
    window, _, residual = solve(Complementarity(phi, load, net.routes, 0.0), share * net.rtt)
    return window / net.rtt if residual < ACCEPTED_RESIDUAL else None


def most_gain(net: Net, rate: Array) -> float:
    """The largest part by which one user's rate can rise while no other's falls and no link has
    more than its capacity: a linear programme for each user. 0 at a Pareto optimum."""
    totals = net.sums @ rate
    limits = np.vstack([net.routes / net.capacity[:, None], -net.sums / totals[:, None]])
    loads = np.maximum(1.0, net.routes @ rate / net.capacity)
    most = np.concatenate([loads, -np.ones(len(totals))])
    found = [linprog(-own / total, A_ub=limits, b_ub=most) for own, total in
             zip(net.sums, totals, strict=True)]  # fmt: skip
    return float(max(-one.fun - 1 for one in found))


def gains(rule: str, most_paths: int, nets: int, seed: int) -> Array:
    """`most_gain` at the rule's fixed point in each of so many random networks."""
    drawn = [draw(np.random.default_rng([seed, i]), most_paths) for i in range(nets)]
    found = [(net, fixed_rates(Law(rule), net)) for net in drawn]
    return np.array([most_gain(net, rate) for net, rate in found if rate is not None])


def regular_tcp_is_optimal(nets: int = 30, seed: int = 1) -> Statement:
    """Section 1, regular TCP and Pareto optimality."""
    single = gains("reno", 1, nets, seed)
    several = {rule: gains(rule, 3, nets, seed) for rule in ("reno", "lia", "olia")}
    wasteful = {rule: float((of > 0.01).mean()) for rule, of in several.items()}
    return Statement(
        "1, regular TCP",
        "regular TCP is Pareto-optimal: no user can get more without another getting less",
        verdict(len(single) == nets and float(single.max()) < 1e-6),
        f"at NewReno's fixed point in {nets} random networks of single-path users linear "
        f"programming finds no more than {max(0.0, single.max()):.0e} for any user. In networks of "
        "users with up to three paths some user could get over 1 % more at nobody's cost in "
        + ", ".join(f"{part:.0%} with {rule}" for rule, part in wasteful.items()),
        {"networks": nets, "gain": float(single.max()), "wasteful_lia": wasteful["lia"],
         "wasteful_olia": wasteful["olia"]},
    )  # fmt: skip


def lower_rtts_get_more(users: int = 5, nets: int = 20, seed: int = 1) -> Statement:
    """Section 1, regular TCP and RTTs."""
    dice, off, ordered = np.random.default_rng(seed), 0.0, 0
    for _ in range(nets):
        rtt = 10 ** dice.uniform(-2, -0.5, users)
        net = Net(np.ones((1, users)), np.array([1e3]), np.arange(users + 1), rtt)
        rate = fixed_rates(Law("reno"), net)
        if rate is None:
            continue
        ordered += bool((np.diff(rate[np.argsort(rtt)]) < 0).all())
        off = max(off, float(np.ptp(rate * rtt) / (rate * rtt).max()))
    return Statement(
        "1, RTTs of regular TCP",
        "regular TCP favours connections with lower RTTs",
        verdict(ordered == nets),
        f"in {ordered} of {nets} random networks of {users} users of one link every user has more "
        f"than those with longer RTTs; rates are as 1 / RTT, to {off:.0e}",
        {"networks": nets, "ordered": ordered, "off": off},
    )


FAMILY = {"coupled": 0.0, "lia": 1.0, "reno": 2.0}
"""The members that the draft names, with their phi; `reno` is NewReno on each path."""

RTT_S = 0.1

LEVEL = 0.45
"""Part of one TCP's window that an idle path must reach: 90 % of half of it."""

MOST_ROUNDS = 200_000


def exponents(law: Law, users: int, seed: int) -> tuple[float, float]:
    """The least and the largest slope of -log p over log w among two-path users, p being the
    losses at which their random windows are stationary: the phi of the family."""
    dice = np.random.default_rng(seed)
    slopes = []
    for _ in range(users):
        window = 10 ** dice.uniform(0, 3, 2)
        loss = law.phi(States.of_user(window, [RTT_S, RTT_S]))
        slopes.append(-np.diff(np.log(loss))[0] / np.diff(np.log(window))[0])
    return float(min(slopes)), float(max(slopes))


def family(users: int = 1000, seed: int = 1) -> Statement:
    """Section 2, the family's loss-throughput formula."""
    found = {name: exponents(Law(name), users, seed) for name in FAMILY}
    off = max(abs(end - FAMILY[name]) for name, ends in found.items() for end in ends)
    return Statement(
        "2, the family",
        "windows are proportional to (1/p_r)^(1/phi): the fully coupled rule for phi near 0, LIA "
        "for 1, uncoupled TCPs for 2",
        verdict(off < 1e-6),
        f"at {users} random windows of two paths with equal RTTs phi is "
        + ", ".join(f"{(low + high) / 2:.6f} for {name}" for name, (low, high) in found.items())
        + f", to {off:.0e}; for the coupled rule losses are equal whatever the windows, so that a "
        "path with more loss has none",
        {"users": users, "off": off},
    )


def every_phi(users: int = 1000, seed: int = 2) -> Statement:
    """Section 2, a rule for each phi: the table's `linked`."""
    found = {phi: exponents(Law(f"linked:phi={phi}"), users, seed) for phi in (0.5, 1.0, 1.5, 2.0)}
    off = max(abs(end - phi) for phi, ends in found.items() for end in ends)
    return Statement(
        "2, every phi",
        "the family has a rule for every phi between 0 and 2",
        verdict(off < 1e-6),
        "I_r = (w_r/W)^(1 - phi) / W with D_r = w_r/2 has the proportion of the family for every "
        "phi, and is NewReno over one path; the draft prints none, and refers to a slide of "
        f"another talk. At {users} random windows of two paths phi is "
        + ", ".join(f"{(low + high) / 2:.6f}" for low, high in found.values())
        + f", to {off:.0e}",
        {"users": users, "off": off},
    )


@dataclass(frozen=True)
class Response:
    """How a rule moves windows between two paths of equal RTT."""

    rounds: float
    """RTTs in which an idle path without loss reaches `LEVEL` of one TCP's window; infinite
    where it doesn't in `MOST_ROUNDS`."""
    restoring: float
    """The decay per RTT of log(w_1 / w_2), at equal losses and windows of 1.05 and 0.95, over
    that ratio's logarithm; 0 where the split is a random walk."""


def response(law: Law, loss: float, history: float) -> Response:
    """Where the other path has this loss, and `history` packets lay between the idle one's losses.

    The idle path starts with one packet. Its loss interval is the larger of `history` and what it
    has sent since, as OLIA measures it.
    """
    tcp = np.sqrt(2 / loss)
    window, sent, rounds = np.array([tcp, 1.0]), 0.0, 0
    while window[1] < LEVEL * tcp and rounds < MOST_ROUNDS:
        interval = max(history, sent)
        states = States.of_user(window, [RTT_S] * 2, loss_probability=[loss, 1 / interval])
        increase, decrease = law.evaluate(states)
        sent += window[1]
        window = np.maximum(window * (1 + increase - decrease * [loss, 0.0]), 1.0)
        rounds += 1
    even = np.array([1.0, 1.0]) * tcp / 2
    stationary = law.phi(States.of_user(even, [RTT_S] * 2, loss_probability=loss))
    uneven = even * [1.05, 0.95]
    states = States.of_user(uneven, [RTT_S] * 2, loss_probability=loss)
    increase, decrease = law.evaluate(states)
    drift = increase - decrease * stationary
    restoring = float(drift[1] - drift[0]) / np.log(1.05 / 0.95)
    return Response(rounds if rounds < MOST_ROUNDS else np.inf, restoring)


LOSSES = (1e-4, 1e-3, 1e-2)
"""Loss probabilities of the other path: one TCP has 141, 45 and 14 packets."""

HISTORY = 10.0
"""Packets between losses of a path that was congested: a loss of 0.1."""


def compromise() -> Statement:
    """Section 2, what each end of the family is good and bad at."""
    found = {name: [response(Law(name), loss, HISTORY) for loss in LOSSES] for name in FAMILY}
    coupled, lia, reno = found.values()
    faster = all(a.rounds > b.rounds > c.rounds
                 for a, b, c in zip(coupled, lia, reno, strict=True))  # fmt: skip
    steadier = all(abs(a.restoring) < 1e-12 < b.restoring < c.restoring
                   for a, b, c in zip(coupled, lia, reno, strict=True))  # fmt: skip
    return Statement(
        "2, its ends",
        "phi near 0 is flappy, phi = 2 is very responsive and not flappy, LIA is a compromise",
        verdict(faster and steadier),
        f"an idle path without loss reaches {LEVEL} of one TCP's window after "
        + _each(found, "rounds", "round trips")
        + "; an uneven split decays per RTT by "
        + _each(found, "restoring", "")
        + f". In this order: {', '.join(found)}; with losses of "
        + ", ".join(f"{loss:g}" for loss in LOSSES)
        + " on the other path. 0 is a random walk, which flaps",
        {f"rounds_{name}": responses[1].rounds for name, responses in found.items()},
    )


RED_LINK = """
algorithm = "reno"
[measure]
duration_s = 1
[links.L]
rate_mbps = {rate:g}
delay_ms = 30
queue.red = {{}}
[[flows]]
name = "f"
paths = [["L"]]
"""

THRESHOLDS = {30: (75, 150, 300), 27: (67.5, 135, 270), 36: (90, 180, 360)}
"""Packets by the link's rate in Mbps: the printed 25, 50 and 100 at 10 Mbps, in proportion."""


def red_thresholds() -> Statement:
    """The testbed's queues, as a scenario's `queue.red` has them by default."""
    curves = {
        rate: Scenario.parse(RED_LINK.format(rate=rate)).network()["links"][0]["red"]
        for rate in THRESHOLDS
    }
    used = {rate: tuple(packets for packets, _ in curve or ()) for rate, curve in curves.items()}
    off = max(float(np.abs(np.subtract(used[rate], THRESHOLDS[rate])).max()) for rate in used)
    return Statement(
        "3, testbed",
        "RED's thresholds scale with capacity: 75, 150 and 300 packets at 30 Mbps, 67.5, 135 and "
        "270 at 27, 90, 180 and 360 at 36",
        verdict(off < 1e-9),
        "the default queue.red at these rates has "
        + "; ".join(", ".join(f"{packets:g}" for packets in values) for values in used.values()),
        {"off": off},
    )


def as_responsive_as_lia() -> Statement:
    """Section 7, OLIA beside LIA."""
    lia = [response(Law("lia"), loss, HISTORY) for loss in LOSSES]
    olia = [response(Law("olia"), loss, HISTORY) for loss in LOSSES]
    known = [response(Law("olia"), loss, 1 / loss) for loss in LOSSES]
    slower = [a.rounds / b.rounds for a, b in zip(olia, lia, strict=True)]
    as_best = all(a.rounds <= b.rounds and a.restoring >= b.restoring
                  for a, b in zip(known, lia, strict=True))  # fmt: skip
    return Statement(
        "7, OLIA beside LIA",
        "OLIA is as responsive as LIA",
        CONDITION if as_best else WRONG,
        f"an uneven split decays per RTT by {_list(olia, 'restoring')} (LIA "
        f"{_list(lia, 'restoring')}), with losses of {', '.join(f'{p:g}' for p in LOSSES)}. That "
        f"says nothing of flappiness, which takes noise: claims flap1 to flap6 measure it with "
        f"packets. Responsive once the path counts as best: {_list(known, 'rounds')} round trips "
        f"(LIA {_list(lia, 'rounds')}). But a path with {HISTORY:g} packets between its losses "
        f"must first send more than the other does between two losses; meanwhile alpha is 0 and it "
        f"grows as with the coupled rule: {_list(olia, 'rounds')} round trips, "
        f"{', '.join(f'{ratio:.2g}' for ratio in slower)} times LIA's. The model "
        "has no noise and no timeouts; the draft refers to measurements in another paper",
        {"largest_ratio_of_rounds": max(slower)},
        needs="a path that counts as best, with as many packets between its losses as the other",
    )  # fmt: skip


def _list(responses: list[Response], name: str) -> str:
    return ", ".join(f"{getattr(one, name):.3g}" for one in responses)


def _each(found: dict[str, list[Response]], name: str, unit: str) -> str:
    return "; ".join(_list(responses, name) for responses in found.values()) + f" {unit}".rstrip()


def statements(progress: Progress | None = None) -> list[Statement]:
    """The draft's, in its order. Calls `progress` with the fraction done, 0 to 1."""
    judges: tuple[Callable[[], Statement], ...] = (
        regular_tcp_is_optimal,
        lower_rtts_get_more,
        family,
        every_phi,
        compromise,
        red_thresholds,
        as_responsive_as_lia,
    )
    found: list[Statement] = []
    for number, judge in enumerate(judges, 1):
        found.append(judge())
        if progress:
            progress(number / len(judges))
    return quoted("olia", found)
