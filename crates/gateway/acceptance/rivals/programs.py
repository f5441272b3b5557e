"""The programs that are compared: each a pair with SOCKS5 at the client.

All use one address of the server, and all links of the client.
"""

import json
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bed import SERVER, Bed
from install import default_prefix
from isolation import cpu_s

SOCKS = "127.0.0.1:1080"
PORT = 7440
METHOD, PASSWORD = "2022-blake3-aes-128-gcm", "8JCsPssfgS8tiRwiMlhARg=="
"""A cipher and a key that sing-box and shadowsocks share."""
ROOT = Path(__file__).parents[4]
OPEN_S = 2
"""Time for the other paths to open after the first connection."""


@dataclass(frozen=True)
class Pair:
    """A program at the client and one at the server, running."""

    near: subprocess.Popen[str]
    far: subprocess.Popen[str]

    def cpu_s(self) -> tuple[float, float]:
        """Processor time of both, s."""
        return cpu_s(self.near.pid), cpu_s(self.far.pid)

    def rss_mb(self) -> tuple[float, float]:
        """Resident memory of both, MB."""
        return _rss_mb(self.near.pid), _rss_mb(self.far.pid)

    def alive(self) -> bool:
        """Whether both still run."""
        return self.near.poll() is None and self.far.poll() is None


@dataclass(frozen=True)
class Program:
    """How to start a program."""

    start: Callable[[Bed, str], Pair]
    """In a bed, with a congestion control."""
    files: Callable[[], Sequence[Path]]
    """Files that must have been built."""
    remedy: str
    ask_version: str = "--version"

    def version(self) -> str:
        """The first line that it prints about its version."""
        command: list[str | Path] = [self.files()[0], self.ask_version]
        return subprocess.run(command, capture_output=True, text=True).stdout.partition("\n")[0]


def _gateway(carrier: str) -> Callable[[Bed, str], Pair]:
    def start(bed: Bed, algorithm: str) -> Pair:
        public = {side: _keygen(bed.folder / f"{side}.key") for side in ("near", "far")}
        for side, peer in (("near", "far"), ("far", "near")):
            tunnel = f'[tunnel]\ncarrier = "{carrier}"\nalgorithm = "{algorithm}"\n'
            tunnel += f'key = "{side}.key"\npeers = ["{public[peer]}"]\n'
            (bed.folder / f"{side}.toml").write_text(_head(bed, side) + tunnel)
        far = bed.spawn(bed.server, [_gateway_file(), "far", bed.folder / "far.toml"], "far.log")
        time.sleep(0.3)
        near = bed.spawn(
            bed.client, [_gateway_file(), "near", bed.folder / "near.toml"], "near.log"
        )
        return Pair(near, far)

    return start


def _head(bed: Bed, side: str) -> str:
    if side == "far":
        return f'listen = "{SERVER}:{PORT}"\nallow = ["{SERVER}"]\n'
    names = (f"wan{number}" for number in range(1, len(bed.network.links) + 1))
    paths = ", ".join(f'{{ name = "{name}", interface = "{name}" }}' for name in names)
    return f'far = "{SERVER}:{PORT}"\npaths = [{paths}]\nsocks.listen = "{SOCKS}"\n'


def _keygen(file: Path) -> str:
    command: list[str | Path] = [_gateway_file(), "keygen", file]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _gateway_file() -> Path:
    given = os.environ.get("ANABRANCH_GATEWAY")
    return Path(given) if given else ROOT / "target/release/anabranch-gateway"


def _sing_box(bed: Bed, _algorithm: str) -> Pair:
    _multipath(bed)
    cipher = {"method": METHOD, "password": PASSWORD, "tcp_multi_path": True}
    socks, port = SOCKS.split(":")
    near = {
        "inbounds": [{"type": "socks", "listen": socks, "listen_port": int(port)}],
        "outbounds": [{"type": "shadowsocks", "server": SERVER, "server_port": PORT} | cipher],
    }
    far = {
        "inbounds": [{"type": "shadowsocks", "listen": SERVER, "listen_port": PORT} | cipher],
        "outbounds": [{"type": "direct"}],
    }
    programs = []
    for host, side, settings in ((bed.server, "far", far), (bed.client, "near", near)):
        file = bed.folder / f"{side}.json"
        file.write_text(json.dumps(settings | {"log": {"level": "warn"}}))
        programs.append(bed.spawn(host, [_rival("sing-box"), "run", "-c", file], f"{side}.log"))
    return Pair(far=programs[0], near=programs[1])


def _shadowsocks(bed: Bed, _algorithm: str) -> Pair:
    _multipath(bed)
    both = ["-s", f"{SERVER}:{PORT}", "-m", METHOD, "-k", PASSWORD, "--tcp-multipath"]
    both += ["--tcp-no-delay"]
    far = bed.spawn(bed.server, [_rival("ssserver"), *both], "far.log")
    near = bed.spawn(bed.client, [_rival("sslocal"), "-b", SOCKS, *both], "near.log")
    return Pair(near, far)


def _multipath(bed: Bed) -> None:
    """Settings of the gateway itself: a subflow per link, and retransmission over another one."""
    for host in (bed.client, bed.server):
        host.run(["ip", "mptcp", "limits", "set", "subflow", "8", "add_addr_accepted", "8"])
        host.run(["sysctl", "-qw", "net.mptcp.stale_loss_cnt=1"])
    for number in range(1, len(bed.network.links) + 1):
        endpoint = [f"10.1.{number}.2", "dev", f"wan{number}", "subflow"]
        bed.client.run(["ip", "mptcp", "endpoint", "add", *endpoint])


def _rival(name: str) -> Path:
    return default_prefix() / "bin" / name


def _rss_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    kb = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))
    return int(kb) / 1000


BUILD_GATEWAY = "cargo build --release -p anabranch-gateway, or set ANABRANCH_GATEWAY"
BUILD_RIVALS = "run install.py, or set ANABRANCH_RIVALS"

PROGRAMS = {
    "quic": Program(_gateway("quic"), lambda: [_gateway_file()], BUILD_GATEWAY),
    "mptcp": Program(_gateway("mptcp"), lambda: [_gateway_file()], BUILD_GATEWAY),
    "sing-box": Program(_sing_box, lambda: [_rival("sing-box")], BUILD_RIVALS, "version"),
    "shadowsocks": Program(
        _shadowsocks, lambda: [_rival("sslocal"), _rival("ssserver")], BUILD_RIVALS
    ),
}
"""`quic` and `mptcp` are the gateway's carriers."""
