"""The file of one point: a ZIP archive of Arrow tables, and about.json.

The archive is not compressed. Its comment is the SHA-256 of all bytes before it, so a file that was
cut off or changed is detected when it is read.
"""

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

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
