"""The statements of a paper that are tested here, by the name of its folder in `papers/`."""

from collections.abc import Callable, Mapping

from anabranch.runner import Progress
from anabranch.scenario import ScenarioError
from anabranch.theory.statement import Statement


def statements_of(
    paper: str, progress: Progress | None = None, quick: bool = False
) -> list[Statement]:
    """Every statement of a paper with its verdict; takes up to some minutes.

    `quick` takes fewer random samples. Raises `ScenarioError` for a paper without statements.
    """
    if paper not in PAPERS:
        raise ScenarioError(f"statements of {paper}: expected one of {', '.join(PAPERS)}")
    return PAPERS[paper](progress, quick)


def _balia(progress: Progress | None, quick: bool) -> list[Statement]:
    from anabranch.theory.guarantees.statements import statements

    return statements(progress, quick)


def _wvegas(_: Progress | None, quick: bool) -> list[Statement]:
    from anabranch.theory.optimum.wvegas_statements import statements

    return statements(quick)


def _olia(progress: Progress | None, _: bool) -> list[Statement]:
    from anabranch.theory.optimum.olia_statements import statements

    return statements(progress)


def _itcp(progress: Progress | None, quick: bool) -> list[Statement]:
    from anabranch.theory.queueing import lemmas, measured_tails

    seeds, starts = measured_tails.SEEDS, lemmas.STARTS
    if quick:
        seeds, starts = measured_tails.QUICK_SEEDS, lemmas.QUICK_STARTS
    tails = measured_tails.measure(seeds=seeds, progress=progress)
    return tails.statements + lemmas.statements(starts)


def _rsf(progress: Progress | None, _: bool) -> list[Statement]:
    from anabranch.theory.games.rent_study import study

    return study(progress=progress).statements


PAPERS: Mapping[str, Callable[[Progress | None, bool], list[Statement]]] = {
    "balia": _balia,
    "itcp": _itcp,
    "olia": _olia,
    "rsf": _rsf,
    "wvegas": _wvegas,
}
