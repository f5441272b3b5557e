"""Goodput and delay of the kernel's algorithms over links of a small test bed of its own.

`python3 crates/kernel/benches/links --cells a,h --algorithms lia,olia` as root prints a table
of Mbps and of the ratio to the best single path, which Reno has alone. It shares no code with
`anabranch-lab`: two network namespaces without names, a TUN device per path, and a forwarder with
rate, drop-tail queue, random loss and delay. Socket buffers are limited as by a distribution
(`--tcp-wmem`, `--tcp-rmem`). An algorithm of anabranch-kernel must be loaded before.

`--kind held` (default) sends without end; `kept` sends 1 MB per request over one connection and
prints the rate of the requests; `delay` prints the time from write to read of a sender that writes
as fast as it can; `unshaped` sends over two veth links, in pairs with Reno.
"""

import argparse
import multiprocessing
import socket
import statistics
import struct
import sys
import time
from typing import Any

from bed import SERVER, Bed, Link, inside

MPTCP, CONGESTION, PORT = 262, 13, 5001
BLOCK = 1 << 17
REQUEST_BYTES = 1_000_000
MESSAGE_BYTES = 1250

CELLS = {
    "a": [Link(25, 40), Link(10, 120, 0.008)],
    "h": [Link(45, 20, queue=200), Link(10, 60, 0.01, 200)],
    "p": [Link(20, 20), Link(20, 60, 0.01)],
    "c": [Link(30, 30, queue=30), Link(3, 200, queue=30)],
    "e": [Link(20, 20), Link(20, 60)],
}


def open_connection(algorithm: str, path: int | None) -> socket.socket:
    """A connection over all paths, or over TCP and one path."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0 if path is not None else MPTCP)
    sock.setsockopt(socket.IPPROTO_TCP, CONGESTION, algorithm.encode())
    if path is not None:
        sock.bind((f"10.77.{path}.1", 0))
    sock.connect((SERVER, PORT))
    return sock


def listen() -> socket.socket:
    """The server's listening socket."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, MPTCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((SERVER, PORT))
    listener.listen()
    return listener


def send_held(algorithm: str, path: int | None) -> None:
    """Sends without end."""
    sock, block = open_connection(algorithm, path), bytes(BLOCK)
    while True:
        sock.sendall(block)


def receive_held(ready: Any, results: Any, seconds: float) -> None:
    """Mbps from the start of the connection."""
    listener = listen()  # open for the joins of further paths
    ready.set()
    sock, _ = listener.accept()
    start, received = time.monotonic(), 0
    buffer = bytearray(BLOCK * 4)
    sock.settimeout(0.5)
    while time.monotonic() < start + seconds:
        try:
            received += sock.recv_into(buffer)
        except TimeoutError:
            continue
    results.put(received * 8e-6 / (time.monotonic() - start))


def send_kept(algorithm: str, path: int | None) -> None:
    """Answers requests."""
    sock, body = open_connection(algorithm, path), bytes(REQUEST_BYTES)
    while sock.recv(1):
        sock.sendall(body)


def receive_kept(ready: Any, results: Any, seconds: float) -> None:
    """Mbps of requests of 1 MB, one after the other."""
    listener = listen()  # open for the joins of further paths
    ready.set()
    sock, _ = listener.accept()
    start, done = time.monotonic(), 0
    buffer = bytearray(BLOCK * 4)
    while time.monotonic() < start + seconds:
        sock.sendall(b"r")
        left = REQUEST_BYTES
        while left:
            left -= sock.recv_into(buffer, min(left, len(buffer)))
        done += 1
    results.put(done * REQUEST_BYTES * 8e-6 / (time.monotonic() - start))


def send_stamped(algorithm: str, path: int | None) -> None:
    """Messages that begin with the time at which they were written."""
    sock, rest = open_connection(algorithm, path), bytes(MESSAGE_BYTES - 8)
    while True:
        sock.sendall(struct.pack("d", time.monotonic()) + rest)


def receive_stamped(ready: Any, results: Any, seconds: float) -> None:
    """Median and 99th percentile of the time from write to read, ms."""
    listener = listen()  # open for the joins of further paths
    ready.set()
    sock, _ = listener.accept()
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


KINDS = {
    "held": (send_held, receive_held),
    "kept": (send_kept, receive_kept),
    "delay": (send_stamped, receive_stamped),
    "unshaped": (send_held, receive_held),
}


def measure(bed: Bed, kind: str, algorithm: str, path: int | None, seconds: float) -> Any:
    """Runs one connection."""
    sender, receiver = KINDS[kind]
    context = multiprocessing.get_context("fork")
    ready, results = context.Event(), context.Queue()
    server = inside(bed.server, receiver, ready, results, seconds)
    ready.wait(10)
    client = inside(bed.client, sender, algorithm, path)
    try:
        return results.get(timeout=seconds * 3 + 20)
    finally:
        for process in client, server:
            process.terminate()
            process.join()


def run(
    kind: str,
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
        "ipv6/conf/all/disable_ipv6": "1",
        "ipv4/conf/all/rp_filter": "0",
        "ipv4/conf/default/rp_filter": "0",
        "ipv4/tcp_no_metrics_save": "1",
        "mptcp/enabled": "1",
        **dict(item.split("=") for item in options.sysctl),
    }
    bed = Bed(links, seed, sysctls, veth=kind == "unshaped")
    try:
        result = measure(bed, kind, algorithm, path, options.seconds)
    finally:
        bed.close()
    if bed.late_s.value > 1e-3:
        print(f"late: {bed.late_s.value * 1e3:.1f} ms at the 99th percentile", file=sys.stderr)
    return result


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", default="a,h,p,c,e")
    parser.add_argument("--algorithms", default="reno,lia,olia,balia")
    parser.add_argument("--kind", choices=KINDS, default="held")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--best", type=float, help="goodput of the best path, if known")
    parser.add_argument("--tcp-wmem", default="4096,16384,4194304")
    parser.add_argument("--tcp-rmem", default="4096,131072,6291456")
    parser.add_argument("--sysctl", action="append", default=[], metavar="ipv4/KEY=VALUE")
    return parser.parse_args()


def main() -> None:
    """Prints a row per cell and algorithm."""
    arguments = options()
    algorithms = arguments.algorithms.split(",")
    kind = arguments.kind
    seeds = range(arguments.seed, arguments.seed + arguments.runs)
    for cell in ["veth"] if kind == "unshaped" else arguments.cells.split(","):
        links = [Link(0, 0)] * 2 if kind == "unshaped" else CELLS[cell]
        if kind == "delay":
            for algorithm in algorithms:
                found = [run(kind, links, algorithm, None, seed, arguments) for seed in seeds]
                median, late = (statistics.mean(values) for values in zip(*found, strict=True))
                print(f"| {cell} | {algorithm} | {median:.0f} / {late:.0f} ms |", flush=True)
            continue
        if kind == "unshaped":
            for algorithm in algorithms:
                pairs = [
                    [run(kind, links, name, None, seed, arguments) for name in ("reno", algorithm)]
                    for seed in seeds
                ]
                reno, ours = (statistics.mean(values) for values in zip(*pairs, strict=True))
                print(f"| {cell} | {algorithm} | {ours:.0f} | {ours / reno:.2f} |", flush=True)
            continue
        best = arguments.best or max(
            run(kind, links, "reno", path, seeds[0], arguments) for path in range(len(links))
        )
        print(f"| {cell} | best path | {best:.1f} | |", flush=True)
        for algorithm in algorithms:
            found = [run(kind, links, algorithm, None, seed, arguments) for seed in seeds]
            mean = statistics.mean(found)
            each = " ".join(f"{x:.1f}" for x in found)
            print(f"| {cell} | {algorithm} | {mean:.1f}, {mean / best:.2f} | {each} |", flush=True)


if __name__ == "__main__":
    main()
