"""The statements of the RSF paper's section 3, each with its verdict and the deciding numbers."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from anabranch.formats import numbers
from anabranch.runner import Progress
from anabranch.statements.quotes import quoted
from anabranch.statements.rsf import rent
from anabranch.statements.rsf.rent import Equilibrium, Scan, Split
from anabranch.statements.statement import CONDITION, Statement, ours, verdict

RULES = ("rsf-db", "rsf-lb")
RTT_S, LOSS = (0.050, 0.150), (0.001, 0.001)
"""Two paths that differ in RTT alone: with empty queues and few losses both rules are in their
first branch."""


@dataclass(frozen=True)
class RuleRates:
    """The stationary rates of a rule on two paths."""

    rule: str
    rtt_s: tuple[float, ...]
    loss: tuple[float, ...]
    rates: tuple[float, ...]
    """Packets/s."""


@dataclass(frozen=True)
class Rent:
    """The rent-seeking game of one connection and of several."""

    paths: int
    price: float
    equilibria: list[tuple[str, float, Equilibrium]]
    """Name, capacity, equilibrium."""
    splits: list[Split]
    scans: list[Scan]
    rule_rates: list[RuleRates]
    statements: list[Statement]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        equilibria = [
            {"game": name, "capacity": capacity, **_plain(vars(one))}
            for name, capacity, one in self.equilibria
        ]
        return {
            "paths": self.paths,
            "price": self.price,
            "equilibria": equilibria,
            "splits": [_plain(vars(split)) for split in self.splits],
            "rosen": [asdict(scan) for scan in self.scans],
            "rules": [asdict(rates) for rates in self.rule_rates],
            "statements": [asdict(statement) for statement in self.statements],
        }


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: v.tolist() if isinstance(v, np.ndarray) else v for key, v in fields.items()}


def study(
    paths: int = 2,
    price: float = 0.1,
    states: int = 2000,
    seed: int = 1,
    progress: Progress | None = None,
) -> Rent:
    """Solve the game with ample capacity and with half of the demand, scan Rosen's condition, and
    judge the statements.

    Raises `ScenarioError` for a game without an equilibrium.
    """
    rent.check(paths, price, capacity=1.0)
    wanted = (paths - 1) / paths / price
    uneven = [1.0] + [3.0] * (paths - 1)
    equilibria = [
        ("(6)", 2 * wanted, rent.equilibrium(paths, price, 2 * wanted)),
        ("(6), (7)", wanted / 2, rent.equilibrium(paths, price, wanted / 2)),
        ("(6), (7)", wanted / 2, rent.equilibrium(paths, price, wanted / 2, uneven)),
    ]
    # Two connections on two paths with half of the capacity that they demand: 1 / (4 p).
    splits = rent.splits(2, [1 / (8 * price)] * 2, price)
    scans: list[Scan] = []
    for players in sorted({2, 3, 5, paths}):
        for spread in (1.0, 4.0):
            scans.append(rent.scan(players, spread, states, seed))
        if progress:
            progress(players / (max(5, paths) + 1))
    scans += [rent.scan_connections(n, 2, states, seed) for n in (2, 3)]
    rates = [
        RuleRates(rule, RTT_S, LOSS, tuple(rent.rule_rates(rule, RTT_S, LOSS).tolist()))
        for rule in RULES
    ]
    statements = rent.statements(seed=seed) + _statements(equilibria, splits, scans, rates)
    return Rent(paths, price, equilibria, splits, scans, rates, quoted("rsf", statements))


def _statements(
    equilibria: list[tuple[str, float, Equilibrium]],
    splits: list[Split],
    scans: list[Scan],
    rates: list[RuleRates],
) -> list[Statement]:
    even = [scan for scan in scans if scan.game.startswith("(6)") and scan.weights == "1"]
    uneven = [scan for scan in scans if scan.game.startswith("(6)") and scan.weights != "1"]
    several = [scan for scan in scans if scan.game.startswith("(15)")]
    worst = max(uneven, key=lambda scan: scan.worst)
    alone = rent.condition([1.0, 0.0], [2.0, 0.0], [1.0, 1.0])
    (_, _, one), (_, _, other) = equilibria[1:]
    ratio = rates[0].rates[0] / rates[0].rates[1]
    distinct = (
        not np.allclose(one.rates, other.rates) and max(one.best_gain, other.best_gain) < 1e-9
    )
    concave = all(scan.holding == scan.states for scan in even)
    states = sum(scan.states for scan in even)
    return [
        Statement(
            "abstract, diagonal strict concavity",
            "(6) is diagonally strictly concave",
            verdict(concave),
            f"for z = 1, one price for all, and rates above 0 as section 3 has them: at all of "
            f"{states} states, because the sum of u_i^2 is below 1",
        ),
        unique(),
        condition_c0(even[0].states),
        Statement(
            "3, condition C1",
            "diagonal strict concavity for some z gives a unique equilibrium",
            CONDITION if concave and distinct else verdict(concave),
            f"C1 itself leaves the word out. Under (7) ({_short(one.rates)}) and "
            f"({_short(other.rates)}) are both equilibria: no player has a better rate within the "
            "capacity. Normalised, each belongs to another z",
            needs='"normalised", for that z, or a capacity (7) that is not used up',
        ),
        Statement(
            "3, other weights z",
            "(6) is not diagonally strictly concave for every z > 0",
            ours(any(scan.holding < scan.states for scan in uneven)),
            "the paper asks for some z only. G + G' has the eigenvalue "
            f"{worst.worst:.2g} at the shares {_short(worst.at)}",
        ),
        Statement(
            "3, rates of 0",
            "nor where rates may be 0",
            ours(alone <= 0),
            f"the paper has lambda_i > 0. (11) is {alone:g} for the states (1, 0) and (2, 0)",
        ),
        Statement(
            "3, several connections",
            "(15) is not diagonally strictly concave",
            ours(any(scan.holding < scan.states for scan in several)),
            "a connection that shifts rate between its paths changes no utility: the eigenvalue 0",
        ),
        Statement(
            "3, several connections, (16)",
            "(15) has more than one equilibrium under (16)",
            ours(not np.allclose(splits[0].rates, splits[1].rates)),
            "two connections on two paths: half of each path for each, or one path each, with the "
            "same multipliers",
        ),
        Statement(
            "3, one connection",
            "(15) has no equilibrium with one connection",
            ours(bool(rent.utilities([1.0], 0.1)[0] < rent.utilities([0.5], 0.1)[0])),
            "its utility is 1 - p times its rate: every smaller rate is better, and 0 undefined",
        ),
        Statement(
            "2 and 3, rates of the rules",
            "RSF-DB and RSF-LB do not give every path the same rate, as the game does",
            ours(abs(ratio - 1) > 0.01),
            f"with few losses and empty queues both are NewReno per path: {ratio:.3g} to 1 here",
        ),
    ]


def unique(starts: int = 6, seed: int = 1) -> Statement:
    """The abstract: one normalised equilibrium, found from anywhere."""
    apart, missed, solved, several = 0.0, 0, 0, 0.0
    for players in (2, 3, 5, 8):
        for room in (2.0, 0.9, 0.3):
            price = 0.1
            capacity = room * (players - 1) / players / price
            points = rent.first_order_points(players, price, capacity, starts, seed)
            expected = rent.equilibrium(players, price, capacity).rates
            missed += not len(points)
            solved += len(points)
            apart = max([apart, *(float(np.abs(one / expected - 1).max()) for one in points)])
            if room < 1:
                own = rent.first_order_points(players, price, capacity, starts, seed, shared=False)
                several = max(several, float((np.ptp(own, axis=0) / expected).max()))
    return Statement(
        "abstract, uniqueness",
        "the normalised equilibrium under (7) is globally unique",
        verdict(missed == 0 and apart < 1e-6),
        f"2, 3, 5 and 8 paths, capacity ample, 0.9 and 0.3 of what is demanded: the first order "
        f"conditions with one multiplier for all have the same solution from all of {solved} "
        f"random starts that end at one, to {apart:.0e}. That is z = 1: section 1 asks for a "
        f"pseudo-price that is the same for all paths. With a multiplier for each path, as in (8), "
        f"rates of one path differ by up to {several:.2g} of it",
        {"solved": solved, "missed": missed, "apart": apart, "apart_with_own": several},
    )


def condition_c0(pairs: int = 2000, seed: int = 1) -> Statement:
    """Section 3: C0 gives (11)."""
    found = rent.segments(pairs, seed)
    return Statement(
        "3, condition C0",
        "(11) holds where G + G' is negative definite",
        verdict(found.violating == 0 and found.definite > 0),
        f"at all {found.definite} of {pairs} pairs of random states and weights with G + G' "
        f"negative definite between them; of the other {found.others} {found.others_violating} "
        'violate (11). "For z in S" has to be: for all lambda in S',
        {"pairs": found.definite, "violating": found.violating,
         "others_violating": found.others_violating},
    )  # fmt: skip


def _short(values: Iterable[float]) -> str:
    return numbers(values, ".3g")
