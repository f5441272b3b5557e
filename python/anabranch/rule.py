"""A rule written in Python, for trying an idea in ten lines."""

import importlib.util
import inspect
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path as File
from traceback import extract_tb
from typing import Any, Protocol

from anabranch._core import Path, ScenarioError, expected_one_of


class Rule(Protocol):
    """A congestion-avoidance law over the paths of one flow: windows in packets, times in seconds.

    Any object with these two methods is a rule; a class derived from this one inherits the usual
    `decrease`. A rule must be pure: its answers depend on `r` and `paths` only, because one object
    serves every flow and every seed. Slow start, recovery and timeouts are not part of it.

    >>> import anabranch
    >>> class Third(anabranch.Rule):
    ...     def increase(self, r, paths):
    ...         return 1 / paths[r].window
    ...
    ...     def decrease(self, r, paths):
    ...         return paths[r].window / 3
    >>> short = {"measure.duration_s": 10, "measure.warmup_s": 2}
    >>> anabranch.run("examples/two_links.toml", Third(), seeds=1, set=short).algorithms
    ['Third']
    """

    def increase(self, r: int, paths: Sequence[Path]) -> float:
        """I_r: packets by which the window of path `r` grows per acknowledged packet."""
        ...

    def decrease(self, r: int, paths: Sequence[Path]) -> float:
        """D_r: packets by which the window of path `r` shrinks at a loss event."""
        return paths[r].window / 2


def explained(error: AttributeError) -> Exception:
    """For an attribute that a path does not have: its place, and those that it has."""
    if not isinstance(error.obj, Path):
        return error
    place = extract_tb(error.__traceback__)[-1]
    known = [name for name in dir(Path) if not name.startswith("_")]
    return ScenarioError(
        f"{place.filename}:{place.lineno}: a path has no {error.name}: "
        f"{expected_one_of(str(error.name), known)}"
    )


def in_file(text: str) -> tuple[File, str] | None:
    """File and class of a rule given as FILE.py:CLASS; None for the name of an algorithm."""
    file, colon, name = text.rpartition(":")
    return (File(file), name) if colon and file.endswith(".py") else None


def load_rule(file: File, name: str) -> Any:
    """An object of the class of this name in a file of Python; what the file prints is on stderr.

    Raises `ScenarioError` where there is no such file or class, and where the file raises.
    """
    if not file.is_file():
        raise ScenarioError(f"{file}: no such file; expected a RULE such as lia, or FILE.py:CLASS")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        with redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
            found = getattr(module, name, None)
            if inspect.isclass(found) and _is_rule(found):
                return found()
    except Exception as error:
        raise ScenarioError(f"{raised_in(error, file)}: {type(error).__name__}: {error}") from error
    own = [key for key, value in vars(module).items() if _is_rule(value)]
    known = f": {expected_one_of(name, own)}" if own else ""
    raise ScenarioError(f"{file}: no class {name} with the methods increase and decrease{known}")


def raised_in(error: BaseException, file: File) -> str:
    """File and line of the last place in this file where the error was raised."""
    own = [p.lineno for p in extract_tb(error.__traceback__) if File(p.filename) == file]
    return f"{file}:{own[-1]}" if own else str(file)


def _is_rule(found: object) -> bool:
    return inspect.isclass(found) and hasattr(found, "increase") and hasattr(found, "decrease")
