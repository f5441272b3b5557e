"""Section III and appendix B of I-TCP's paper: figure 2, proposition 1 and the lemmas."""

from collections.abc import Sequence

from anabranch.statements.itcp import lemmas
from anabranch.statements.itcp.proposition import Trial
from anabranch.statements.quotes import quoted
from anabranch.statements.statement import Statement, verdict

AS_STATED = ("as stated", "as stated, nearest first")
"""The trials with the proposition's own assumptions."""


def statements(trials: Sequence[Trial], starts: int) -> list[Statement]:
    """Figure 2, proposition 1 from `trials`, and the lemmas from so many random starts."""
    figure, *others = lemmas.statements(starts)
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
