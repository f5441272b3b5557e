"""Two hosts and the links between them: namespaces without names, TUN devices, a forwarder."""

import ctypes
import fcntl
import multiprocessing
import os
import random
import select
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Addresses:
    """One address of the server, and one of the client per path."""

    ipv6: bool

    @property
    def family(self) -> socket.AddressFamily:
        return socket.AF_INET6 if self.ipv6 else socket.AF_INET

    @property
    def server(self) -> str:
        return "fd78::1" if self.ipv6 else "10.78.0.1"

    def client(self, path: int) -> str:
        return f"fd77:{path}::1" if self.ipv6 else f"10.77.{path}.1"

    def path_to(self, packet: bytes) -> int | None:
        """The path of a packet to the client, from its destination; None if it is not to an
        address of the bed.
        """
        if packet[0] >> 4 == (6 if self.ipv6 else 4):
            to = packet[24:28] if self.ipv6 else packet[16:20]
            if to[:2] in (b"\xfd\x77", b"\x0a\x4d"):
                return to[3] if self.ipv6 else to[2]
        return None

    def is_to_server(self, packet: bytes) -> bool:
        """Neither a neighbour solicitation nor another packet that a host sends by itself."""
        if packet[0] >> 4 != (6 if self.ipv6 else 4):
            return False
        return (packet[24:26] if self.ipv6 else packet[16:18]) in (b"\xfd\x78", b"\x0a\x4e")


@dataclass(frozen=True)
class Link:
    """One path: rate in Mbps, round-trip time in ms, loss probability, queue in packets.

    With `policed_bytes` a token bucket of this depth has no queue. After `changes_s` from its first
    packet it is `worse`: "slow" has a tenth of the rate, "lossy" loses 10%, "dead" loses all.
    """

    rate_mbps: float
    rtt_ms: float
    loss: float = 0.0
    queue: int = 100
    policed_bytes: int = 0
    changes_s: float = float("inf")
    worse: str = ""


def enter(namespace: int) -> None:
    """Moves the calling thread into a network namespace."""
    if ctypes.CDLL(None, use_errno=True).setns(namespace, 0x40000000) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def new_namespace() -> int:
    """A network namespace that ends with its last descriptor; the caller stays in its own."""
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).unshare(0x40000000) != 0:
        raise OSError(ctypes.get_errno(), "unshare: run it as root")
    namespace = os.open("/proc/self/ns/net", os.O_RDONLY)
    enter(own)
    os.close(own)
    return namespace


def inside(namespace: int, function: Callable[..., object], *arguments: object) -> Any:
    """Starts a process that runs a function in a namespace."""

    def body() -> None:
        enter(namespace)
        function(*arguments)

    process = multiprocessing.get_context("fork").Process(target=body, daemon=True)
    process.start()
    return process


def configure(namespace: int, commands: list[str], sysctls: dict[str, str]) -> None:
    """Runs commands of iproute2, and sets kernel parameters, in a namespace."""

    def body() -> None:
        for key, value in sysctls.items():
            with open(f"/proc/sys/net/{key}", "w", encoding="ascii") as file:
                file.write(value)
        for command in commands:
            subprocess.run(["ip", *command.split()], check=True, stdout=subprocess.DEVNULL)

    process = inside(namespace, body)
    process.join()
    if process.exitcode:
        sys.exit("links: cannot configure a namespace (see above)")


def tun(namespace: int, name: str) -> int:
    """Opens a TUN device in a namespace."""
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    enter(namespace)
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, 0x400454CA, struct.pack("16sH22x", name.encode(), 0x1001))
    enter(own)
    os.close(own)
    return device


class Pipe:
    """One direction of a link; packets leave in order, `rate_bps` 0 only delays."""

    def __init__(self, out: int, delay_s: float, link: Link | None = None, seed: int = 0):
        self.out, self.delay_s = out, delay_s
        self.rate_bps = link.rate_mbps * 1e6 if link else 0.0
        self.queue, self.loss = (link.queue, link.loss) if link else (0, 0.0)
        self.depth = link.policed_bytes if link else 0
        self.tokens, self.filled_s = float(self.depth), 0.0
        self.link, self.changes_s = link, float("inf")
        self.random = random.Random(seed)
        self.free_s = 0.0
        self.departures: deque[float] = deque()
        self.packets: deque[tuple[float, bytes]] = deque()

    def change(self, link: Link, now: float) -> None:
        """Makes the link worse when its time has come."""
        self.changes_s = min(self.changes_s, now + link.changes_s)
        if now >= self.changes_s:
            self.rate_bps = link.rate_mbps * 1e6 / (10 if link.worse == "slow" else 1)
            self.loss = {"lossy": 0.1, "dead": 1.0}.get(link.worse, self.loss)

    def offer(self, packet: bytes, now: float) -> None:
        """Accepts or loses a packet."""
        if self.link and self.link.worse:
            self.change(self.link, now)
        if not self.rate_bps:
            self.packets.append((now + self.delay_s, packet))
            return
        if self.depth:
            refill = (now - self.filled_s) * self.rate_bps / 8
            self.tokens, self.filled_s = min(self.depth, self.tokens + refill), now
            if self.tokens >= len(packet):
                self.tokens -= len(packet)
                self.packets.append((now + self.delay_s, packet))
            return
        while self.departures and self.departures[0] <= now:
            self.departures.popleft()
        if len(self.departures) >= self.queue or self.random.random() < self.loss:
            return
        self.free_s = max(self.free_s, now) + len(packet) * 8 / self.rate_bps
        self.departures.append(self.free_s)
        self.packets.append((self.free_s + self.delay_s, packet))

    def deliver(self, now: float, late: list[float]) -> None:
        """Writes what is due."""
        while self.packets and self.packets[0][0] <= now:
            due, packet = self.packets.popleft()
            late.append(now - due)
            with suppress(BlockingIOError):
                os.write(self.out, packet)


def forward(
    devices: list[int],
    links: list[Link],
    seed: int,
    addresses: Addresses,
    to_client: bool,
    late_s: Any,
    woken_s: Any,
) -> None:
    """Forwards packets until it is ended; notes the 99th percentile of lateness, and how long after
    the first path's change another path carries data. The last device is the server's.
    """
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    *clients, server = devices
    outs = clients if to_client else [server] * len(links)
    back_outs = [server] * len(links) if to_client else clients
    data = [
        Pipe(out, link.rtt_ms / 2e3, link, seed * 16 + k)
        for k, (out, link) in enumerate(zip(outs, links, strict=True))
    ]
    acks = [Pipe(out, x.rtt_ms / 2e3) for out, x in zip(back_outs, links, strict=True)]
    up, down = (acks, data) if to_client else (data, acks)
    up_from = dict(zip(clients, up, strict=True))
    late: list[float] = []
    while True:
        heads = [pipe.packets[0][0] for pipe in data + acks if pipe.packets]
        wait = max(min(heads) - time.monotonic(), 0) if heads else None
        readable, _, _ = select.select(devices, [], [], wait)
        for device in readable:
            while True:
                try:
                    packet = os.read(device, 2048)
                except BlockingIOError:
                    break
                if device != server:
                    if not addresses.is_to_server(packet):
                        continue
                    pipe = up_from[device]
                elif (path := addresses.path_to(packet)) is not None:
                    pipe = down[path]
                else:
                    continue
                pipe.offer(packet, time.monotonic())
                after_s = time.monotonic() - data[0].changes_s
                if pipe in data[1:] and len(packet) > 500 and after_s > 0 > woken_s.value:
                    woken_s.value = after_s
        now = time.monotonic()
        for pipe in data + acks:
            pipe.deliver(now, late)
        if len(late) > 5000:
            late_s.value = max(late_s.value, statistics.quantiles(late, n=100)[98])
            late.clear()


class Bed:
    """Two hosts, a forwarder between them."""

    def __init__(
        self,
        links: list[Link],
        seed: int,
        sysctls: dict[str, str],
        addresses: Addresses,
        to_client: bool,
        veth: bool,
    ):
        self.addresses = addresses
        self.client, self.server = new_namespace(), new_namespace()
        self.late_s = multiprocessing.Value("d", 0.0)
        self.woken_s = multiprocessing.Value("d", -1.0)
        self.forwarder = None
        self.devices: list[int] = []
        count = len(links)
        configure(self.client, ["link set lo up"], sysctls)
        configure(self.server, ["link set lo up"], sysctls)
        if veth:
            self.join_by_veth(count)
        else:
            clients = [tun(self.client, f"p{k}") for k in range(count)]
            server = tun(self.server, "s")
            self.devices = [*clients, server]
            self.address(count)
            configure(
                self.server,
                [
                    f"addr add {addresses.server} dev s",
                    "link set s up txqueuelen 10000",
                    f"route add {'fd77::/16' if addresses.ipv6 else '10.77.0.0/16'} dev s",
                ],
                {},
            )
            self.forwarder = inside(
                self.client,
                forward,
                self.devices,
                links,
                seed,
                addresses,
                to_client,
                self.late_s,
                self.woken_s,
            )
        for host in self.client, self.server:
            configure(host, ["mptcp limits set subflow 4 add_addr_accepted 4"], {})

    def address(self, count: int) -> None:
        """Addresses, routes by source address and endpoints of the client."""
        server, version = self.addresses.server, "-6" if self.addresses.ipv6 else "-4"
        commands = []
        for k in range(count):
            own = self.addresses.client(k)
            commands += [
                f"addr add {own} dev p{k}",
                f"link set p{k} up txqueuelen 10000",
                f"{version} rule add from {own} table {100 + k}",
                f"route add {server} dev p{k} table {100 + k} src {own}",
            ]
            if k:
                commands.append(f"mptcp endpoint add {own} dev p{k} subflow")
        commands.append(f"route add {server} dev p0 src {self.addresses.client(0)}")
        configure(self.client, commands, {})

    def join_by_veth(self, count: int) -> None:
        """Unshaped links."""
        commands = [f"addr add {self.addresses.server} dev lo"]
        for k in range(count):
            server = f"/proc/{os.getpid()}/fd/{self.server}"
            configure(self.client, [f"link add p{k} type veth peer s{k} netns {server}"], {})
            commands += [f"link set s{k} up", f"route add {self.addresses.client(k)} dev s{k}"]
        configure(self.server, commands, {})
        self.address(count)

    def close(self) -> None:
        """Ends the forwarder and closes the devices and namespaces."""
        if self.forwarder:
            self.forwarder.terminate()
            self.forwarder.join()
        for descriptor in [*self.devices, self.client, self.server]:
            os.close(descriptor)
