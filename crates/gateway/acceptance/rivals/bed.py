"""A client with an address per link, a router with masquerade per link, an emulator, a server.

    client -- veth -- router 1 -- tun0 -- emulator -- tun0 -- server
           -- veth -- router 2 -- tun0 --

Each is a network namespace. The client's addresses are 10.1.LINK.2 at interfaces wan1, wan2; the
server's is 10.99.0.1 and sees the client as 10.99.LINK.1.
"""

import json
import re
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from isolation import Host, cpu_s, end

SERVER = "10.99.0.1"
SHORTEST_QUEUE_BYTES = 15000
"""Ten packets."""


@dataclass(frozen=True, order=True)
class Link:
    """A link with the same properties in both directions."""

    rate_mbps: float
    rtt_ms: float

    def __str__(self) -> str:
        return f"{self.rate_mbps:g} Mbit/s {self.rtt_ms:g} ms"


@dataclass(frozen=True)
class Network:
    """Links from the client to the server."""

    links: tuple[Link, ...]
    queue_ms: float = 100
    """Length of each link's queue."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """`25/30+12/70`: rates in Mbit/s and round-trip times in ms."""
        found = [re.fullmatch(r"(\d*\.?\d+)/(\d*\.?\d+)", link) for link in text.split("+")]
        links = tuple(Link(float(link[1]), float(link[2])) for link in found if link)
        if len(links) < len(found) or not 2 <= len(links) <= 8 or min(links).rate_mbps == 0:
            raise ValueError(f"{text}: expected links such as 25/30+12/70 (Mbit/s / RTT in ms)")
        return cls(links)

    def __str__(self) -> str:
        return " + ".join(map(str, self.links)) + f", queues of {self.queue_ms:g} ms"

    @property
    def rate_mbps(self) -> float:
        """The sum of the links."""
        return sum(link.rate_mbps for link in self.links)

    def numbers(self) -> dict[str, int]:
        """The numbers, from 1, of the links with the highest and the lowest rate."""
        by_rate = sorted(range(len(self.links)), key=lambda link: self.links[link].rate_mbps)
        return {"fast": by_rate[-1] + 1, "slow": by_rate[0] + 1}


class Bed:
    """A network that exists while a `with` statement runs."""

    def __init__(
        self, network: Network, congestion_control: str, emulator: Path, folder: Path
    ) -> None:
        self.network = network
        self.folder = folder
        self.client, self.server = Host(), Host()
        self.routers = [Host() for _ in network.links]
        self.programs: list[subprocess.Popen[str]] = []
        self._closing = threading.Event()
        self._threads: list[threading.Thread] = []
        self._asking = threading.Lock()
        self._with_device = [self.server, *self.routers]
        self._emulator = subprocess.Popen(
            [emulator, *(str(host.pid) for host in self._with_device)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        if self._answer() != "ready":
            raise RuntimeError("the emulator did not start")
        self._configure(congestion_control)
        for number, link in enumerate(network.links, 1):
            self.set(number, rate=link.rate_mbps * 1e6, delay_ms=link.rtt_ms / 2)
            self.set_queue(number, network.queue_ms)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.set()
        for thread in self._threads:
            thread.join()
        for program in self.programs:
            end(program)
        end(self._emulator)
        for host in (self.client, self.server, *self.routers):
            host.close()

    def spawn(self, host: Host, command: Sequence[str | Path], out: str) -> subprocess.Popen[str]:
        """Start a program that ends with the bed at the latest; `out` is a file of its folder."""
        program = host.spawn(command, self.folder / out)
        self.programs.append(program)
        return program

    def meanwhile(self, run: Callable[[threading.Event], None]) -> None:
        """Run a function in a thread until the event that it gets is set, when the bed closes."""
        self._threads.append(threading.Thread(target=run, args=(self._closing,)))
        self._threads[-1].start()

    def set(self, link: int, **properties: float) -> None:
        """Set properties of both directions of a link; emulator.c has their names."""
        for name, value in properties.items():
            answer = self._ask(f"{link} {name} {value}")
            if answer != "ok":
                raise ValueError(f"emulator: {name}: {answer}")

    def set_queue(self, link: int, milliseconds: float) -> None:
        """Set the length of a link's queues by the time that it takes to send them."""
        rate = self.network.links[link - 1].rate_mbps * 1e6
        self.set(link, queue=max(SHORTEST_QUEUE_BYTES, rate / 8 * milliseconds / 1e3))

    def counters(self) -> dict[str, Any]:
        """Counters of the emulator: packets and losses of each direction, its lateness."""
        counters: dict[str, Any] = json.loads(self._ask("stats"))
        return counters

    def emulator_cpu_s(self) -> float:
        """Processor time of the emulator, s."""
        return cpu_s(self._emulator.pid)

    def dropped_at_devices(self) -> int:
        """Packets that the emulator did not read in time, of all hosts."""
        tables = (host.run(["cat", "/proc/thread-self/net/dev"]) for host in self._with_device)
        rows = (line.split() for table in tables for line in table.splitlines())
        return sum(int(row[12]) for row in rows if row[0] == "tun0:")

    def congestion_control(self) -> dict[str, Counter[str]]:
        """For client and server the congestion control of each TCP connection over the links."""
        return {
            side: _congestion_control(host.run(["ss", "-tinH", "state", "established"]))
            for side, host in (("client", self.client), ("server", self.server))
        }

    def _ask(self, line: str) -> str:
        if not self._emulator.stdin:
            raise RuntimeError("the emulator has no stdin")
        with self._asking:
            self._emulator.stdin.write(line + "\n")
            self._emulator.stdin.flush()
            return self._answer()

    def _answer(self) -> str:
        if not self._emulator.stdout:
            raise RuntimeError("the emulator has no stdout")
        return self._emulator.stdout.readline().strip()

    def _configure(self, congestion_control: str) -> None:
        tcp = f"net.ipv4.tcp_congestion_control={congestion_control}"
        for host in (self.client, self.server, *self.routers):
            _ip(host, "link set lo up")
            host.run(["sysctl", "-qw", tcp, "net.ipv4.conf.all.rp_filter=0"])
        _ip(
            self.server,
            f"addr add {SERVER}/32 dev tun0",
            "link set tun0 up txqueuelen 5000",
            "route add 10.99.0.0/16 dev tun0",
        )
        for number, router in enumerate(self.routers, 1):
            self._connect(number, router)

    def _connect(self, number: int, router: Host) -> None:
        """A router, its connection with the client, and the client's routes over it."""
        network, interface = f"10.1.{number}", f"wan{number}"
        _ip(
            self.client,
            f"link add {interface} type veth peer name lan netns {router.pid}",
            f"addr add {network}.2/24 dev {interface}",
            f"link set {interface} up",
            f"route add default via {network}.1 dev {interface} metric {number}",
            f"route add default via {network}.1 dev {interface} table {number}",
            f"rule add from {network}.2 table {number}",
        )
        _ip(
            router,
            f"addr add {network}.1/24 dev lan",
            "link set lan up",
            f"addr add 10.99.{number}.1/32 dev tun0",
            "link set tun0 up txqueuelen 5000",
            "route add default dev tun0",
        )
        router.run(["sysctl", "-qw", "net.ipv4.ip_forward=1"])
        router.run(
            ["nft", "-f", "-"],
            "table ip nat { chain out { type nat hook postrouting priority srcnat; "
            'oifname "tun0" masquerade; }; }',
        )


def compiled(folder: Path) -> Path:
    """The emulator, compiled into a folder."""
    source, program = Path(__file__).with_name("emulator.c"), folder / "emulator"
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-o", program, source], check=True)
    return program


def _ip(host: Host, *lines: str) -> None:
    host.run(["ip", "-batch", "-"], "\n".join(lines) + "\n")


def _congestion_control(text: str) -> Counter[str]:
    """From `ss -tinH`: a line per connection, then an indented one with what the kernel knows."""
    found: Counter[str] = Counter()
    over_links = False
    for line in text.splitlines():
        if line[:1].isspace():
            words = line.split()
            known = [word for word in words if word.isalpha() and word not in NO_NAMES]
            if over_links and known:
                found[known[0]] += 1
            continue
        local, peer = line.split()[2:4]
        over_links = local.rpartition(":")[0] != peer.rpartition(":")[0]
    return found


NO_NAMES = {"ts", "sack", "ecn", "ecnseen", "fastopen"}
"""Words of `ss -i` before the name of the congestion control."""
