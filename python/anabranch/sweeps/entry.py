"""The file of one point: a ZIP archive of Arrow tables, and about.json.

The archive is not compressed. Its directory is at its end and has a checksum of each member, so a
file that was cut off or changed is detected when it is read.
"""

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

ABOUT = "about.json"

_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    pa.ArrowException,
    KeyError,
    ValueError,
    EOFError,
    OSError,
    RuntimeError,  # NotImplementedError and "encrypted", from flags that changed
)


class Damaged(Exception):
    """The file is not what was written."""


@dataclass(frozen=True)
class Entry:
    """What is stored of one point."""

    about: Mapping[str, Any]
    """`key`, `anabranch` (version), `values`, `algorithm`, `seed`, and `failure` where it failed."""
    tables: Mapping[str, pa.Table]
    """None where the point failed."""

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
            _add(archive, f"{name}.arrow", sink.getvalue())
    return buffer.getvalue()


def about(data: bytes, key: str) -> dict[str, Any]:
    """What an entry says of itself, after every checksum was verified. Raises `Damaged`."""
    with _opened(data) as archive:
        return _about(archive, key)


def decode(data: bytes, key: str, names: set[str] | None = None) -> Entry:
    """The entry of these bytes, with these tables or all. Raises `Damaged`."""
    with _opened(data) as archive:
        found = _about(archive, key)
        try:
            members = [name for name in archive.namelist() if name != ABOUT]
            tables = {
                name.removesuffix(".arrow"): pa.ipc.open_stream(archive.read(name)).read_all()
                for name in members
                if names is None or name.removesuffix(".arrow") in names
            }
        except _DAMAGE as error:
            raise Damaged(str(error)) from None
    return Entry(found, tables)


def _opened(data: bytes) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(io.BytesIO(data))
    except _DAMAGE as error:
        raise Damaged(str(error)) from None


def _about(archive: zipfile.ZipFile, key: str) -> dict[str, Any]:
    try:
        if damaged := archive.testzip():
            raise Damaged(f"{damaged} has another checksum")
        found: dict[str, Any] = json.loads(archive.read(ABOUT))
        if found["key"] != key:
            raise Damaged("it is the entry of another point")
    except _DAMAGE as error:
        raise Damaged(str(error)) from None
    return found


def _add(archive: zipfile.ZipFile, name: str, data: Any) -> None:
    archive.writestr(zipfile.ZipInfo(name), memoryview(data).tobytes())  # of 1980, not of now


def _array(values: Any) -> pa.Array:
    """A column; a list without entries is one of names."""
    return (
        pa.array(values, pa.string())
        if isinstance(values, list) and not values
        else pa.array(values)
    )
