"""Arguments of a run, checked: algorithms and seeds."""

import inspect
from collections.abc import Collection, Iterable, Sequence
from numbers import Integral
from operator import index
from typing import cast

from anabranch import _core
from anabranch.formats import is_printable, printable
from anabranch.rule import Rule
from anabranch.scenario import Scenario, ScenarioError

Algorithm = str | Rule
Algorithms = Algorithm | Sequence[Algorithm] | None
Seeds = int | Iterable[int] | None


def stand_in(algorithm: Algorithms) -> str | None:
    """The algorithm with which a scenario without one is read; every run then replaces it.

    The first of `algorithm` that the table of rules knows, or Reno; None if `algorithm` is None.
    """
    for choice in _several(algorithm):
        if isinstance(choice, str) and _is_known(choice):
            return choice
    return None if algorithm is None else "reno"


def _is_known(spec: str) -> bool:
    try:
        _core.algorithm(spec)
    except ScenarioError:
        return False
    return True


def _several(algorithm: Algorithms) -> Sequence[Algorithm]:
    if algorithm is None:
        return []
    one = isinstance(algorithm, str) or not isinstance(algorithm, Sequence)
    return cast(Sequence[Algorithm], [algorithm] if one else algorithm)


OWN = "own"
"""The `algorithm` of a scenario in which every flow names its own."""


def algorithms_of(
    scenario: Scenario, algorithm: Algorithms, own: Collection[str]
) -> dict[str, Rule | None]:
    """Rules in Python by name, in the order asked for: None for an algorithm of the table."""
    if algorithm is None:
        return {_core.algorithm(scenario.algorithm) if scenario.algorithm else OWN: None}
    if scenario.algorithm is None:
        raise ScenarioError(
            f"{scenario.source}: every flow names its own algorithm, so there is none to replace"
        )
    return named_algorithms(algorithm, own)


def named_algorithms(algorithm: Algorithms, own: Collection[str]) -> dict[str, Rule | None]:
    """As `algorithms_of`, for a scenario whose algorithm is replaced. Raises `ScenarioError`."""
    chosen: dict[str, Rule | None] = {}
    for choice in _several(algorithm):
        name, rule = _named(choice, own)
        if rule and name in chosen:
            raise ScenarioError(f"two algorithms are called {name}: give the rule another `name`")
        if name in chosen:
            raise ScenarioError(f"algorithm {choice}: {name} is given already: give each once")
        chosen[name] = rule
    if not chosen:
        raise ScenarioError("no algorithm given: expected at least one")
    return chosen


def _named(choice: Algorithm, own: Collection[str]) -> tuple[str, Rule | None]:
    """The canonical name; that of a Python rule is its attribute `name`, or its class.

    An algorithm of the backend's `own` keeps its name.
    """
    if isinstance(choice, str):
        if choice in own:
            return choice, None
        return _core.algorithm(choice), None
    if isinstance(choice, type):
        raise ScenarioError(
            f"algorithm {choice.__name__}: expected an object with increase and decrease, got the "
            f"class: write {choice.__name__}()"
        )
    if not (hasattr(choice, "increase") and hasattr(choice, "decrease")):
        raise ScenarioError(
            f"algorithm {choice!r}: expected a name or an object with increase and decrease"
        )
    for method, arguments in ARGUMENTS.items():
        _check_arguments(choice, method, arguments)
    name = str(getattr(choice, "name", type(choice).__name__))
    if not all(map(is_printable, name)):
        raise ScenarioError(f'the name "{printable(name)}" of a rule has control characters')
    return name, choice


ARGUMENTS = {"increase": ("r", "paths"), "decrease": ("r", "paths")}
"""The methods of a rule, with what they are called with."""


def _check_arguments(rule: Rule, method: str, arguments: tuple[str, ...]) -> None:
    """Raise `ScenarioError` for a method that cannot be called with these arguments."""
    function = getattr(rule, method)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # callable, but not written in Python
        return
    try:
        signature.bind(*arguments)
    except TypeError:
        raise ScenarioError(
            f"algorithm {type(rule).__name__}: expected {method}(self, {', '.join(arguments)}), "
            f"got {method}(self{''.join(f', {name}' for name in signature.parameters)})"
        ) from None


def seeds_of(seeds: Seeds, default: Iterable[int] = ()) -> list[int]:
    """The seeds themselves: 1 to n for a number n; `default` for None. Raises `ScenarioError`."""
    if seeds is None:
        return list(default)
    try:
        chosen = list(seeds) if isinstance(seeds, Iterable) else range(1, index(seeds) + 1)
        if isinstance(seeds, bool) or any(isinstance(seed, bool) for seed in chosen):
            raise TypeError
        found = list(dict.fromkeys(map(index, chosen)))
    except TypeError:
        raise ScenarioError(
            f"seeds = {seeds!r}: expected n for the seeds 1 to n, or a list, such as 3 or [1, 2]"
        ) from None
    if not found or min(found) < 0 or max(found) >= 2**64:
        raise ScenarioError(
            f"seeds = {seeds}: expected at least one seed, none below 0 or beyond 64 bits"
        )
    return found


def check_jobs(jobs: int | None) -> None:
    """Raise `ScenarioError` unless `jobs` is None or a whole number of at least 1."""
    if jobs is not None and not (isinstance(jobs, Integral) and jobs >= 1):
        raise ScenarioError(f"jobs = {jobs!r}: expected 1 or more")
