"""Files of other programs as connections with paths and samples: `ss -tin` and `iperf3 -J`."""

from anabranch.readers.choice import Taken, taken
from anabranch.readers.connection import Connection, MeasuredPath, Recording, Sample
from anabranch.readers.recording import read

__all__ = ["Connection", "MeasuredPath", "Recording", "Sample", "Taken", "read", "taken"]
