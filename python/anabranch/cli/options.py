"""Arguments and options that several commands share."""

import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from anabranch.cli.examples import check_example
from anabranch.cli.notes import warn
from anabranch.rule import Rule, in_library, is_file_of, problems, rule_of
from anabranch.scenario import Scenario, ScenarioError, Toml, load, named

File = Annotated[Path, typer.Argument(metavar="FILE", help="A scenario file (TOML); - for stdin.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Replace a value of the scenario, such as links.left.rate_mbps=30. Repeatable.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Jobs = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="Runs at a time. Default: one per core; on the kernel, one."
    ),
]


MOST_SEEDS = 10_000


def seeds_option(help: str = "") -> Any:
    """The option --seeds: N for the seeds 1 to N, or the seeds themselves."""
    words = "Run with the seeds 1 to N, or with a list of seeds such as 3,7."
    return typer.Option("--seeds", metavar="N|A,B,...", parser=_seeds, help=f"{words}{help}")


def _seeds(text: Any) -> int | list[int]:
    given = str(text)
    parts = given.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise typer.BadParameter(
            f"expected N for the seeds 1 to N, or a list as in 3,7; got {given!r}"
        )
    found = [int(part) for part in parts]
    if len(found) == 1 and not 1 <= found[0] <= MOST_SEEDS:
        raise typer.BadParameter(f"expected 1 to {MOST_SEEDS} seeds, got {given}")
    return found if len(found) > 1 else found[0]


def looks_option() -> Any:
    """The option --seeds of suites: also A-B, at which the suite's looks are taken."""
    words = "Seeds 1 to N, or these, at one look; A-B: these, at the suite's looks."
    return typer.Option("--seeds", metavar="N|A,B,...|A-B", parser=_looks, help=words)


def _looks(text: Any) -> Any:
    first, dash, last = str(text).partition("-")
    if not dash:
        return _seeds(text)
    if not (first.isdecimal() and last.isdecimal() and 0 <= int(last) - int(first) < MOST_SEEDS):
        raise typer.BadParameter(f"expected A-B, as in 33-64; got {str(text)!r}")
    return range(int(first), int(last) + 1)


def names(text: str, option: str = "--algorithm") -> list[str]:
    """The names of a list such as lia,olia, each once. Raises `ScenarioError` for an empty one."""
    given = [name.strip() for name in text.split(",")]
    if "" in given:
        raise ScenarioError(f"empty name in {option} {text!r}: expected names as in lia,olia")
    repeated = [name for name in dict.fromkeys(given) if given.count(name) > 1]
    if repeated:
        warn(f"{option} {text}: {', '.join(repeated)} is given more than once: it runs once")
    return list(dict.fromkeys(given))


def algorithms(text: str, option: str = "--algorithm") -> list[str | Rule]:
    """As `names`, with FILE.py:CLASS and FILE.so:NAME as an object.

    A warning where a class is hardly a rule.
    """
    found: list[str | Rule] = []
    for name in names(text, option):
        if not is_file_of(name):
            found.append(name)
            continue
        rule = rule_of(name)
        for problem in [] if in_library(name) else problems(rule):
            warn(problem)
        found.append(rule)
    return found


def only_names(text: str, option: str = "--algorithm") -> list[str]:
    """As `names`, where a rule in Python has no answer. Raises `ScenarioError`."""
    for name in filter(is_file_of, found := names(text, option)):
        if in_library(name):
            raise ScenarioError(
                f"{option} {name}: theory needs equations, and a controller of a library has none: "
                "run, compare, sweep and judge run it"
            )
        raise ScenarioError(
            f"{option} {name}: theory needs the derivatives of a rule of the table; for one in "
            f"Python: anabranch theory prove {name}, or run, compare, sweep and harm"
        )
    return found


def out_option(help: str, name: str = "--out") -> Any:
    """The option --out, or another that names a directory to write to."""
    return typer.Option(name, metavar="DIR", parser=_directory, help=help)


def _directory(text: str) -> Path:
    if not text:
        raise typer.BadParameter("expected a directory, got an empty name")
    return Path(text)


def _file(text: str) -> Path:
    folder = Path(text).absolute().parent
    if not text or Path(text).is_dir() or not folder.is_dir():
        raise typer.BadParameter(f"expected a file to write in a folder that exists, got {text!r}")
    return Path(text)


Record = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.csv",
        parser=_file,
        help="Write a row per number or verdict as CSV; keep those of other rules and papers.",
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Write to a directory that has files; replace those.")
]
Store = Annotated[
    Path | None,
    out_option("Keep each run here; the same command resumes. Suites may share it.", "--store"),
]
Probing = Annotated[
    bool, typer.Option("--probing", help="Every path carries at least one packet per RTT.")
]
RttMs = Annotated[
    float | None,
    typer.Option(
        "--rtt-ms", min=0.001, metavar="MS", help="The RTT of every path. Default: its base RTT."
    ),
]


@dataclass(frozen=True)
class Pictures:
    """How figures are written."""

    formats: tuple[str, ...] = ("svg", "png")
    width_cm: float | None = None
    """None: the width that suits the figure."""


FORMATS = ("pdf", "svg", "png", "latex")
WIDTHS = {"column": 8.8, "page": 18.1}
"""Widths in a page of two columns, as ACM and IEEE have, cm."""


def _formats(text: str) -> tuple[str, ...]:
    given = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if unknown := [name for name in given if name not in FORMATS]:
        raise typer.BadParameter(f"expected some of {', '.join(FORMATS)}, got {unknown[0]!r}")
    return given


def _width_cm(text: str) -> float:
    try:
        found = WIDTHS.get(text) or float(text)
    except ValueError:
        found = 0.0
    if not 4 <= found <= 100:
        raise typer.BadParameter(f"expected column, page, or 4 to 100 cm, got {text!r}")
    return found


Formats = Annotated[
    Any,
    typer.Option(
        "--format",
        metavar="A,B,...",
        parser=_formats,
        help="Formats of the figures: pdf, svg, png; latex writes the summaries as tables. "
        "Default: svg,png.",
    ),
]
Width = Annotated[
    Any,
    typer.Option(
        metavar="column|page|CM",
        parser=_width_cm,
        help="Width of the figures: column is 8.8 cm, page 18.1 cm, or so many cm.",
    ),
]


def pictures(formats: Any, width: Any, needs: Path | None) -> Pictures:
    """How figures are written. Raises `ScenarioError` where there is no directory for them."""
    if needs is None and (formats or width):
        raise ScenarioError(f"{'--format' if formats else '--width'} needs --out DIR")
    return Pictures(formats or Pictures.formats, width)


ANY = "reno"
"""The algorithm of a scenario that has none, where the answer does not depend on it."""
STDIN = "<stdin>"
"""Name of a scenario from stdin in errors."""


def scenario_of(
    file: Path | str, settings: list[str] | None, algorithm: str | None = None
) -> Scenario:
    """Read a scenario file, or stdin for `-`; where it has no algorithm, it gets this one."""
    values = overrides(settings)
    if str(file) == "-":
        return named(Scenario.parse(_stdin(), STDIN, list(values.items()), algorithm=algorithm))
    check_example(Path(file))
    return load(file, values, algorithm)


@cache
def _stdin() -> str:
    """All of stdin, which can be read once."""
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        found = error.object[error.start]
        raise ScenarioError(f"{STDIN}: expected UTF-8, got byte 0x{found:02x}") from None


def overrides(settings: list[str] | None) -> dict[str, Toml]:
    """Dotted keys to TOML text. Raises `ScenarioError` for what is not KEY=VALUE."""
    values = {}
    for setting in settings or []:
        key, equals, text = setting.partition("=")
        if not equals or not key:
            raise ScenarioError(
                f"--set {setting}: expected KEY=VALUE, as in links.left.rate_mbps=30"
            )
        values[key] = Toml(text)
    return values
