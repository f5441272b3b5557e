"""Where the entries of a sweep are kept: a directory that several processes may share, or memory.

An entry is written to a temporary file beside its place and renamed, so its name never belongs to
half a file, whenever the process is killed. There is no fsync: after a power failure an entry may
be incomplete, which its checksums show, and its point runs again.
"""

import fcntl
import hashlib
import io
import json
import os
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from anabranch.scenario import ScenarioError

DEFINITION = "sweep.json"
OTHERS = "definitions"
"""The folder of the definitions of suites (`anabranch study`, `judge`), of which one store may have
several."""
SUFFIX = ".zip"
LEFTOVER = ".new-"
"""Prefix of temporary files, of which one remains where a process was killed."""

_WHOLE = 1 << 62
"""The byte of the lock file that every process holds which works on the store."""


class Memory:
    """Entries in the memory of this process."""

    def __init__(self) -> None:
        self._entries: dict[str, bytes] = {}

    def read(self, key: str) -> bytes | None:
        """The bytes of an entry, if there is one."""
        return self._entries.get(key)

    def write(self, key: str, data: bytes) -> None:
        """Add an entry, or replace it."""
        self._entries[key] = data

    def claim(self, key: str) -> bool:
        """Whether this process may run the point."""
        return True

    def release(self, key: str) -> None:
        """End a claim."""

    def close(self) -> None:
        """End the use of the store."""


class Nowhere(Memory):
    """Entries that are used as they come, and not kept."""

    def write(self, key: str, data: bytes) -> None:
        """Forget it."""


class Directory:
    """A store on disk: `points/<first two digits>/<key>.zip`, and sweep.json, the definition.

    Claims are locks on single bytes of the file `claims`. The kernel ends them with the process,
    however it ends, so none can be left behind. Where the file system has no locks, several
    processes may run the same point; the entries are the same.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open a store, or make one. Raises `ScenarioError` for a directory of something else."""
        self.path = Path(path)
        if not os.fspath(path):
            raise ScenarioError("the store needs the name of a directory, got an empty name")
        if self.path.exists() and not self.path.is_dir():
            raise ScenarioError(f"{path} is a file: the store needs a directory")
        if self.path.is_dir() and not self._is_ours() and any(self.path.iterdir()):
            raise ScenarioError(
                f"{path} has files, but no {DEFINITION}: choose a new directory for the sweep"
            )
        try:
            self.entries.mkdir(parents=True, exist_ok=True)
            self._claims = os.open(self.path / "claims", os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise ScenarioError(
                f"{path}: the store cannot be written ({os.strerror(error.errno or 0)}): choose "
                "another directory"
            ) from None
        if not self._lock(fcntl.LOCK_SH | fcntl.LOCK_NB, _WHOLE):
            self.close()
            raise ScenarioError(f"{path}: `anabranch sweep gc` is running: try again")

    @classmethod
    def existing(cls, path: str | os.PathLike[str]) -> "Directory":
        """Open a store. Raises `ScenarioError` where there is none."""
        if not (Path(path) / DEFINITION).is_file() and not (Path(path) / OTHERS).is_dir():
            raise ScenarioError(f"{path}: expected the store of a sweep, with {DEFINITION}")
        return cls(path)

    @property
    def entries(self) -> Path:
        """The directory of the entries."""
        return self.path / "points"

    def place(self, key: str) -> Path:
        """The file of an entry."""
        return self.entries / key[:2] / f"{key}{SUFFIX}"

    def read(self, key: str) -> bytes | None:
        """The bytes of an entry, if there is one."""
        try:
            return self.place(key).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, key: str, data: bytes) -> None:
        """Add an entry, or replace it: all of it or nothing."""
        self._replace(self.place(key), data)

    def definition(self) -> dict[str, Any] | None:
        """Definition of the sweep; None where there is none. Raises `ScenarioError`."""
        file = self.path / DEFINITION
        return _definition(file) if file.exists() else None

    def definitions(self) -> list[dict[str, Any]]:
        """The definitions of the sweep and of all suites. Raises `ScenarioError`."""
        files = [self.path / DEFINITION, *sorted((self.path / OTHERS).glob("*.json"))]
        return [_definition(file) for file in files if file.exists()]

    def define(self, definition: dict[str, Any], name: str = "") -> None:
        """Replace the definition of the sweep, or that of the suite of this name."""
        place = self.path / OTHERS / f"{name}.json" if name else self.path / DEFINITION
        self._replace(place, json.dumps(definition, indent=1).encode())

    def claim(self, key: str) -> bool:
        """Whether this process may run the point: no other one runs it now."""
        return self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB, _byte(key))

    def release(self, key: str) -> None:
        """End a claim."""
        self._lock(fcntl.LOCK_UN, _byte(key))

    def alone(self) -> bool:
        """Whether no other process works on the store, and none will until `close`."""
        return self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB, _WHOLE)

    def stored(self) -> Iterator[str]:
        """The key of every entry."""
        for file in sorted(self.entries.glob(f"*/*{SUFFIX}")):
            if not file.name.startswith(LEFTOVER):
                yield file.name.removesuffix(SUFFIX)

    def leftovers(self) -> list[Path]:
        """The temporary files, of processes that write now or were killed while they wrote."""
        staged = [p for p in self.path.glob(".anabranch-*") if p.is_dir()]  # files.staged
        return sorted([*self.path.rglob(f"{LEFTOVER}*"), *staged])

    def close(self) -> None:
        """End all claims."""
        os.close(self._claims)

    def _is_ours(self) -> bool:
        """Also where the process was killed before it wrote the definition."""
        return any((self.path / name).exists() for name in (DEFINITION, OTHERS, "claims"))

    def _lock(self, kind: int, byte: int) -> bool:
        try:
            fcntl.lockf(self._claims, kind, 1, byte)
        except (BlockingIOError, PermissionError):
            return False
        except OSError:  # ENOLCK: the file system has no locks
            return True
        return True

    def _replace(self, place: Path, data: bytes) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=LEFTOVER, dir=place.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, place)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


Store = Memory | Directory


def _definition(file: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ScenarioError(f"{file}: expected JSON: {error}; delete it to go on") from None
    return found


def _byte(key: str) -> int:
    """A byte of the lock file for a key, below `_WHOLE`."""
    return int(key[:15], 16)


def _umask() -> int:
    """The process's umask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


# The file of one point: a ZIP archive of Arrow tables, and about.json.
#
# The archive is not compressed. Its comment is the SHA-256 of all bytes before it, so a file that
# was cut off or changed is detected when it is read.


ABOUT = "about.json"
DIGITS = 64
"""Length of the checksum in hexadecimal digits."""


class Damaged(Exception):
    """The file is not what was written."""


@dataclass(frozen=True)
class Entry:
    """Stored result of one point."""

    about: Mapping[str, Any]
    """`key`, `anabranch` (version), `values`, `algorithm`, `seed`; `failure` where it failed."""
    tables: Mapping[str, pa.Table]
    """Empty where the point failed."""

    @property
    def failure(self) -> str | None:
        """Why the point has no tables."""
        return self.about.get("failure")


def encode(about: Mapping[str, Any], tables: Mapping[str, Mapping[str, Any]]) -> bytes:
    """The bytes of an entry; the same for the same content."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        _add(archive, ABOUT, json.dumps(about).encode())
        for name, columns in tables.items():
            table = pa.table({column: _array(values) for column, values in columns.items()})
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as stream:
                stream.write_table(table)
            _add(archive, f"{name}.arrow", sink.getvalue().to_pybytes())
        archive.comment = bytes(DIGITS)
    content = buffer.getvalue()[:-DIGITS]
    return content + _checksum(content)


def about(data: bytes, key: str) -> dict[str, Any]:
    """The description in an entry, after its checksum was verified. Raises `Damaged`."""
    content, checksum = data[:-DIGITS], data[-DIGITS:]
    if _checksum(content) != checksum:
        raise Damaged("its checksum is wrong")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        found: dict[str, Any] = json.loads(archive.read(ABOUT))
    if found["key"] != key:
        raise Damaged("it is the entry of another point")
    return found


def decode(data: bytes, key: str) -> Entry:
    """The entry of these bytes. Raises `Damaged`."""
    found = about(data, key)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        tables = {
            name.removesuffix(".arrow"): pa.ipc.open_stream(archive.read(name)).read_all()
            for name in archive.namelist()
            if name != ABOUT
        }
    return Entry(found, tables)


def _checksum(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name), data)  # dated 1980, so that equal content is equal


def _array(values: Any) -> pa.Array:
    """A column; a list without entries is one of names."""
    names = isinstance(values, list) and not values
    return pa.array(values, pa.string() if names else None)
