"""Servers and clients of the load; runs in the hosts of the bed.

    python load.py serve 7000
    python load.py down --socks 127.0.0.1:1080 --connections 4 --seconds 10

`down`, `up` send for a time over connections that stay open. Whoever receives prints a line per
connection and interval, `CONNECTION TIME BYTES`, and `CONNECTION end TIME` when one ends early.
`files`, `opens` and `keys` print a JSON list of times in ms; what is not answered at the end counts
with its age. Times are of CLOCK_MONOTONIC, which all hosts share.
"""

import argparse
import json
import os
import selectors
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable

BLOCK = bytes(1 << 16)
INTERVAL_S = 0.01
"""How exact the times of the bulk data are."""
REQUEST = struct.Struct("!cQ")
"""Request of a client (see `answer`): its kind, and bytes; 0 bytes: without end."""
TIMEOUT_S = 30
PATIENCE_S = 10
"""How long what is late is waited for."""


class Records:
    """Prints what a connection has received, once per interval."""

    def __init__(self, connection: int) -> None:
        self._connection = connection
        self._begin = time.monotonic()
        self._bytes = 0

    def count(self, received: int) -> None:
        """Count bytes that have just arrived."""
        now = time.monotonic()
        if now - self._begin >= INTERVAL_S:
            self.flush()
            self._begin = now
        self._bytes += received

    def flush(self) -> None:
        """Print the interval."""
        if self._bytes:
            self._print(f"{self._begin:.4f} {self._bytes}")
        self._bytes = 0

    def end(self) -> None:
        """The connection has ended."""
        self.flush()
        self._print(f"end {time.monotonic():.4f}")

    def _print(self, text: str) -> None:
        # One call per line, because threads share the file.
        os.write(sys.stdout.fileno(), f"{self._connection} {text}\n".encode())


def serve(port: int) -> None:
    """Answer connections, each in a thread."""
    listener = socket.create_server(("", port), backlog=1024)
    number = 0
    while True:
        stream, _ = listener.accept()
        number += 1
        threading.Thread(target=answer, args=(stream, number), daemon=True).start()


def answer(stream: socket.socket, number: int) -> None:
    """D: send bytes. U: receive, and record. E: return what comes."""
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        kind, size = REQUEST.unpack(exactly(stream, REQUEST.size))
        if kind == b"D":
            left = size or sys.maxsize
            while left:
                left -= stream.send(BLOCK[: min(left, len(BLOCK))])
            stream.shutdown(socket.SHUT_WR)
            stream.recv(1)
        elif kind == b"U":
            receive(stream, Records(number))
        elif kind == b"E":
            while data := stream.recv(4096):
                stream.sendall(data)
    except OSError:
        pass  # The client, or its proxy, has closed the connection.
    finally:
        stream.close()


def receive(stream: socket.socket, records: Records) -> None:
    """Record what a connection receives until it ends."""
    buffer = bytearray(1 << 18)
    try:
        while received := stream.recv_into(buffer):
            records.count(received)
    finally:
        records.end()


def connect(chosen: argparse.Namespace, kind: bytes, size: int = 0) -> socket.socket:
    """A connection to the server, directly or through SOCKS5 (RFC 1928), with its request sent."""
    host, _, port = (chosen.socks or chosen.to).rpartition(":")
    source = (chosen.source, 0) if chosen.source else None
    stream = socket.create_connection((host, int(port)), TIMEOUT_S, source)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if chosen.socks:
        stream.sendall(b"\x05\x01\x00")
        exactly(stream, 2)
        host, _, port = chosen.to.rpartition(":")
        address = socket.inet_aton(host) + struct.pack("!H", int(port))
        stream.sendall(b"\x05\x01\x00\x01" + address)
        reply = exactly(stream, 10)
        if reply[1]:
            raise ConnectionRefusedError(f"SOCKS5 reply {reply[1]}")
    stream.sendall(REQUEST.pack(kind, size))
    return stream


def exactly(stream: socket.socket, size: int) -> bytes:
    """The next bytes of a connection."""
    data = b""
    while len(data) < size:
        if not (more := stream.recv(size - len(data))):
            raise ConnectionError("the connection was closed")
        data += more
    return data


def down(chosen: argparse.Namespace) -> None:
    """Receive over several connections."""

    def one(number: int) -> None:
        records = Records(number)
        try:
            receive(connect(chosen, b"D"), records)
        except OSError as error:
            print(error, file=sys.stderr)
            records.end()

    start(one, chosen.connections)
    time.sleep(chosen.seconds)


def up(chosen: argparse.Namespace) -> None:
    """Send over several connections."""

    def one(_: int) -> None:
        try:
            stream = connect(chosen, b"U")
            while True:
                stream.sendall(BLOCK)
        except OSError as error:
            print(error, file=sys.stderr)

    start(one, chosen.connections)
    time.sleep(chosen.seconds)


def start(run: Callable[[int], None], count: int) -> None:
    """Run threads that end with the program."""
    for number in range(count):
        threading.Thread(target=run, args=(number,), daemon=True).start()


def files(chosen: argparse.Namespace) -> None:
    """Fetch files one after the other, each over a connection of its own."""
    times = []
    for _ in range(chosen.count):
        begin = time.monotonic()
        with connect(chosen, b"D", chosen.size) as stream:
            exactly_count(stream, chosen.size)
        times.append(1e3 * (time.monotonic() - begin))
        time.sleep(0.05)
    print(json.dumps(times))


def exactly_count(stream: socket.socket, size: int) -> None:
    """Receive bytes and forget them."""
    buffer = bytearray(1 << 18)
    while size:
        received = stream.recv_into(buffer, min(size, len(buffer)))
        if not received:
            raise ConnectionError(f"{size} bytes are missing")
        size -= received


def opens(chosen: argparse.Namespace) -> None:
    """Open connections at equal intervals, and fetch a byte over each."""
    begun: list[float] = []
    done: dict[int, float] = {}

    def one(number: int) -> None:
        try:
            with connect(chosen, b"D", 1) as stream:
                exactly(stream, 1)
            done[number] = time.monotonic()
        except OSError as error:
            print(error, file=sys.stderr)

    for number in range(chosen.count):
        begun.append(time.monotonic())
        threading.Thread(target=one, args=(number,), daemon=True).start()
        time.sleep(chosen.seconds / chosen.count)
    until = time.monotonic() + PATIENCE_S
    while len(done) < chosen.count and time.monotonic() < until:
        time.sleep(0.01)
    now = time.monotonic()
    print(json.dumps([1e3 * (done.get(n, now) - begin) for n, begin in enumerate(begun)]))


def keys(chosen: argparse.Namespace) -> None:
    """Send a byte at equal intervals over one connection, whether or not the last has returned."""
    stream = connect(chosen, b"E")
    stream.setblocking(False)
    selector = selectors.DefaultSelector()
    selector.register(stream, selectors.EVENT_READ)
    first = time.monotonic()
    begun: list[float] = []
    times: list[float] = []
    while len(times) < chosen.count:
        now = time.monotonic()
        due = first + len(begun) * chosen.seconds / chosen.count
        if len(begun) < chosen.count and now >= due:
            stream.send(b"k")
            begun.append(now)
            continue
        if now > first + chosen.seconds + PATIENCE_S:
            break
        wait = due - now if len(begun) < chosen.count else PATIENCE_S
        if selector.select(wait):
            now = time.monotonic()
            if not (data := stream.recv(4096)):
                break
            times += [1e3 * (now - begin) for begin in begun[len(times) :][: len(data)]]
    now = time.monotonic()
    times += [1e3 * (now - begin) for begin in begun[len(times) :]]
    print(json.dumps(times))


def wait(chosen: argparse.Namespace) -> None:
    """Wait until a byte can be fetched."""
    while True:
        try:
            with connect(chosen, b"D", 1) as stream:
                exactly(stream, 1)
                return
        except OSError:
            time.sleep(0.1)


def main() -> None:
    """Run one of the roles."""
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    roles = {role.__name__: role for role in (down, up, files, opens, keys, wait)}
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=roles)
    parser.add_argument("--to", required=True)
    parser.add_argument("--socks", default="")
    parser.add_argument("--source", default="", help="local address")
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--size", type=int, default=10_000)
    chosen = parser.parse_args()
    roles[chosen.role](chosen)


if __name__ == "__main__":
    main()
