"""A rule written in Python, for trying an idea in ten lines."""

import atexit
import copyreg
import hashlib
import importlib.util
import inspect
import math
import pickle
import random
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path as File
from shutil import rmtree
from tempfile import mkdtemp
from traceback import FrameSummary, extract_tb
from types import ModuleType
from typing import Any, Protocol

from anabranch import _core
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
        """I_r: packets by which the window of path `r` grows per acknowledged packet.

        `paths` are those that count: without silent siblings, so that places may change.
        """
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


# Whether a rule in Python is one at all: pure, with finite answers of a sensible size.


MOST_INCREASE = 10.0
"""Packets per acknowledged packet beyond which an increase is not meant: slow start has 1."""

MOST_DECREASE = 1000.0
"""Windows beyond which a decrease is not meant; rules whose windows are coupled exceed 1."""


@dataclass(frozen=True)
class State:
    """A path as a rule sees it: the attributes of `Path`, in packets and seconds."""

    window: float
    rtt: float
    base_rtt: float
    since_loss: float = 400.0
    between_losses: float = 500.0
    loss_interval: float = 480.0
    peak: float = 30.0
    prior_peak: float = 28.0
    epoch_window: float = 15.0
    age: float = 2.0
    rounds: float = 40.0

    @property
    def round_rtt(self) -> float:
        """As `rtt`."""
        return self.rtt

    @property
    def queue_delay(self) -> float:
        """The RTT without the base RTT, s."""
        return self.rtt - self.base_rtt

    @property
    def rate(self) -> float:
        """`window / rtt`."""
        return self.window / self.rtt


ORDINARY: Sequence[Sequence[State]] = [
    [State(20.0, 0.05, 0.04)],
    [State(10.0, 0.05, 0.04), State(40.0, 0.2, 0.1)],
    [State(2.0, 0.1, 0.1), State(2.0, 0.1, 0.1)],
    [State(100.0, 0.03, 0.01), State(5.0, 0.3, 0.1), State(50.0, 0.08, 0.05)],
]
"""States of one to three paths."""


def random_states(counts: Sequence[int], each: int) -> list[list[State]]:
    """For each number of paths as many random states, always the same."""
    dice = random.Random(9743)
    return [[_random_path(dice) for _ in range(count)] for count in counts for _ in range(each)]


def _random_path(dice: random.Random) -> State:
    window = math.exp(dice.uniform(0, math.log(1e4)))
    base = math.exp(dice.uniform(math.log(1e-3), 0))
    peak = window * dice.choice([0.0, 1 + dice.random()])
    interval = 0.0 if peak == 0 else math.exp(dice.uniform(1, math.log(1e5)))
    return State(
        window=window,
        rtt=base + base * dice.choice([0.0, dice.random()]),
        base_rtt=base,
        since_loss=interval * dice.random(),
        between_losses=interval,
        loss_interval=interval,
        peak=peak,
        prior_peak=peak,
        epoch_window=peak / 2,
        age=10 * dice.random(),
        rounds=100 * dice.random(),
    )


@dataclass(frozen=True)
class Oddity:
    """An answer that is probably not meant."""

    method: str
    says: str
    state: str


class Raised(Exception):
    """A rule raised the exception that is the cause of this one, for this state."""


def oddities(rule: Rule, states: Sequence[Sequence[State]]) -> Iterator[Oddity]:
    """At most one for each method: an impure answer, or else one of a senseless size.

    Raises `ScenarioError` for an answer that is no finite number, `Raised` where the rule raises.
    """
    asked = [(paths, r) for paths in states for r in range(len(paths))]
    for method in ("increase", "decrease"):
        first = [_answer(rule, method, paths, r) for paths, r in asked]
        # The other way round: memory of the calls before shows.
        again = [_answer(rule, method, paths, r) for paths, r in reversed(asked)][::-1]
        for (paths, r), value, other in zip(asked, first, again, strict=True):
            says = _odd(method, paths[r].window, value, other)
            if says:
                yield Oddity(method, says, _words(paths, r))
                break


def problems(rule: Rule) -> list[str]:
    """The oddities in ordinary states, a line each. Raises as `oddities`."""
    name = _name(rule)
    return [f"{name}.{odd.method} {odd.says} ({odd.state})" for odd in oddities(rule, ORDINARY)]


def _odd(method: str, window: float, value: float, other: float) -> str:
    if value != other:
        return f"is {value:g}, then {other:g} for the same paths: a rule must be pure"
    if method == "increase" and not -max(window, 1.0) <= value <= MOST_INCREASE:
        return f"is {value:g} packets per acknowledged packet: is that meant?"
    if method == "decrease" and not 0 <= value <= MOST_DECREASE * window:
        return f"is {value:g} packets: is that meant?"
    return ""


def _answer(rule: Rule, method: str, paths: Sequence[State], r: int) -> float:
    given: Any = paths
    try:
        value = getattr(rule, method)(r, given)
    except Exception as error:
        raise Raised(_words(paths, r)) from error
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise ScenarioError(
            f"{_name(rule)}.{method} is {value!r} for {_words(paths, r)}: expected a finite number "
            "of packets"
        )
    return float(value)


def _name(rule: Rule) -> str:
    return str(getattr(rule, "name", type(rule).__name__))


def _words(paths: Sequence[State], r: int) -> str:
    """A state, to look at or to try: the numbers that most rules read."""
    each = [f"window={path.window:.4g}, rtt={path.rtt:.4g}" for path in paths]
    return f"path {r} of [{'; '.join(each)}]"


# Rules in files of Python: FILE.py:CLASS, loaded, tried, and sent to other processes.


FILES: dict[str, File] = {}
"""The files that were loaded, by the name of their module."""


def in_file(text: str) -> tuple[File, str] | None:
    """File and class of an algorithm given as FILE.py:CLASS; None for one of the table."""
    return _parted(text, (".py",))


def is_file_of(text: str) -> bool:
    """Whether an algorithm is FILE.py:CLASS or FILE.so:NAME."""
    return in_file(text) is not None or in_library(text) is not None


SHARED = (".so", ".dylib", ".dll")
"""Ends of the names of shared libraries."""


def in_library(text: str) -> tuple[File, str] | None:
    """File and name of a controller given as FILE.so:NAME (anabranch.h); None for others."""
    return _parted(text, SHARED)


def _parted(text: str, ends: tuple[str, ...]) -> tuple[File, str] | None:
    """The parts of FILE:NAME with such an end of FILE. Raises `ScenarioError` for a parameter."""
    for end in ends:
        file, found, rest = text.partition(f"{end}:")
        name, _, parameter = rest.partition(":")
        if parameter:
            key = parameter.partition("=")[0]
            raise ScenarioError(f'{file}{end}: unknown parameter "{key}": {name} takes none')
        if found:
            return File(f"{file}{end}"), name
    return None


def class_of(file: File, name: str) -> type[Any]:
    """The class of that name in a file. Raises `ScenarioError` in one line for what is none."""
    if not file.is_file():
        raise ScenarioError(f"{file}: no such file; expected a RULE such as lia, or FILE.py:CLASS")
    module = _module(file)
    rules = {
        key: value
        for key, value in vars(module).items()
        if inspect.isclass(value) and hasattr(value, "increase") and hasattr(value, "decrease")
    }
    if name not in rules:
        own = [key for key, value in rules.items() if value.__module__ == module.__name__]
        known = f": {expected_one_of(name, own)}" if own else ""
        raise ScenarioError(
            f"{file}: no class {name} with the methods increase and decrease{known}"
        )
    found: type[Any] = rules[name]
    return found


def libraries(rules: Iterable[object]) -> list[str]:
    """The names of those that are controllers of libraries."""
    return [rule.name for rule in rules if isinstance(rule, _core.Library)]


RECEIVED: dict[bytes, File] = {}
"""Libraries that came from other machines, by content."""


def _received(file: str, name: str, content: bytes) -> _core.Library:
    """A controller of a library that another process has sent, whose file may not be here."""
    place = File(file)
    if not (place.is_file() and place.read_bytes() == content):
        if content not in RECEIVED:
            folder = mkdtemp(prefix="anabranch-")
            atexit.register(rmtree, folder, ignore_errors=True)
            RECEIVED[content] = File(folder) / place.name
            RECEIVED[content].write_bytes(content)
        place = RECEIVED[content]
    return _core.Library(place, name)


copyreg.pickle(
    _core.Library,
    lambda it: (_received, (str(it.file), it.name, it.file.read_bytes())),
)


def rule_of(text: str) -> Rule:
    """The object of FILE.py:CLASS, without arguments, or the controller of FILE.so:NAME.

    Raises `ScenarioError` in one line.
    """
    if library := in_library(text):
        return _core.Library(*library)
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
    """A hash of the name and the file of a rule or controller of a file; None for others."""
    if isinstance(rule, _core.Library):
        return hashlib.sha256(rule.name.encode() + b"\n" + rule.file.read_bytes()).hexdigest()
    file = FILES.get(type(rule).__module__)
    if file is None:
        return None
    return hashlib.sha256(f"{type(rule).__qualname__}\n{file.read_text()}".encode()).hexdigest()
