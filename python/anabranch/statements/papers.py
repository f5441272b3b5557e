"""The statements of a paper that are tested here, by the name of its folder in `papers/`."""

from collections.abc import Callable, Mapping
from pathlib import Path

from anabranch.runner import Progress
from anabranch.scenario import ScenarioError
from anabranch.statements.statement import Statement


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
    from anabranch.statements.balia.statements import statements

    return statements(progress, quick)


def _wvegas(_: Progress | None, quick: bool) -> list[Statement]:
    from anabranch.statements.wvegas.statements import statements

    return statements(Path(__file__).parents[1] / "_papers" / "wvegas", quick)


def _olia(progress: Progress | None, _: bool) -> list[Statement]:
    from anabranch.statements.olia import statements

    return statements(progress)


def _itcp(progress: Progress | None, quick: bool) -> list[Statement]:
    from anabranch.statements.itcp import lemmas, stability, tail_theorems
    from anabranch.statements.itcp.adjustment import trial
    from anabranch.statements.itcp.lemmas import QUICK_STARTS, STARTS

    seeds = tail_theorems.QUICK_SEEDS if quick else tail_theorems.SEEDS
    starts = QUICK_STARTS if quick else STARTS
    tails = tail_theorems.measure(seeds=seeds, progress=progress)
    trials = [trial(name, starts, 1) for name in lemmas.AS_STATED]
    return [*tails.statements, *lemmas.statements(trials, starts), *stability.statements(quick)]


def _rsf(progress: Progress | None, _: bool) -> list[Statement]:
    from anabranch.statements.quotes import quoted
    from anabranch.statements.rsf.prices import largest_price
    from anabranch.statements.rsf.statements import study

    return [*quoted("rsf", [largest_price()]), *study(progress=progress).statements]


PAPERS: Mapping[str, Callable[[Progress | None, bool], list[Statement]]] = {
    "balia": _balia,
    "itcp": _itcp,
    "olia": _olia,
    "rsf": _rsf,
    "wvegas": _wvegas,
}
