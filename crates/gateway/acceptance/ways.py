"""Ways to a destination: directly, from a local address, or through SOCKS5 (RFC 1928)."""

import ipaddress
import json
import socket
import struct
import sys
import time

Address = tuple[str, int]

CONNECT, UDP_ASSOCIATE = 1, 3
TIMEOUT_S = 20


def connect(way: str, to: Address) -> socket.socket:
    """A TCP connection. `way` is `direct`, `from=ADDRESS` or `socks=ADDRESS:PORT`."""
    kind, _, value = way.partition("=")
    if kind == "socks":
        stream = socket.create_connection(_address(value), TIMEOUT_S)
        _request(stream, CONNECT, to)
    else:
        source = (value, 0) if kind == "from" else None
        stream = socket.create_connection(to, TIMEOUT_S, source)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream.settimeout(None)
    return stream


class Datagrams:
    """A UDP socket that sends to one destination, which answers."""

    def __init__(self, way: str, to: Address) -> None:
        kind, _, value = way.partition("=")
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._head = b""
        self._peer = to
        if kind == "from":
            self.socket.bind((value, 0))
        if kind == "socks":
            # The association lasts as long as its TCP connection.
            self._control = socket.create_connection(_address(value), TIMEOUT_S)
            self._peer = _request(self._control, UDP_ASSOCIATE, ("0.0.0.0", 0))
            self._head = bytes(3) + _encoded(to)

    def send(self, payload: bytes) -> None:
        """Send a datagram."""
        self.socket.sendto(self._head + payload, self._peer)

    def receive(self) -> bytes:
        """The payload of the next datagram."""
        return self.socket.recv(65536)[len(self._head) :]


def _request(stream: socket.socket, command: int, to: Address) -> Address:
    stream.sendall(b"\x05\x01\x00")
    if _exactly(stream, 2) != b"\x05\x00":
        raise ConnectionError("SOCKS5 without authentication was refused")
    stream.sendall(bytes((5, command, 0)) + _encoded(to))
    _, reply, _, kind = _exactly(stream, 4)
    if reply:
        raise ConnectionRefusedError(f"SOCKS5 reply {reply}")
    host = _exactly(stream, {1: 4, 4: 16}[kind])
    (port,) = struct.unpack("!H", _exactly(stream, 2))
    return str(ipaddress.ip_address(host)), port


def _encoded(to: Address) -> bytes:
    try:
        host = ipaddress.ip_address(to[0]).packed
        kind = 1 if len(host) == 4 else 4
    except ValueError:
        host, kind = bytes([len(to[0])]) + to[0].encode(), 3
    return bytes([kind]) + host + struct.pack("!H", to[1])


def _exactly(stream: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        if not (more := stream.recv(size - len(data))):
            raise ConnectionError("SOCKS5: the connection was closed")
        data += more
    return data


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)


def opening(way: str, to: Address, count: int) -> dict[str, float]:
    """How long connections take to open, ms: the median, and nine of ten."""
    times = []
    for _ in range(count):
        begin = time.monotonic()
        connect(way, to).close()
        times.append(1e3 * (time.monotonic() - begin))
        time.sleep(0.2)
    times.sort()
    return {"p50": times[count // 2], "p90": times[count * 9 // 10]}


def main() -> None:
    """Wait until a destination is reachable: `python ways.py WAY HOST PORT`.

    With a fourth argument open this number of connections, and print how long each took.
    """
    way, host, port, *count = sys.argv[1:]
    if count:
        print(json.dumps(opening(way, (host, int(port)), int(count[0]))))
        return
    while True:
        try:
            connect(way, (host, int(port))).close()
            return
        except OSError as error:
            print(error, file=sys.stderr)
            time.sleep(0.1)


if __name__ == "__main__":
    main()
