"""Files of other programs as connections with paths and samples: `ss -tin` and `iperf3 -J`."""

import pathlib

from anabranch._core import ScenarioError
from anabranch.readers import iperf3, ss
from anabranch.readers.connection import Connection, MeasuredPath, Recording, Sample, Taken, taken

__all__ = ["Connection", "MeasuredPath", "Recording", "Sample", "Taken", "read", "taken"]


def read(file: pathlib.Path) -> Recording:
    """The connections of an `iperf3 -J`, `iperf3 --json-stream` or `ss -tin`.

    Raises `ScenarioError` for another format, a failed test, and a file without connections, and
    OSError for a file that cannot be read.
    """
    text = file.read_text(encoding="utf-8-sig", errors="replace")
    if text.lstrip().startswith(("{", "[")):
        return iperf3.read(text, file)
    if found := ss.read(text, file):
        return found
    raise ScenarioError(
        f"{file}: no TCP connection in it: expected the JSON of `iperf3 -J`, or the output of "
        "`ss -tin` on the sender"
    )
