"""Notes of commands on stderr, beside errors, and their selection: `--quiet` and `--verbose`."""

import logging
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Annotated, Any, TypeVar

import typer
from rich.markup import escape
from typer.core import TyperCommand

from anabranch.formats import printable

QUIET, USUAL, VERBOSE = range(3)
_level = USUAL
_resume = ""

_ended: list[signal.Signals] = []
_said: set[str] = set()

Body = TypeVar("Body", bound=Callable[..., Any])


def say(text: str) -> None:
    """Print lines on stderr, whatever the level; what a terminal would obey is escaped."""
    print("\n".join(map(printable, text.split("\n"))), file=sys.stderr)


def note(text: str) -> None:
    """Print where files are, and the like; not with --quiet."""
    if _level > QUIET:
        say(text)


def warn(text: str) -> None:
    """Print a warning; not with --quiet."""
    note(f"anabranch: warning: {text}")


def detail(text: str) -> None:
    """Print what only --verbose shows."""
    if _level >= VERBOSE:
        say(text)


def take_over() -> None:
    """Let a process of this command end by signals as by Ctrl-C, and libraries warn as it does.

    Without it SIGTERM and SIGHUP end the process at once, and temporary files stay.
    """
    _ended.clear()
    _said.clear()
    # A signal that is ignored, as SIGHUP by nohup, stays so; a program around this one keeps its.
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _end)
    warnings.showwarning = _warned
    logging.lastResort = _Details()


def ended_by() -> signal.Signals | None:
    """The signal that has ended the command; None if it was Ctrl-C."""
    return _ended[0] if _ended else None


def _end(number: int, _frame: FrameType | None) -> None:
    _ended.append(signal.Signals(number))
    raise KeyboardInterrupt


def _warned(message: Warning | str, *_: object, **__: object) -> None:
    text = " ".join(str(message).split())
    if text not in _said:
        _said.add(text)
        warn(text)


class _Details(logging.Handler):
    """Details that libraries log where nobody has asked for them."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record."""
        detail(f"{record.name}: {record.getMessage()}")


def can_resume(hint: str) -> None:
    """Say how to go on if the command is interrupted from now on."""
    global _resume
    _resume = hint


def resume_hint() -> str:
    """Words that follow "interrupted"."""
    return f": {_resume}" if _resume else ""


def shows_progress() -> bool:
    """Whether progress may be printed."""
    return _level > QUIET


class Command(TyperCommand):
    """A command with the options --quiet and --verbose."""

    def __init__(self, *args: Any, params: Sequence[Any] | None = None, **named: Any) -> None:
        super().__init__(*args, params=[*(params or ()), *_options()], **named)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help as it stands: `anabranch[prove]` has brackets, not Rich's markup."""
        parts: list[Any] = [part for part in (self, *self.params) if hasattr(part, "help")]
        written = [part.help for part in parts]
        try:
            for part, text in zip(parts, written, strict=True):
                part.help = text and escape(text)
            super().format_help(ctx, formatter)
        finally:
            for part, text in zip(parts, written, strict=True):
                part.help = text

    def invoke(self, context: Any) -> Any:
        """Run it at the chosen level, and print how long it took with --verbose."""
        global _level
        quiet, verbose = (context.params.pop(name) for name in ("quiet", "verbose"))
        _level = QUIET if quiet else VERBOSE if verbose else USUAL
        began = time.monotonic()
        try:
            return super().invoke(context)
        finally:
            detail(f"{context.command_path}: {time.monotonic() - began:.1f} s")
            _level = USUAL


class App(typer.Typer):
    """A group of commands with --quiet and --verbose."""

    def command(self, name: str | None = None, **options: Any) -> Callable[[Body], Body]:
        """As of Typer."""
        return super().command(name, **{"cls": Command, **options})


def _options() -> list[Any]:
    """The two options as Typer makes them for a function."""
    app = typer.Typer(add_completion=False)
    app.command()(_shared)
    return list(typer.main.get_command(app).params)


def _shared(
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="Only errors on stderr: no progress, notes, warnings."),
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="More on stderr, such as the time taken.")
    ] = False,
) -> None:
    pass
