"""Rules in files of Python: FILE.py:CLASS, loaded, tried, and sent to other processes."""

import hashlib
import importlib.util
import inspect
import pickle
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path as File
from traceback import FrameSummary, extract_tb
from types import ModuleType
from typing import Any

from anabranch import _core
from anabranch._core import ScenarioError, expected_one_of
from anabranch.rule import Rule
from anabranch.rule.check import ORDINARY, Oddity, Raised, State, oddities

FILES: dict[str, File] = {}
"""The files that were loaded, by the name of their module."""


def in_file(text: str) -> tuple[File, str] | None:
    """File and class of an algorithm given as FILE.py:CLASS; None for one of the table."""
    file, _, name = text.rpartition(":")
    return (File(file), name) if file.endswith(".py") else None


def is_file_of(text: str) -> bool:
    """Whether an algorithm is FILE.py:CLASS."""
    return in_file(text) is not None


def class_of(file: File, name: str) -> type[Any]:
    """The class of that name in a file. Raises `ScenarioError` in one line for what is none."""
    if not file.is_file():
        raise ScenarioError(f"{file}: no such file; expected a RULE such as lia, or FILE.py:CLASS")
    module = _module(file)
    rules = {key: value for key, value in vars(module).items() if _is_rule(value)}
    if name not in rules:
        own = [key for key, value in rules.items() if value.__module__ == module.__name__]
        known = f": {expected_one_of(name, own)}" if own else ""
        raise ScenarioError(
            f"{file}: no class {name} with the methods increase and decrease{known}"
        )
    found: type[Any] = rules[name]
    return found


def _is_rule(found: object) -> bool:
    return inspect.isclass(found) and hasattr(found, "increase") and hasattr(found, "decrease")


def rule_of(text: str) -> Rule:
    """The object of FILE.py:CLASS, without arguments. Raises `ScenarioError` in one line."""
    file, _, name = text.rpartition(":")
    rule = made(File(file), name)
    checked(rule, File(file), ORDINARY)
    return rule


def made(file: File, name: str) -> Rule:
    """An object of the class of that name, without arguments. Raises `ScenarioError`."""
    of = class_of(file, name)
    try:
        rule: Rule = of()
    except Exception as error:
        raise ScenarioError(f"{file}: {name}: {in_one_line(error, file)}") from None
    return rule


def checked(rule: Rule, file: File, states: Sequence[Sequence[State]]) -> list[Oddity]:
    """Oddities of a rule of a file. Raises `ScenarioError` where it does not answer."""
    try:
        return list(oddities(rule, states))
    except ScenarioError as error:
        raise ScenarioError(f"{file}: {error}") from None
    except Raised as error:
        cause = error.__cause__
        assert isinstance(cause, Exception)
        raise ScenarioError(f"{file}: {in_one_line(cause, file)} (for {error})") from None


def in_one_line(error: Exception, file: File) -> str:
    """An error of a rule with its line in the file."""
    places = [one.lineno for one in _frames(error) if File(one.filename) == file.resolve()]
    if isinstance(error, SyntaxError):
        places = [error.lineno]
    where = f"line {places[-1]}: " if places else ""
    if isinstance(error, AttributeError) and isinstance(error.obj, State | _core.Path):
        known = [name for name in dir(_core.Path) if not name.startswith("_")]
        return f"{where}a path has no {error.name}: {expected_one_of(str(error.name), known)}"
    return f"{where}{type(error).__name__}: {error}"


def blamed(error: Exception) -> str | None:
    """The file, line and words of an error that a loaded rule has raised; None for others."""
    files = {str(file.resolve()): file for file in FILES.values()}
    places = [files[one.filename] for one in _frames(error) if one.filename in files]
    if places:
        return f"{places[-1]}: {in_one_line(error, places[-1])}"
    answer = re.match(r"\w+\.(increase|decrease) returned ", str(error))
    return str(error) if files and answer else None


def _frames(error: Exception) -> Iterator[FrameSummary]:
    for frame in extract_tb(error.__traceback__):
        frame.filename = str(File(frame.filename).resolve())
        yield frame


def _module(file: File) -> ModuleType:
    """The file as a module, which other processes of this machine can import, too."""
    path = file.resolve()
    name = path.stem
    if FILES.get(name) != path and (
        name in sys.modules or name in FILES or not name.isidentifier()
    ):
        name = f"rule_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # for what the file imports beside it
    sys.modules[name] = module
    try:
        # Compiled here: cached bytecode is of an older text if both are of one second and size.
        code = compile(file.read_bytes(), str(file), "exec")
        with redirect_stdout(sys.stderr):
            exec(code, vars(module))
    except Exception as error:
        del sys.modules[name]
        raise ScenarioError(f"{file}: {in_one_line(error, file)}") from None
    FILES[name] = file
    return module


# ------------------------------------------------------------------ other processes


def packed(rule: Rule | None) -> bytes:
    """A rule as bytes that also a machine without its file can read.

    With cloudpickle, which Dask brings, its module is sent along; else other processes import it.
    """
    module = inspect.getmodule(type(rule))
    try:
        import cloudpickle
    except ImportError:
        return pickle.dumps(rule)
    if rule is None or module is None or module.__name__.split(".")[0] in ("anabranch", "__main__"):
        return bytes(cloudpickle.dumps(rule))
    cloudpickle.register_pickle_by_value(module)
    try:
        return bytes(cloudpickle.dumps(rule))
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def source_hash(rule: Rule | None) -> str | None:
    """A hash of the class and the text of the file of a rule that was loaded; None for others."""
    file = FILES.get(type(rule).__module__)
    if file is None:
        return None
    return hashlib.sha256(f"{type(rule).__qualname__}\n{file.read_text()}".encode()).hexdigest()
