"""Goodput and delay of the kernel's algorithms over links of a small test bed of its own.

`python3 crates/kernel/kernel/benches/links --cells a,h --algorithms lia,olia` as root prints a
table of Mbps and of the ratio to the best single path, which Reno has alone (`--alone`). It shares
no code with `anabranch-lab`: two network namespaces without names, a TUN device per path, and a
forwarder with rate, drop-tail queue, random loss and delay. Socket buffers are limited as by a
distribution (`--tcp-wmem`, `--tcp-rmem`). An algorithm of anabranch-kernel must be loaded before.

`--kind held` (default) sends without end; `kept` sends 1 MB (`--request-mb`) per request over one
connection, `new` over a connection of its own, and prints median and mean time as ratios to the
best path, and the longest; `wake` makes the first path worse in the middle of the run, and prints
when another has data, and Mbps after that; `delay` prints the time from write to read of a sender
that writes as fast as it can, median and 99th percentile; `unshaped` sends over two veth links, in
pairs with Reno; `windows` is `held` with the mean window and RTT of the lossy path, and what they
hold up. `--warmup` leaves out their first seconds. `--random 30` takes 30 random cells, a
clean and a lossy path, and prints what the clean path could send while the lossy one sends a
fragment (`cells.py`). `--jobs` runs several beds at once; a warning says if packets were late.
"""

import argparse
import multiprocessing
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from bed import Addresses, Bed, Link, inside
from cells import NAMED, cell, describe, held_mb, held_up_mb

MPTCP, CONGESTION, PORT = 262, 13, 5001
BLOCK = 1 << 17
REQUEST = struct.Struct("I")  # how many bytes it asks for
MESSAGE_BYTES = 1250

FORK = multiprocessing.get_context("fork")
CLOSED = suppress(BrokenPipeError, ConnectionResetError)  # the receiver ends first


@dataclass(frozen=True)
class End:
    """One end of the connections of a run: the client's opens them, and the sender's has the
    algorithm. `path` alone has TCP instead of Multipath TCP.
    """

    addresses: Addresses
    path: int | None
    algorithm: str | None = None

    def _socket(self, protocol: int) -> socket.socket:
        sock = socket.socket(self.addresses.family, socket.SOCK_STREAM, protocol)
        if self.algorithm:
            sock.setsockopt(socket.IPPROTO_TCP, CONGESTION, self.algorithm.encode())
        return sock

    def connections(self, ready: Any = None) -> Iterator[socket.socket]:
        """A connection whenever one is asked for."""
        if ready is None:
            while True:
                sock = self._socket(MPTCP if self.path is None else 0)
                if self.path is not None:
                    sock.bind((self.addresses.client(self.path), 0))
                sock.connect((self.addresses.server, PORT))
                yield sock
        listener = self._socket(MPTCP)  # open for the joins of further paths
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((self.addresses.server, PORT))
        listener.listen()
        ready.set()
        while True:
            yield listener.accept()[0]


def require(algorithm: str) -> None:
    """Multipath TCP runs the default, without an error, where a name is not registered."""
    with open("/proc/sys/net/ipv4/tcp_available_congestion_control", encoding="ascii") as file:
        if algorithm not in file.read().split():
            sys.exit(f"links: {algorithm} is not registered: anabranch-kernel load {algorithm}")


def send_held(connections: Iterator[socket.socket]) -> None:
    """Sends without end."""
    sock, block = next(connections), bytes(BLOCK)
    with CLOSED:
        while True:
            sock.sendall(block)


def receive_held(
    warmup: float, results: Any, seconds: float, connections: Iterator[socket.socket]
) -> None:
    """Mbps from the end of the warmup on, which begins with the connection."""
    sock = next(connections)
    begin, received = time.monotonic(), 0
    start, end = begin + warmup, begin + seconds
    buffer = bytearray(BLOCK * 4)
    sock.settimeout(0.5)
    while (now := time.monotonic()) < end:
        with suppress(TimeoutError):
            got = sock.recv_into(buffer)
            received += got if now >= start else 0
    results.put(received * 8e-6 / (time.monotonic() - start))


def watch_lossy_path(results: Any, warmup: float, seconds: float) -> None:
    """Means of the window and of the RTT in ms that `ss` prints of the second path."""
    time.sleep(warmup)
    end, found = time.monotonic() + seconds - warmup - 1, []
    command = ["ss", "-tinH", "state", "established", "src", "10.77.1.1"]
    while time.monotonic() < end:
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        fields = dict(field.split(":", 1) for field in printed.split() if field.count(":") == 1)
        with suppress(KeyError):
            found.append((float(fields["cwnd"]), float(fields["rtt"].split("/")[0])))
        time.sleep(0.5)
    windows, rtts = zip(*found, strict=True) if found else ([0.0], [0.0])
    results.put((statistics.mean(windows), statistics.mean(rtts)))


def send_requested(connections: Iterator[socket.socket]) -> None:
    """Answers the requests of each connection."""
    for sock in connections:
        with CLOSED:
            while request := sock.recv(REQUEST.size):
                sock.sendall(bytes(*REQUEST.unpack(request)))
        sock.close()


def receive_requested(
    size: int, is_new: bool, results: Any, seconds: float, connections: Iterator[socket.socket]
) -> None:
    """Seconds of each request for `size` bytes, one after the other, with pauses of 50 ms: for
    `seconds`, and until eight have ended or three times as long has passed. One that has not ended
    by then counts with the time it has had.
    """
    sock = next(connections)
    took: list[float] = []
    buffer, begin = bytearray(BLOCK * 4), time.monotonic()
    end, limit = begin + seconds, begin + 3 * seconds
    while time.monotonic() < (end if len(took) >= 8 else limit):
        start, left = time.monotonic(), size
        sock.sendall(REQUEST.pack(size))
        with suppress(TimeoutError):
            while left:
                sock.settimeout(max(limit - time.monotonic(), 1e-3))
                got = sock.recv_into(buffer, min(left, len(buffer)))
                if not got:
                    sys.exit("links: the sender has closed the connection")
                left -= got
        took.append(time.monotonic() - start)
        if is_new and not left:
            sock.close()
            sock = next(connections)
        time.sleep(0.05)
    results.put(took)


def send_stamped(connections: Iterator[socket.socket]) -> None:
    """Messages that begin with the time at which they were written."""
    sock, rest = next(connections), bytes(MESSAGE_BYTES - 8)
    with CLOSED:
        while True:
            sock.sendall(struct.pack("d", time.monotonic()) + rest)


def receive_stamped(results: Any, seconds: float, connections: Iterator[socket.socket]) -> None:
    """Median and 99th percentile of the time from write to read, ms."""
    sock = next(connections)
    start, pending, delays = time.monotonic(), b"", []
    while time.monotonic() < start + seconds:
        pending += sock.recv(BLOCK)
        now = time.monotonic()
        whole = len(pending) // MESSAGE_BYTES * MESSAGE_BYTES
        for offset in range(0, whole, MESSAGE_BYTES):
            delays.append(now - struct.unpack_from("d", pending, offset)[0])
        pending = pending[whole:]
    cuts = statistics.quantiles(delays, n=100)
    results.put((cuts[49] * 1e3, cuts[98] * 1e3))


KINDS = ("held", "wake", "kept", "new", "delay", "unshaped", "windows")


def measure(bed: Bed, algorithm: str, path: int | None, options: argparse.Namespace) -> Any:
    """Runs the connections of one sender and one receiver."""
    seconds, size = options.seconds, round(options.request_mb * 1e6)
    ready, results = FORK.Event(), FORK.Queue()
    held = (send_held, partial(receive_held, options.warmup, results, seconds))
    send, receive = {
        "kept": (send_requested, partial(receive_requested, size, False, results, seconds)),
        "new": (send_requested, partial(receive_requested, size, True, results, seconds)),
        "delay": (send_stamped, partial(receive_stamped, results, seconds)),
    }.get(options.kind, held)
    sender = End(bed.addresses, path, algorithm)
    receiver = replace(sender, algorithm=None)
    roles = (send, sender), (receive, receiver)
    (opens, opener), (listens, listener) = reversed(roles) if options.to_client else roles
    server = inside(bed.server, listens, listener.connections(ready))
    ready.wait(10)
    client = inside(bed.client, opens, opener.connections())
    watched, watcher = FORK.Queue(), []
    if options.kind == "windows" and path is None:
        watcher = [inside(bed.client, watch_lossy_path, watched, options.warmup, seconds)]
    try:
        rate = results.get(timeout=seconds * 3 + 20)
        if options.kind == "wake":
            return rate, bed.woken_s.value
        return (rate, *watched.get(timeout=20)) if watcher else rate
    finally:
        for process in client, server, *watcher:
            process.terminate()
            process.join()


def run(
    links: list[Link],
    algorithm: str,
    path: int | None,
    seed: int,
    options: argparse.Namespace,
) -> Any:
    """One connection in a bed of its own; prints a warning if packets were late."""
    limits = {"ipv4/tcp_wmem": options.tcp_wmem, "ipv4/tcp_rmem": options.tcp_rmem}
    sysctls = {
        **{key: value.replace(",", " ") for key, value in limits.items()},
        "ipv6/conf/all/disable_ipv6": "0" if options.ipv6 else "1",
        "ipv4/conf/all/rp_filter": "0",
        "ipv4/conf/default/rp_filter": "0",
        "ipv4/tcp_no_metrics_save": "1",
        "mptcp/enabled": "1",
        **dict(item.split("=") for item in options.sysctl),
    }
    require(algorithm)
    addresses = Addresses(options.ipv6)
    bed = Bed(links, seed, sysctls, addresses, options.to_client, options.kind == "unshaped")
    try:
        result = measure(bed, algorithm, path, options)
    finally:
        bed.close()
    require(algorithm)
    if bed.late_s.value > 1e-3:
        print(f"late: {bed.late_s.value * 1e3:.1f} ms at the 99th percentile", file=sys.stderr)
    return result


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", default=",".join(NAMED))
    parser.add_argument("--random", type=int, metavar="N", help="the random cells r1 to rN instead")
    parser.add_argument("--algorithms", default="reno,lia,olia,balia")
    parser.add_argument("--alone", default="reno", help="the algorithm over a single path")
    parser.add_argument("--kind", choices=KINDS, default="held")
    parser.add_argument("--ipv6", action="store_true", help="instead of IPv4")
    parser.add_argument(
        "--to-client", action="store_true", help="the server, which has one address, sends"
    )
    parser.add_argument("--request-mb", type=float, default=1)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--warmup", type=float, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--best", default="", metavar="CELL=MBPS,...", help="the best path's rate where it is known"
    )
    parser.add_argument("--tcp-wmem", default="4096,16384,4194304")
    parser.add_argument("--tcp-rmem", default="4096,131072,6291456")
    parser.add_argument("--sysctl", action="append", default=[], metavar="ipv4/KEY=VALUE")
    arguments = parser.parse_args()
    if arguments.kind in ("windows", "unshaped") and (arguments.ipv6 or arguments.to_client):
        parser.error(f"--kind {arguments.kind} is measured over IPv4, and the client sends")
    if not 0 <= arguments.warmup < arguments.seconds:
        parser.error("--warmup must be shorter than --seconds")
    if arguments.random:
        arguments.cells = ",".join(f"r{number}" for number in range(1, arguments.random + 1))
    return arguments


class Table:
    """Measures with several beds at once and prints rows."""

    def __init__(self, pool: ProcessPoolExecutor, arguments: argparse.Namespace):
        self.pool, self.arguments = pool, arguments
        self.seeds = range(arguments.seed, arguments.seed + arguments.runs)
        self.best = dict(item.split("=") for item in arguments.best.split(",") if item)

    def runs(self, links: list[Link], algorithm: str, path: int | None = None) -> list[Future[Any]]:
        """A run for each seed."""
        return [
            self.pool.submit(run, links, algorithm, path, seed, self.arguments)
            for seed in self.seeds
        ]

    def rates(self, name: str, algorithms: list[str]) -> Iterator[str]:
        """Rows of rates and of their ratio to the best path."""
        links = cell(name)
        paths = (
            []
            if name in self.best
            else [self.runs(links, self.arguments.alone, k) for k in range(len(links))]
        )
        found = [self.runs(links, algorithm) for algorithm in algorithms]
        best = max((_mean(runs) for runs in paths), default=float(self.best.get(name, 0)))
        if name not in NAMED:
            yield f"{describe(links)} | held up {held_up_mb(links):.2f} MB |"
        yield f"best path | {best:.1f} |"
        if self.arguments.kind == "windows":
            for algorithm, runs in zip(algorithms, found, strict=True):
                for rate, window, rtt_ms in (one.result() for one in runs):
                    held = held_mb(links[0].rate_mbps, window, rtt_ms)
                    seen = f"window {window:.1f}, {rtt_ms:.0f} ms, held up {held:.2f} MB"
                    yield f"{algorithm} | {rate:.1f}, {rate / best:.2f} | {seen}"
            return
        for algorithm, runs in zip(algorithms, found, strict=True):
            each = " ".join(f"{one.result():.1f}" for one in runs)
            yield f"{algorithm} | {_mean(runs):.1f}, {_mean(runs) / best:.2f} | {each}"

    def requests(self, name: str, algorithms: list[str]) -> Iterator[str]:
        """Rows of the median and mean time of a request as ratios to the best path."""
        links = cell(name)
        alone = [self.runs(links, self.arguments.alone, k) for k in range(len(links))]
        found = [self.runs(links, algorithm) for algorithm in algorithms]
        pooled = [[took for one in runs for took in one.result()] for runs in alone]
        best = min(pooled, key=statistics.mean)
        median, mean = statistics.median(best), statistics.mean(best)
        yield f"best path | {median:.3f} s ({mean:.3f}) | {len(best)}"
        for algorithm, runs in zip(algorithms, found, strict=True):
            took = [took for one in runs for took in one.result()]
            ratios = statistics.median(took) / median, statistics.mean(took) / mean
            longest = f"{max(took):.2f} s of {len(took)}"
            yield f"{algorithm} | {ratios[0]:.2f} ({ratios[1]:.2f}) | {longest}"

    def wakes(self, name: str, algorithms: list[str]) -> Iterator[str]:
        """Rows of the seconds after which another path has data when the first becomes worse in the
        middle of the run, and Mbps after that.
        """
        half = self.arguments.warmup = self.arguments.seconds / 2
        for worse in ("slow", "lossy", "dead"):
            first, *others = cell(name)
            links = [replace(first, changes_s=half, worse=worse), *others]
            found = [self.runs(links, algorithm) for algorithm in algorithms]
            for algorithm, runs in zip(algorithms, found, strict=True):
                each = (one.result() for one in runs)
                seen = ", ".join(f"{woken:.1f} s then {rate:.1f} Mbps" for rate, woken in each)
                yield f"{worse} | {algorithm} | {seen}"

    def delays(self, name: str, algorithms: list[str]) -> Iterator[str]:
        """Rows of the median and the 99th percentile."""
        found = [self.runs(cell(name), algorithm) for algorithm in algorithms]
        for algorithm, runs in zip(algorithms, found, strict=True):
            each = ", ".join("{:.0f} / {:.0f} ms".format(*one.result()) for one in runs)
            yield f"{algorithm} | {each}"

    def ratios(self, algorithms: list[str]) -> Iterator[str]:
        """Rows of rates over unshaped links beside Reno's; Reno beside itself shows the error."""
        links = [Link(0, 0)] * 2
        for algorithm in algorithms:
            pairs = [
                [
                    self.pool.submit(run, links, name, None, seed, self.arguments).result()
                    for name in ("reno", algorithm)
                ]
                for seed in self.seeds
            ]
            reno, ours = (statistics.mean(values) for values in zip(*pairs, strict=True))
            yield f"{algorithm} | {ours:.0f}, {ours / reno:.2f}"


def _mean(runs: list[Future[Any]]) -> float:
    return float(statistics.mean(one.result() for one in runs))


def main() -> None:
    """Prints a row per cell and algorithm."""
    arguments = options()
    algorithms = arguments.algorithms.split(",")
    with ProcessPoolExecutor(arguments.jobs, FORK) as pool:
        table = Table(pool, arguments)
        if arguments.kind == "unshaped":
            for row in table.ratios(algorithms):
                print(f"| veth | {row} |", flush=True)
            return
        for name in arguments.cells.split(","):
            rows = {
                "delay": table.delays,
                "wake": table.wakes,
                "kept": table.requests,
                "new": table.requests,
            }.get(arguments.kind, table.rates)
            for row in rows(name, algorithms):
                print(f"| {name} | {row} |", flush=True)


if __name__ == "__main__":
    main()
