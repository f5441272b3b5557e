"""Saving from the page: the directory that `anabranch run --out` would write, as a ZIP file."""

import io
import tempfile
import threading
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

from anabranch._core import Cancelled
from anabranch.extras.ui.asked import Asked
from anabranch.runner import run


def archive(asked: Asked, stop: threading.Event) -> bytes:
    """Run once more, which gives the same bits, and pack tables, scenario, manifest and figures.

    Raises `Cancelled` soon after `stop` is set, and as `run` does.
    """
    from anabranch.figures import result as figures  # slow to load

    def watch(_: float) -> None:
        if stop.is_set():
            raise Cancelled("the run was cancelled")

    rules = None if asked.rules == [None] else [rule or "" for rule in asked.rules]
    result = run(asked.scenario, rules, [asked.seed], on=asked.on, jobs=1, progress=watch)
    content = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        result.write(Path(folder))
        figures.write(result, Path(folder))
        with ZipFile(content, "w", ZIP_DEFLATED) as packed:
            for file in sorted(Path(folder).iterdir()):
                packed.write(file, f"anabranch/{file.name}")
    return content.getvalue()
