"""Bulk data over many TCP connections, counted where it arrives. Runs in a host.

    python flood.py serve
    python flood.py down --way socks=127.0.0.1:1080 --connections 4 --seconds 10

`down` and `up` print a JSON object: `mbps`, the goodput after the warm-up; `jain`, Jain's index of
the connections' bytes; `failed`, connections that ended early; `series_mbps`, over 0.1 s each.
Times are of CLOCK_MONOTONIC, which all hosts of a lab share.
"""

import argparse
import contextlib
import json
import selectors
import socket
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from ways import connect

PORT = 7000
BLOCK = memoryview(bytes(1 << 18))
PER_S = 10
"""Intervals in which bytes are counted, per second."""


def interval() -> int:
    """The number of the current interval."""
    return int(time.monotonic() * PER_S)


class Server:
    """Sends to clients that say D; counts what clients send that say U, and reports it."""

    def __init__(self, port: int) -> None:
        self.selector = selectors.DefaultSelector()
        self.buffer = bytearray(len(BLOCK))
        listener = socket.create_server(("", port), backlog=1024)
        listener.setblocking(False)
        self.selector.register(listener, selectors.EVENT_READ, self.accept)

    def run(self) -> None:
        """Serve for ever."""
        while True:
            for key, _ in self.selector.select():
                try:
                    key.data(key.fileobj)
                except BlockingIOError:
                    continue
                except OSError:
                    self.close(key.fileobj)

    def accept(self, listener: socket.socket) -> None:
        """Accept a client."""
        stream, _ = listener.accept()
        stream.setblocking(False)
        self.selector.register(stream, selectors.EVENT_READ, self.choose)

    def choose(self, stream: socket.socket) -> None:
        """Read what the client wants."""
        if stream.recv(1) == b"D":
            self.selector.modify(stream, selectors.EVENT_WRITE, self.send)
            return
        counts: Counter[int] = Counter()
        self.selector.modify(
            stream, selectors.EVENT_READ, lambda stream: self.receive(stream, counts)
        )

    def send(self, stream: socket.socket) -> None:
        """Send as much as fits."""
        stream.send(BLOCK)

    def receive(self, stream: socket.socket, counts: Counter[int]) -> None:
        """Count what has arrived; at the end report it."""
        if received := stream.recv_into(self.buffer):
            counts[interval()] += received
            return
        stream.setblocking(True)
        stream.sendall(json.dumps(counts).encode())
        self.close(stream)

    def close(self, stream: socket.socket) -> None:
        """Forget a client."""
        with contextlib.suppress(KeyError):
            self.selector.unregister(stream)
        stream.close()


def download(streams: list[socket.socket], until: float) -> tuple[list[Counter[int]], int]:
    """Bytes on each connection, by interval, and how many connections end early."""
    selector = selectors.DefaultSelector()
    all_counts = []
    for stream in streams:
        stream.sendall(b"D")
        stream.setblocking(False)
        all_counts.append(Counter())
        selector.register(stream, selectors.EVENT_READ, all_counts[-1])
    failed, buffer = 0, bytearray(len(BLOCK))
    while time.monotonic() < until and selector.get_map():
        for key, _ in selector.select(0.1):
            try:
                received = key.fileobj.recv_into(buffer)
            except BlockingIOError:
                continue
            except OSError:
                received = 0
            key.data[interval()] += received
            if not received:
                failed += 1
                selector.unregister(key.fileobj)
    return all_counts, failed


def upload(streams: list[socket.socket], until: float) -> tuple[list[Counter[int]], int]:
    """Bytes of each connection, by interval, and how many connections end early."""
    selector = selectors.DefaultSelector()
    for stream in streams:
        stream.sendall(b"U")
        stream.setblocking(False)
        selector.register(stream, selectors.EVENT_WRITE)
    while time.monotonic() < until and selector.get_map():
        for key, _ in selector.select(0.1):
            try:
                key.fileobj.send(BLOCK)
            except BlockingIOError:
                continue
            except OSError:
                selector.unregister(key.fileobj)
    with ThreadPoolExecutor(len(streams)) as pool:
        reports = list(pool.map(_report, streams))
    return [report or Counter() for report in reports], reports.count(None)


def _report(stream: socket.socket) -> Counter[int] | None:
    """The server's counts; `None` if the connection has failed."""
    try:
        stream.setblocking(True)
        stream.settimeout(60)
        stream.shutdown(socket.SHUT_WR)
        text = b"".join(iter(lambda: stream.recv(65536), b""))
        return Counter({int(at): count for at, count in json.loads(text).items()})
    except (OSError, ValueError):
        return None


def jain(shares: list[float]) -> float:
    """Jain's index of fairness, 1 if all are equal."""
    squares = len(shares) * sum(share * share for share in shares)
    return sum(shares) ** 2 / squares if squares else 0.0


def main() -> None:
    """Serve, or send or receive and print what arrived."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["serve", "up", "down"])
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--to", default="10.255.255.254")
    parser.add_argument("--way", default="direct")
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--warmup", type=float, default=2)
    options = parser.parse_args()
    if options.action == "serve":
        Server(options.port).run()
    with ThreadPoolExecutor(min(50, options.connections)) as pool:
        ways = [options.way] * options.connections
        to = (options.to, options.port)
        streams = list(pool.map(lambda way: connect(way, to), ways))
    start = time.monotonic()
    transfer = {"up": upload, "down": download}[options.action]
    all_counts, failed = transfer(streams, start + options.seconds)
    first = int((start + options.warmup) * PER_S) + 1
    last = int((start + options.seconds) * PER_S)
    counted = [sum(counts[at] for at in range(first, last)) for counts in all_counts]
    total = sum(all_counts, Counter())
    mbit = 8e-6
    report = {
        "mbps": sum(counted) * mbit / ((last - first) / PER_S),
        "jain": jain(counted),
        "connections": len(streams),
        "failed": failed,
        "series_mbps": [
            round(total[at] * mbit * PER_S, 2) for at in range(int(start * PER_S), last)
        ],
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
