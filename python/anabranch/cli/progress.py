"""How far a command is: a bar on a terminal, lines elsewhere; always on stderr."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskProgressColumn, TextColumn
from rich.text import Text

from anabranch.cli.notes import shows_progress

EVERY_S = 30.0
"""Where stderr is no terminal: the longest time between two lines, s."""

QUIET_S = 2.0
"""The time without a line, s: a short command prints none."""

STEP = 0.1
"""The fraction done between two lines."""

TRUSTED = 0.02
"""The least fraction done from which the time left is estimated."""


@contextmanager
def progress(label: str) -> Iterator[Callable[[float], None]]:
    """Show the fraction done, 0 to 1, that the block reports; `label` names the command.

    Nothing with --quiet.
    """
    if not shows_progress():
        yield lambda _: None
        return
    shown = _bar(label) if sys.stderr.isatty() else _lines(label)
    with shown as report:
        yield report


def time_left(elapsed_s: float, fraction: float) -> str:
    """An estimate from the average speed so far; empty as long as too little is done.

    >>> time_left(30, 0.25), time_left(200, 0.5), time_left(5, 0.01)
    ('about 1 min 30 s left', 'about 3 min left', '')
    """
    if fraction < TRUSTED:
        return ""
    return f"about {_rounded(elapsed_s * (1 - fraction) / fraction)} left"


def _rounded(seconds: float) -> str:
    """To 1 s below 10 s, to 10 s below 2 min, to minutes above: the estimate is no better."""
    if seconds < 10:
        return f"{seconds:.0f} s"
    tens = round(seconds, -1)
    if tens < 60:
        return f"{tens:.0f} s"
    if tens < 120:
        return f"1 min {tens - 60:.0f} s" if tens > 60 else "1 min"
    return f"{seconds / 60:.0f} min"


class _TimeLeft(ProgressColumn):
    def render(self, task: Task) -> Text:
        elapsed = task.elapsed or 0.0
        return Text(time_left(elapsed, task.completed) or f"{elapsed:.0f} s elapsed", "cyan")


@contextmanager
def _bar(label: str) -> Iterator[Callable[[float], None]]:
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), _TimeLeft())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)  # unknown until the first report
        yield lambda fraction: bar.update(task, total=1.0, completed=fraction)


@contextmanager
def _lines(label: str) -> Iterator[Callable[[float], None]]:
    """A line per step, and one where a step takes long; none in the first `QUIET_S`."""
    start = time.monotonic()
    done, printed = -1.0, 0.0  # unknown until the first report
    news, finished = threading.Event(), threading.Event()

    def report(fraction: float) -> None:
        nonlocal done
        done = fraction
        if printed + STEP <= fraction < 1:
            news.set()

    def print_lines() -> None:
        nonlocal printed
        finished.wait(QUIET_S)
        while not finished.is_set():
            news.wait(EVERY_S)
            news.clear()
            if finished.is_set():
                return
            if done >= 1:
                continue
            elapsed = time.monotonic() - start
            percent = f"{100 * done:.0f} %" if done >= 0 else ""
            words = [percent, f"{elapsed:.0f} s elapsed", time_left(elapsed, done)]
            printed = max(done, 0.0)
            print(
                f"anabranch {label}:", ", ".join(filter(None, words)), file=sys.stderr, flush=True
            )

    # A thread of its own, because a computation may be silent for longer than that.
    printer = threading.Thread(target=print_lines, daemon=True)
    printer.start()
    try:
        yield report
    finally:
        finished.set()
        news.set()
        printer.join()
