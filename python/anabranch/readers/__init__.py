"""Files of other programs as connections with paths and samples: ss, iperf3 and captures."""

import pathlib

from anabranch._core import ScenarioError
from anabranch.readers import capture, iperf3, ss
from anabranch.readers.connection import Connection, MeasuredPath, Recording, Sample, Taken, taken

__all__ = ["Connection", "MeasuredPath", "Recording", "Sample", "Taken", "read", "taken"]


def read(file: pathlib.Path) -> Recording:
    """The connections of an `iperf3 -J`, `iperf3 --json-stream`, `ss -tin` or capture.

    Raises `ScenarioError` for another format, a failed test, and a file without connections, and
    OSError for a file that cannot be read.
    """
    with file.open("rb") as data:
        if data.read(4) in capture.MAGIC:
            found = capture.read([file])
            outputs = [output for output in found.outputs if output.sockets]
            return ss.recording(outputs, f"capture of {found.description}", file)
    text = file.read_text(encoding="utf-8-sig", errors="replace")
    if text.lstrip().startswith(("{", "[")):
        return iperf3.read(text, file)
    if recording := ss.read(text, file):
        return recording
    raise ScenarioError(
        f"{file}: no TCP connection in it: expected the JSON of `iperf3 -J`, the output of "
        "`ss -tin` on the sender, or a capture"
    )
