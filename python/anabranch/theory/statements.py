"""The statements of a paper that are tested here, by the name of its folder in `papers/`."""

from collections.abc import Callable, Mapping

from anabranch.runner import Progress
from anabranch.scenario import ScenarioError
from anabranch.theory.statement import Statement


def statements_of(paper: str, progress: Progress | None = None) -> list[Statement]:
    """Every statement of a paper with its verdict; takes up to some minutes.

    Raises `ScenarioError` for a paper without statements.
    """
    if paper not in PAPERS:
        raise ScenarioError(f"statements of {paper}: expected one of {', '.join(PAPERS)}")
    return PAPERS[paper](progress)


def _balia(progress: Progress | None) -> list[Statement]:
    from anabranch.theory.guarantees.statements import statements

    return statements(progress)


def _wvegas(_: Progress | None) -> list[Statement]:
    from anabranch.theory.optimum.wvegas_statements import statements

    return statements()


def _olia(_: Progress | None) -> list[Statement]:
    from anabranch.theory.optimum.olia_statements import statements

    return statements()


def _itcp(progress: Progress | None) -> list[Statement]:
    from anabranch.theory.queueing import lemmas, measured_tails

    return measured_tails.measure(progress=progress).statements + lemmas.statements()


def _rsf(progress: Progress | None) -> list[Statement]:
    from anabranch.theory.games.rent_study import study

    return study(progress=progress).statements


PAPERS: Mapping[str, Callable[[Progress | None], list[Statement]]] = {
    "balia": _balia,
    "itcp": _itcp,
    "olia": _olia,
    "rsf": _rsf,
    "wvegas": _wvegas,
}
