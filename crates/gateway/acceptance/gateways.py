"""`anabranch-gateway near` and `far` with keys and configurations of their own."""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hosts import ROOT, Lab, Program, address, load

PORT = 4433
SOCKS = "127.0.0.1:1080"
DNS = "127.0.0.1:5353"
STATUS = "127.0.0.1:9480"
CARRIERS = ("quic", "mptcp")
OVERHEAD_BYTES = {
    # IPv4 20, UDP 8; QUIC: first byte 1, connection id 8, packet number 2, tag 16, STREAM frame 7.
    "quic": 62,
    # IPv4 20, TCP 20, timestamps 12, Multipath TCP's mapping 20 (docs/reference/lab.md), and
    # per 16 kB TLS 22 and the frame 7, in a packet of 1500 bytes 3.
    "mptcp": 75,
}
"""Bytes of a packet of 1500 that are not payload of a stream."""


def payload_share(carrier: str) -> float:
    """The share of a link's rate that streams can get."""
    return 1 - OVERHEAD_BYTES[carrier] / 1500


def options(description: str | None, **others: object) -> argparse.Namespace:
    """The options of all measurements, and `others` by name with their defaults."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--carrier", choices=CARRIERS, action="append", help="default: both")
    parser.add_argument("--algorithm", default="reno", help="rule of the tunnel (reno)")
    for name, default in others.items():
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, type=type(default), default=default, help=f"default {default}")
    chosen = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("the lab creates network namespaces: run this as root")
    chosen.carrier = chosen.carrier or list(CARRIERS)
    print(f"# {load()}", flush=True)
    return chosen


@dataclass
class Gateways:
    """The gateways of a lab: `near` in host `near`, `far` in `server`."""

    lab: Lab
    carrier: str
    algorithm: str = "reno"
    paths: Sequence[int] = (0, 1)
    """The paths that `near` uses."""
    forwards: Sequence[tuple[int, str]] = ()
    """Ports in host `near`, and where they lead."""
    tables: str = ""
    """Further tables of near.toml."""
    resolver: str | None = None

    def __post_init__(self) -> None:
        keys = {side: self._keygen(side) for side in ("near", "far")}
        tunnel = {
            side: f'[tunnel]\ncarrier = "{self.carrier}"\nalgorithm = "{self.algorithm}"\n'
            f'key = "{self._file(f"{side}.key")}"\npeers = ["{keys[peer]}"]\n'
            for side, peer in (("near", "far"), ("far", "near"))
        }
        server = self.lab.server
        addresses = [address(path) if self.lab.scenario else server for path in self.paths]
        paths = "".join(
            f'[[paths]]\nname = "path{path}"\naddress = "{local}"\n'
            for path, local in zip(self.paths, addresses, strict=True)
        )
        forwards = "".join(
            f'[[forwards]]\nlisten = "127.0.0.1:{port}"\nto = "{to}"\n'
            for port, to in self.forwards
        )
        dns = f'[dns]\nlisten = "{DNS}"\n' if self.resolver else ""
        self._file("near.toml").write_text(
            f'far = "{server}:{PORT}"\n{tunnel["near"]}{paths}{forwards}{dns}{self.tables}'
            f'[socks]\nlisten = "{SOCKS}"\n[operation]\nstatus = "{STATUS}"\n'
        )
        resolver = f'resolver = "{self.resolver}"\n' if self.resolver else ""
        self._file("far.toml").write_text(
            f'listen = "{server}:{PORT}"\nallow = ["{server}"]\n{resolver}{tunnel["far"]}'
        )
        self.far = self.start("far")
        time.sleep(0.3)
        self.near = self.start("near")
        self._wait_until_open()

    def start(self, side: str) -> Program:
        """Start one of the gateways."""
        host = {"near": "near", "far": "server"}[side]
        command = [_anabranch_gateway(), side, self._file(f"{side}.toml")]
        return self.lab.spawn(host, command, f"{side}.log")

    def stop(self) -> None:
        """End both at once."""
        self.near.kill()
        self.far.kill()

    def log(self, side: str) -> str:
        """Log of a gateway."""
        return self._file(f"{side}.log").read_text()

    def rss_mb(self) -> tuple[float, float]:
        """Resident memory of near and far, MB."""
        return self.near.rss_mb(), self.far.rss_mb()

    def _file(self, name: str) -> Path:
        return self.lab.folder / name

    def _keygen(self, side: str) -> str:
        self._file(f"{side}.key").unlink(missing_ok=True)
        command = [_anabranch_gateway(), "keygen", self._file(f"{side}.key")]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def _wait_until_open(self) -> None:
        """Wait until the tunnel carries a connection, and 2 s for the other paths to open."""
        probe = [sys.executable, Path(__file__).with_name("ways.py"), f"socks={SOCKS}"]
        try:
            self.lab.run("near", [*probe, self.lab.server, "7000"], 30)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            logs = {side: self.log(side)[-2000:] for side in ("near", "far")}
            raise RuntimeError(f"{error}\nnear: {logs['near']}\nfar: {logs['far']}") from None
        time.sleep(2)


def verdict(holds: bool) -> str:
    """A word for a table."""
    return "ok" if holds else "MISSED"


def _anabranch_gateway() -> str:
    given = os.environ.get("ANABRANCH_GATEWAY")
    return given or str(ROOT / "target/release/anabranch-gateway")
