"""Output files that appear all together or not at all."""

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch._core import ScenarioError
from anabranch.formats import short

if TYPE_CHECKING:
    import pandas as pd

MANIFEST = "manifest.json"
"""Describes the other files of a result directory."""

LONGEST_NAME = 255
"""Bytes of the name of a file or directory, on all usual file systems."""

REMEDIES = {
    errno.ENOSPC: "free some space, or write to another disk",
    errno.EDQUOT: "free some space, or write to another disk",
    errno.ENOENT: "",
    errno.EACCES: "choose another place, or change its permissions",
    errno.EROFS: "choose another place",
    errno.ENAMETOOLONG: f"a name has at most {LONGEST_NAME} bytes",
}
"""Remedies for errors of the system."""


def in_words(error: OSError) -> str:
    """An error of the system in a line: place, cause, remedy.

    Where it names no file it is about stdout, the only one that is written to without a name.
    """
    if error.errno is None or error.strerror is None:
        return str(error)
    place = short(os.fsdecode(error.filename), 120) if error.filename else "stdout"
    if not error.filename and error.errno not in (errno.ENOSPC, errno.EIO, errno.EDQUOT):
        return error.strerror
    said = "file not found" if error.errno == errno.ENOENT else error.strerror
    usual = error.strerror == os.strerror(error.errno)  # else it has words of its own
    remedy = REMEDIES.get(error.errno, "") if usual else ""
    return f"{place}: {said}: {remedy}" if remedy else f"{place}: {said}"


def read_table(file: Path) -> "pd.DataFrame":
    """A table of Parquet. Raises FileNotFoundError, and `ScenarioError` for one that is damaged."""
    import pandas as pd  # slow to load

    try:
        return pd.read_parquet(file)
    except (FileNotFoundError, PermissionError, MemoryError):
        raise
    except Exception as error:  # of many types: whatever the damage leads to
        raise ScenarioError(f"{file}: the table is damaged, or no Parquet: run again") from error


@contextmanager
def output(
    directory: str | os.PathLike[str] | None, force: bool = False, needed: int = 0
) -> Iterator[Path | None]:
    """`staged` for a directory that a user named; without one there is nothing to write to.

    Raises FileExistsError at once where the directory is not empty, unless `force`.
    """
    if directory is None:
        yield None
        return
    if not force:
        refuse_full(directory)
    with staged(directory, needed) as stage:
        yield stage


def refuse_full(directory: str | os.PathLike[str]) -> None:
    """Raise FileExistsError where a directory is not empty."""
    if Path(directory).is_dir() and any(Path(directory).iterdir()):
        raise FileExistsError(
            f"{directory}: the directory is not empty; choose another one, or replace files in it "
            "with --force (force=True in Python)"
        )


@contextmanager
def staged(directory: str | os.PathLike[str], needed: int = 0) -> Iterator[Path]:
    """A temporary directory to write in; on success it is renamed to `directory`.

    If `directory` exists now, files are renamed into it one by one, and those of other names are
    kept. A manifest describes them all: the old one is removed first, the new one comes last. The
    temporary directory is on the same file system, so each rename is atomic. If the block raises,
    it is removed. Raises OSError at once when `directory` is a file, cannot be written or has less
    than 1 MB or `needed` bytes left; also if the disk becomes full later, or the directory appears
    with files.
    """
    target = Path(directory)
    if any(len(os.fsencode(part)) > LONGEST_NAME for part in target.parts):
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), str(target))
    nearest = next(p for p in [target, *target.absolute().parents] if os.path.lexists(p))
    if nearest.is_symlink() and not nearest.exists():
        raise NotADirectoryError(f"{nearest}: expected a directory to write to, got a broken link")
    if not nearest.is_dir():
        raise NotADirectoryError(f"{nearest}: expected a directory to write to, got a file")
    temporary = nearest / f".anabranch-{secrets.token_hex(8)}"
    stage = temporary / "stage"  # with the usual permissions, which a temporary directory has not
    try:  # before it exists: a signal between the two would leave it
        _make(temporary, target)
        if needed > (free := shutil.disk_usage(nearest).free):
            text = f"about {size(needed)} are needed and {size(free)} are free"
            raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}: {text}", str(target))
        stage.mkdir()
        (stage / "space").write_bytes(bytes(1_000_000))
        (stage / "space").unlink()
        yield stage
        if nearest != target:
            target.parent.mkdir(parents=True, exist_ok=True)
            stage.rename(target)
            return
        (target / MANIFEST).unlink(missing_ok=True)
        files = sorted(p for p in stage.rglob("*") if p.is_file())
        for file in sorted(files, key=lambda file: file.name == MANIFEST):
            place = target / file.relative_to(stage)
            place.parent.mkdir(parents=True, exist_ok=True)
            os.replace(file, place)
    except OSError as error:
        if error.errno != errno.ENOSPC or error.filename == str(target):
            raise
        # In the same words whichever library was writing.
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target)) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _make(temporary: Path, target: Path) -> None:
    """Make the temporary directory. Raises OSError in the words of the user, who named `target`."""
    try:
        temporary.mkdir(0o700)
    except OSError as error:
        number = errno.EACCES if error.errno == errno.ENOENT else error.errno  # as in /proc
        why = os.strerror(number or 0)
        text = f"{temporary.parent} cannot be written ({why}): choose another directory"
        raise OSError(number, text, str(target)) from None


def size(count: int) -> str:
    """Bytes as text.

    >>> size(512), size(2_500_000)
    ('512 B', '2.5 MB')
    """
    for unit, factor in ("GB", 1e9), ("MB", 1e6), ("kB", 1e3):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} B"
