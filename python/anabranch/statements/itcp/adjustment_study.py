"""Statements of the I-TCP paper on its kappas: (11), (12), proposition 1, figure 2, lemmas."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from anabranch.runner import Progress
from anabranch.statements.itcp import rate_statements
from anabranch.statements.itcp.adjustment import Linear, Rule, Trajectory, check, flow, linear
from anabranch.statements.itcp.proposition import MAX_KAPPA, TRIALS, Trial, trial
from anabranch.statements.statement import Statement


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
    statements = rate_statements.statements(trials, starts)
    return Adjustment(linear(loads, epsilon), moved, tuple(trials), statements)
