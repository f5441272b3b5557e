"""Random data in both directions of many TCP connections, compared by hashes. Runs in a host.

    python hashed.py serve
    python hashed.py run --way socks=127.0.0.1:1080 --connections 100 --seconds 300 --kbps 200

Each end sends frames (4 bytes of length, payload); a length of 0 ends them, and the SHA-256 of all
payload follows. `run` prints a JSON object: how many connections were `intact` in both directions,
how many ended with an error and which, the bytes, and the longest stalls: the time in which a
connection, or all together, received nothing while the other end was sending.
"""

import argparse
import contextlib
import hashlib
import itertools
import json
import os
import random
import socket
import socketserver
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import BinaryIO

from ways import connect

PORT = 7001
FRAME_BYTES = 4096
POOL = os.urandom(1 << 20)


@dataclass
class Received:
    """Bytes that have arrived in one direction of a connection."""

    size: int = 0
    intact: bool = False
    stall_s: float = 0.0
    times: list[float] = field(default_factory=list)


def send(stream: socket.socket, seconds: float, kbps: float) -> None:
    """Send random frames at a rate, then their hash."""
    digest = hashlib.sha256()
    start, sent = time.monotonic(), 0
    while (elapsed := time.monotonic() - start) < seconds:
        if sent * 8 / (kbps * 1e3) > elapsed:
            time.sleep(sent * 8 / (kbps * 1e3) - elapsed)
        at = random.randrange(len(POOL) - FRAME_BYTES)
        payload = POOL[at : at + FRAME_BYTES]
        digest.update(payload)
        stream.sendall(struct.pack("!I", FRAME_BYTES) + payload)
        sent += FRAME_BYTES
    stream.sendall(bytes(4) + digest.digest())


def receive(stream: BinaryIO, received: Received) -> None:
    """Receive frames and compare their hash."""
    digest = hashlib.sha256()
    last = time.monotonic()
    while length := struct.unpack("!I", _exactly(stream, 4))[0]:
        payload = _exactly(stream, length)
        digest.update(payload)
        now = time.monotonic()
        received.size += length
        received.times.append(now)
        received.stall_s = max(received.stall_s, now - last)
        last = now
    received.intact = _exactly(stream, 32) == digest.digest()


def _exactly(frames: BinaryIO, size: int) -> bytes:
    data = frames.read(size)
    if len(data) < size:
        raise EOFError("ended without its hash")
    return data


class Handler(socketserver.BaseRequestHandler):
    """A client's connection: sends as the client asks, then reports what was received."""

    def handle(self) -> None:
        """Serve one connection."""
        seconds, kbps = struct.unpack("!dd", self.request.recv(16, socket.MSG_WAITALL))
        received = Received()
        sender = threading.Thread(target=_quietly, args=(send, self.request, seconds, kbps))
        sender.start()
        _quietly(receive, self.request.makefile("rb"), received)
        sender.join()
        report = {"size": received.size, "intact": received.intact, "stall_s": received.stall_s}
        _quietly(self.request.sendall, json.dumps(report).encode())


def _quietly(act: Callable[..., None], *arguments: object) -> None:
    """Ignore a failed connection: the client sees it too, and reports it."""
    with contextlib.suppress(OSError, EOFError):
        act(*arguments)


@dataclass
class Connection:
    """One connection of `run` and its outcome."""

    down: Received = field(default_factory=Received)
    up: dict[str, object] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    failed_at: float | None = None

    def run(self, way: str, to: tuple[str, int], seconds: float, kbps: float) -> None:
        """Open it, send and receive."""
        try:
            stream = connect(way, to)
            stream.sendall(struct.pack("!dd", seconds, kbps))
            receiver = threading.Thread(target=self._receive, args=(stream,))
            receiver.start()
            send(stream, seconds, kbps)
            stream.shutdown(socket.SHUT_WR)
            receiver.join()
        except OSError as error:
            self._failed(error)

    def _receive(self, stream: socket.socket) -> None:
        try:
            with stream.makefile("rb") as reader:
                receive(reader, self.down)
                self.up = json.loads(reader.read() or b"{}")
        except (OSError, EOFError) as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        self.failed_at = self.failed_at or time.monotonic()
        self.errors.append(f"{type(error).__name__}: {error}")


def run(options: argparse.Namespace) -> dict[str, object]:
    """Run all connections at once."""
    to = (options.to, options.port)
    connections = [Connection() for _ in range(options.connections)]
    threads = [
        threading.Thread(target=each.run, args=(options.way, to, options.seconds, options.kbps))
        for each in connections
    ]
    start = time.monotonic()
    for thread in threads:
        thread.start()
        time.sleep(0.005)
    for thread in threads:
        thread.join()
    times = sorted(at for each in connections for at in each.down.times)
    gaps = [(later - at, at - start) for at, later in itertools.pairwise(times)]
    stall_s, stalled_at_s = max(gaps, default=(float("nan"), float("nan")))
    intact = [each for each in connections if each.down.intact and each.up.get("intact")]
    return {
        "connections": len(connections),
        "intact": len(intact),
        "errors": Counter(error for each in connections for error in each.errors).most_common(5),
        "down_bytes": sum(each.down.size for each in connections),
        "up_bytes": sum(int(each.up.get("size", 0)) for each in connections),
        "stall_down_s": max(each.down.stall_s for each in connections),
        "stall_up_s": max((float(each.up.get("stall_s", 0)) for each in connections), default=0),
        "stall_all_s": stall_s,
        "stall_all_at_s": stalled_at_s,
        "failed_at_s": sorted(
            round(each.failed_at - start, 2) for each in connections if each.failed_at
        )[:3],
    }


def main() -> None:
    """Serve, or run and print the outcome."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["serve", "run"])
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--to", default="10.255.255.254")
    parser.add_argument("--way", default="direct")
    parser.add_argument("--connections", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--kbps", type=float, default=100, help="of each connection and direction")
    options = parser.parse_args()
    threading.stack_size(1 << 18)
    if options.action == "serve":
        socketserver.ThreadingTCPServer.allow_reuse_address = True
        socketserver.ThreadingTCPServer.daemon_threads = True
        socketserver.ThreadingTCPServer.request_queue_size = 1024
        socketserver.ThreadingTCPServer(("", options.port), Handler).serve_forever()
    print(json.dumps(run(options)))


if __name__ == "__main__":
    main()
