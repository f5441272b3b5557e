"""I-TCP's figure 2, proposition 1 and lemmas 2 to 7, searched for a counterexample by the rule.

Tinnakornsrisuphap, Agrawal, Feng, appendix B. A connection is short if phi <= rho: the set B; the
others are A, which the rule may shrink.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil
from typing import Any

import numpy as np

from anabranch.formats import numbers
from anabranch.runner import Progress
from anabranch.statements.itcp.adjustment import (
    MAX_KAPPA,
    TRIALS,
    Linear,
    Rule,
    Trajectory,
    Trial,
    check,
    flow,
    linear,
    random_start,
    trial,
)
from anabranch.statements.quotes import quoted
from anabranch.statements.statement import CONDITION, Statement, verdict
from anabranch.theory.array import Array

STARTS, QUICK_STARTS = 2000, 200


@dataclass(frozen=True)
class Case:
    """Connections, their loads, and the rule."""

    loads: Array
    kappas: Array
    epsilon: float
    gamma: float
    most: float = MAX_KAPPA

    @property
    def shares(self) -> Array:
        return np.asarray(self.kappas / self.kappas.sum())

    @property
    def short(self) -> Array:
        """B, a bool for each connection."""
        return np.asarray(self.shares <= self.loads)

    @property
    def deficit(self) -> float:
        """||B|| of the appendix."""
        return float(np.maximum(self.loads - self.shares, 0.0).sum())

    def after(self, i: int) -> "Case":
        """The state when connection i has adjusted its kappa."""
        kappas = self.kappas.copy()
        rule = Rule(self.epsilon, self.gamma, self.most)
        kappas[i] = rule.after(float(kappas[i]), float(self.shares[i]), float(self.loads[i]))
        return Case(self.loads, kappas, self.epsilon, self.gamma, self.most)

    def __str__(self) -> str:
        return (
            f"loads ({numbers(self.loads, '.3g')}), kappa ({numbers(self.kappas, '.3g')}), "
            f"epsilon {self.epsilon:.3g}, gamma {self.gamma:.2g}"
        )


def pair(dice: np.random.Generator, most: float = MAX_KAPPA) -> Case:
    """Two connections, the first with enough and the second short, epsilon < 1 - rho."""
    while True:
        loads = dice.uniform(0.2, 0.95) * dice.dirichlet([2.0, 2.0])
        epsilon = float(dice.uniform(0.01, 0.99) * (1 - loads.sum()))
        case = Case(loads, dice.uniform(1, most, 2), epsilon, float(dice.uniform(0.05, 0.9)), most)
        if list(case.short) == [False, True]:
            return case


def several(dice: np.random.Generator) -> Case:
    """Two to six connections under the assumptions of proposition 1, some of them short.

    In half of the cases all shares but one are near their loads, where a step decides most.
    """
    while True:
        start = random_start(dice, "within")
        loads, kappas = np.array(start.loads), np.array(start.kappas)
        if dice.random() < 0.5:
            shares = loads * np.exp(0.02 * dice.standard_normal(len(loads)))
            shares[0] = 1 - shares[1:].sum()
            kappas = shares * MAX_KAPPA / shares.max()
        case = Case(loads, kappas, start.epsilon, start.gamma)
        if case.short.any() and kappas.min() >= 1:
            return case


Attempt = tuple[Case, bool] | None
"""A case and whether the lemma holds for it; None where its premise is not met."""


def search(
    starts: int,
    place: str,
    says: str,
    attempt: Callable[[np.random.Generator], Attempt],
    found: str,
) -> Statement:
    """A statement, tested on random cases that meet its premise."""
    dice, trials = np.random.default_rng(1), list[tuple[Case, bool]]()
    while len(trials) < starts:
        if (trial := attempt(dice)) is not None:
            trials.append(trial)
    bad = [case for case, fine in trials if not fine]
    words = f"at {starts} random starts"
    if bad:
        example = min(bad, key=lambda case: len(case.loads))
        words = f"violated at {len(bad)} of {starts} random starts, as at {example}"
    numbers = {"starts": starts, "broken": len(bad)}
    return Statement(place, says, verdict(not bad), words + found, numbers)


def line_search(starts: int) -> Statement:
    """Figure 2: two connections, of which only the ratio of the kappas matters."""
    dice, turned, reachable, missed = np.random.default_rng(1), 0, 0, 0
    for _ in range(starts):
        case = pair(dice)
        low, high = case.loads[0] / (1 - case.loads[0]), (1 - case.loads[1]) / case.loads[1]
        before = case.kappas[0] / case.kappas[1]
        moved = [case.after(i).kappas for i in (0, 1)]
        # The second is short: the ratio is above the cone, and either move lowers it.
        lower = all(kappas[0] / kappas[1] <= before for kappas in moved)
        turned += bool(lower and before >= high)
        inside = bool(low < MAX_KAPPA and high > 1 / MAX_KAPPA)
        reachable += inside
        missed += not inside
    return Statement(
        "III, figure 2",
        "with two connections finding kappa is a line search",
        verdict(turned == starts),
        f"only kappa1 / kappa2 matters: both have enough where it is between rho1 / (1 - rho1) and "
        f"(1 - rho2) / rho2, which is not empty because rho1 + rho2 < 1; at {starts} random starts "
        "an increase of the one that is short and a decrease of the other both turn it there. The "
        f"line ends at M and 1 / M: a load above M / (M + 1) = {MAX_KAPPA / (MAX_KAPPA + 1):.3f} "
        f"is out of reach ({missed} of these starts)",
        {"starts": starts, "turned": turned},
    )


def lemma_2(case: Case) -> bool:
    """Whether the second's increase keeps the bounds of lemma 2."""
    shares = case.after(1).shares
    return bool(shares[0] > case.loads[0] and shares[1] < case.loads[1] + case.epsilon)


def _lemma_2(dice: np.random.Generator) -> Attempt:
    case = pair(dice)
    return case, lemma_2(case)


def _lemma_3(dice: np.random.Generator) -> Attempt:
    case = pair(dice)
    needed = case.kappas[0] * case.loads[1] / (1 - case.loads[1]) - case.kappas[1]
    if case.kappas[1] + needed >= case.most - 1e-9:
        return None  # no kappa below M suffices
    moved = case
    for _ in range(ceil(2 * needed / case.epsilon * (1 + 1e-9))):
        if not moved.short.any():
            break
        moved = moved.after(1)
    return case, not moved.short.any()


def _lemma_4(dice: np.random.Generator) -> Attempt:
    """Until both have enough; `goes_on` follows the rule beyond."""
    if (case := meets_lemma_4(dice)) is None:
        return None
    moved = case.after(0)
    for _ in range(STARTS):
        if moved.short[1] or not moved.short[0]:
            break
        moved = moved.after(0)
    return case, not moved.short.any()


def meets_lemma_4(dice: np.random.Generator) -> Case | None:
    """A random case that meets the premise of lemma 4 and assumption (iv), or None."""
    case = pair(dice)
    case = replace(case, kappas=np.array([case.kappas[0], case.most]))
    down = case.after(0)
    premise = list(case.short) == [False, True] and bool(down.short[0])
    return case if premise and down.kappas[0] > 1.0 else None


def goes_on(case: Case) -> bool | None:
    """Whether the second is short again when the rule goes on for 20 rounds: lemma 4 as printed,
    for all j > k.

    With both having enough, the one with more to spare shrinks, unless (iii) forbids it; None
    where that brings a kappa to 1, against (iv).
    """
    case = case.after(0)
    for _ in range(20):
        if case.short[1]:
            return True
        if not case.short[0]:
            spare = case.shares - case.loads
            free = [int(i) for i in np.argsort(-spare) if spare[i] >= case.epsilon]
            if not free:
                return False
            case = case.after(free[0])
        else:
            case = case.after(0)
        if case.kappas.min() == 1.0:
            return None
    return bool(case.short[1])


def again_short(starts: int) -> int:
    """The number of starts, of this many that meet lemma 4 and keep (iv), from which the second
    is short again.
    """
    dice, again, tried = np.random.default_rng(1), 0, 0
    while tried < starts:
        case = meets_lemma_4(dice)
        outcome = None if case is None else goes_on(case)
        if outcome is not None:
            tried, again = tried + 1, again + outcome
    return again


def _lemma_5(dice: np.random.Generator) -> Attempt:
    case = moved = several(dice)
    for _ in range(10 * STARTS):
        growing = np.flatnonzero(moved.short & (moved.kappas < moved.most))
        if not len(growing):
            return case, True
        after = moved.after(int(dice.choice(growing)))
        if (after.kappas < moved.kappas).any():
            break
        moved = after
    return case, False


def lemma_6(case: Case, i: int) -> bool:
    """Whether an increase of connection i has one of lemma 6's two results."""
    after = case.after(i)
    joined = ~case.short
    joined[i] = True
    return after.deficit < case.deficit or bool((~after.short == joined).all())


def _lemma_6(dice: np.random.Generator) -> Attempt:
    case = several(dice)
    growing = np.flatnonzero(case.short & (case.kappas < case.most))
    if not len(growing):
        return None
    return case, lemma_6(case, int(dice.choice(growing)))


def recovery(dice: np.random.Generator) -> tuple[Case, Case] | None:
    """A random case that meets the premise of lemma 7, and the state when the connection that
    shrank has enough again; None where the case drawn does not."""
    case = several(dice)
    case = replace(case, kappas=np.where(case.short, case.most, case.kappas))
    enough = np.flatnonzero(case.shares > case.loads + case.epsilon)
    stuck = case.short.any() and (case.kappas[case.short] == case.most).all()
    if not stuck or not len(enough):
        return None
    i = int(dice.choice(enough))
    moved = case.after(i)
    if not moved.short[i] or moved.kappas[i] == 1.0:
        return None
    while moved.short[i] and moved.kappas[i] < moved.most:
        moved = moved.after(i)
    return case, moved


def _lemma_7(dice: np.random.Generator) -> Attempt:
    if (found := recovery(dice)) is None:
        return None
    case, moved = found
    kept = not (moved.short & ~case.short).any()
    return case, kept and moved.deficit < case.deficit


def lemmas(starts: int = STARTS) -> list[Statement]:
    """Figure 2 and lemmas 2 to 7, each from `starts` random starts."""
    again = again_short(starts)
    lemma_4 = search(
        starts,
        "appendix B, lemma 4",
        "if the short one is at M and a decrease makes the other short, the first has enough from "
        "then on, and both have in finite time",
        _lemma_4,
        f" until both have enough. For all j > k, as printed, it does not hold: where the rule "
        f"goes on under proposition 1's assumptions, the one at M is short again within 20 rounds "
        f"from {again} of {starts} starts that keep (iv)",
    )
    if lemma_4.holds and again:
        lemma_4 = replace(
            lemma_4,
            verdict=CONDITION,
            numbers={**lemma_4.numbers, "short_again": again},
            needs="j up to the update after which both have enough",
        )
    return [
        line_search(starts),
        search(
            starts,
            "appendix B, lemma 2",
            "of two, an increase of the short one leaves the other with enough, and itself below "
            "rho + epsilon, for epsilon < 1 - rho",
            _lemma_2,
            "",
        ),
        search(
            starts,
            "appendix B, lemma 3",
            "and if some kappa below M suffices, both have enough after at most 2 a / epsilon "
            "increases",
            _lemma_3,
            "; a is the least that suffices",
        ),
        lemma_4,
        search(
            starts,
            "appendix B, lemma 5",
            "kappas rise for a finite number of steps, until all that are short are at M",
            _lemma_5,
            "",
        ),
        search(
            starts,
            "appendix B, lemma 6",
            "each of these steps lowers ||B||, or the connection that rises joins A and A is else "
            "unchanged",
            _lemma_6,
            ": the connection that rises takes from all others, of which one with little to spare "
            "becomes short. Proposition 1 holds in its trials all the same",
        ),
        search(
            starts,
            "appendix B, lemma 7",
            "if all that are short are at M and a decrease makes another short, it recovers with "
            "A no smaller and ||B|| lower",
            _lemma_7,
            "",
        ),
    ]


# Section III and appendix B of I-TCP's paper: figure 2, proposition 1 and the lemmas.


AS_STATED = ("as stated", "as stated, nearest first")
"""The trials with the proposition's own assumptions."""


def statements(trials: Sequence[Trial], starts: int) -> list[Statement]:
    """Figure 2, proposition 1 from `trials`, and the lemmas from so many random starts."""
    figure, *others = lemmas(starts)
    return quoted("itcp", [figure, proposition_1(trials), *others])


def proposition_1(trials: Sequence[Trial]) -> Statement:
    """From those of the trials that have its assumptions."""
    stated = [trial for trial in trials if trial.name in AS_STATED]
    kept = sum(trial.kept for trial in stated)
    reached = sum(trial.reached for trial in stated)
    return Statement(
        "III-A, proposition 1",
        "under (i) to (iv) and sum (rho + epsilon) < 1 all shares come to exceed the loads",
        verdict(reached == kept),
        f"of {sum(trial.starts for trial in stated)} random starts of 2 to 6 connections, in "
        f"random order or the one nearest to its load first, {kept} keep (iv), and {reached} of "
        f"these reach phi > rho, in at most {max(trial.worst_steps for trial in stated)} steps. "
        "Reached is all that it states: the rule goes on, and phi falls below rho again",
        {"kept": kept, "reached": reached},
    )


# Statements of the I-TCP paper on its kappas: (11), (12), proposition 1, figure 2, lemmas.


@dataclass(frozen=True)
class Adjustment:
    """The kappas under given loads, and proposition 1 under random ones."""

    linear: Linear
    flow: Trajectory
    """(11) from all kappas at their largest."""
    trials: tuple[Trial, ...]
    statements: list[Statement]
    """Figure 2, proposition 1 and lemmas 2 to 7."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "loads": self.linear.loads,
            "epsilon": self.linear.epsilon,
            "eigenvalues": self.linear.eigenvalues.tolist(),
            "stable": self.linear.is_stable,
            "shares_of_12": self.linear.shares.tolist(),
            "kappa_of_11": self.flow.kappa[-1].tolist(),
            "shares_of_11": self.flow.shares[-1].tolist(),
            "proposition_1": [asdict(trial) for trial in self.trials],
            "statements": [asdict(statement) for statement in self.statements],
        }


def study(
    loads: Sequence[float] = (0.52, 0.24),
    epsilon: float = 0.1,
    gamma: float = 0.2,
    starts: int = 2000,
    seed: int = 1,
    progress: Progress | None = None,
) -> Adjustment:
    """(11) and (12) for these loads, every trial of proposition 1, and the lemmas.

    Raises `ScenarioError` for loads that no shares exceed.
    """
    check(loads, epsilon, gamma, MAX_KAPPA)
    rule = Rule(epsilon, gamma, MAX_KAPPA)
    moved = flow(loads, rule, [MAX_KAPPA] * len(loads), rounds=40 / gamma)
    trials = []
    for done, name in enumerate(TRIALS):
        trials.append(trial(name, starts, seed))
        if progress:
            progress((done + 1) / (len(TRIALS) + 1))
    return Adjustment(linear(loads, epsilon), moved, tuple(trials), statements(trials, starts))
