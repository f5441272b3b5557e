"""What a command found, between two markers of a page of the docs."""

import datetime
from collections.abc import Iterable
from pathlib import Path

from anabranch.scenario import ScenarioError

END = "<!-- end -->"


def put(page: Path, command: str, lines: Iterable[str]) -> None:
    """Replace what stands between the lines `<!-- command -->` and `<!-- end -->`.

    `command` is without its options. Raises `ScenarioError` when a marker is missing.
    """
    before, after = around(page, command)
    today = datetime.datetime.now(datetime.UTC).date()
    body = "\n".join([f"`{command}`, {today}.", "", *lines])
    page.write_text(f"{before}{body}\n{after}", encoding="utf-8")


def around(page: Path, command: str) -> tuple[str, str]:
    """What stands before and after, markers included."""
    start = f"<!-- {command} -->\n"
    before, found, rest = page.read_text(encoding="utf-8").partition(start)
    _, end, after = rest.partition(END)
    if not found or not end:
        raise ScenarioError(f"{page}: expected the lines {start.strip()} and {END}")
    return before + start, END + after
