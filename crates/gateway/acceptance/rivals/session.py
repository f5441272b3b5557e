"""A bed in which a program of the comparison runs, with servers and clients of the load."""

import json
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from bed import SERVER, Bed
from isolation import end
from load import PATIENCE_S
from programs import OPEN_S, SOCKS, Pair, Program
from series import Series

LOAD = Path(__file__).with_name("load.py")
BULK, SMALL = 7000, 7001
"""Ports of two servers: those that measure latency share no process with bulk data."""
READY_S = 30
Sample = list[float]


@dataclass
class Bulk:
    """Connections that carry as much as they can."""

    process: subprocess.Popen[str]
    records: Path
    connections: int
    seconds: float
    begin: float = field(default_factory=time.monotonic)

    def sleep_until(self, age_s: float) -> None:
        """Sleep until this time after the beginning."""
        time.sleep(max(0, self.begin + age_s - time.monotonic()))

    def finish(self) -> Series:
        """Wait for the end, and read what has arrived."""
        self.process.wait(self.seconds + READY_S)
        return Series(self.records)

    def stop(self) -> Series:
        """End it now, and read what has arrived."""
        end(self.process)
        return Series(self.records)


@dataclass
class Load:
    """Clients of the load in a bed."""

    bed: Bed
    way: tuple[str, ...]
    """Options of load.py: through a program or directly."""

    def serve(self) -> None:
        """Start the servers."""
        for port in (BULK, SMALL):
            serve: list[str | Path] = [sys.executable, LOAD, "serve", str(port)]
            self.bed.spawn(self.bed.server, serve, f"serve{port}.records")

    def wait(self) -> None:
        """Wait until a byte can be fetched."""
        self.bed.client.run(self._client("wait", SMALL), timeout_s=READY_S)

    def bulk(self, direction: str, connections: int, seconds: float = 2 * PATIENCE_S) -> Bulk:
        """Start bulk data in a direction, `down` or `up`; beside `touch_ms` until that ends."""
        options = ["--connections", str(connections), "--seconds", str(seconds)]
        sender = f"{direction}.records"
        process = self.bed.spawn(self.bed.client, self._client(direction, BULK, *options), sender)
        receiver = sender if direction == "down" else f"serve{BULK}.records"
        return Bulk(process, self.bed.folder / receiver, connections, seconds)

    def files_ms(self, size: int, count: int) -> Sample:
        """Completion times of files, each over a new connection."""
        options = ["--size", str(size), "--count", str(count)]
        return _result(self._start("files", *options))

    def touch_ms(self, seconds: float) -> tuple[Sample, Sample]:
        """Four new connections per second with a byte, and ten keystrokes per second."""
        options = [
            ["--seconds", str(seconds), "--count", str(round(per_s * seconds))] for per_s in (4, 10)
        ]
        opens = self._start("opens", *options[0])
        keys = self._start("keys", *options[1])
        return _result(opens), _result(keys)

    def _start(self, role: str, *options: str) -> subprocess.Popen[str]:
        words = self.bed.client.words(self._client(role, SMALL, *options))
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.bed.programs.append(process)
        return process

    def _client(self, role: str, port: int, *options: str) -> list[str | Path]:
        return [sys.executable, LOAD, role, "--to", f"{SERVER}:{port}", *self.way, *options]


@dataclass
class Session(Load):
    """A program in a bed, with the load."""

    pair: Pair

    @classmethod
    def open(cls, bed: Bed, program: Program, congestion_control: str) -> Self:
        """Start servers and program, and wait until it has opened its paths."""
        session = cls(bed, ("--socks", SOCKS), program.start(bed, congestion_control))
        session.serve()
        try:
            session.wait()
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"no connection within {READY_S} s: {session.log()}") from None
        time.sleep(OPEN_S)
        return session

    def log(self) -> str:
        """The last lines of what the programs have logged."""
        files = (self.bed.folder / f"{side}{end}" for side in ("near", "far") for end in ENDINGS)
        return "; ".join(line for file in files for line in file.read_text().splitlines()[-2:])


ENDINGS = (".log", ".err")
"""Files of what a program has written to stdout and stderr."""


def _result(process: subprocess.Popen[str]) -> Sample:
    out, errors = process.communicate(timeout=240)
    if process.returncode:
        raise RuntimeError(f"load.py: {errors.strip().rpartition(chr(10))[2]}")
    sample: Sample = json.loads(out)
    return sample
