"""Output files that appear together and whole, or not at all."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def staged(directory: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary directory to write in; on success its files are renamed into `directory`.

    It lies on the same file system, so each rename is atomic. When the block raises, nothing is
    left behind. Raises OSError at once when `directory` is a file or can't be written.
    """
    target = Path(directory)
    nearest = next(p for p in [target, *target.absolute().parents] if p.exists())
    stage = Path(tempfile.mkdtemp(prefix=".anabranch-", dir=nearest))
    try:
        yield stage
        for file in sorted(p for p in stage.rglob("*") if p.is_file()):
            place = target / file.relative_to(stage)
            place.parent.mkdir(parents=True, exist_ok=True)
            os.replace(file, place)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
