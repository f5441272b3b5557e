"""UDP as a game sends it: 60 small packets per second, and their delays. Runs in a host.

    python game.py serve
    python game.py play --way socks=127.0.0.1:1080 --seconds 20

The server answers every packet at once with the time at which it received it, so that one clock
gives both one-way delays. `play` prints a JSON object with the percentiles of both directions, ms,
and the share lost.
"""

import argparse
import json
import socket
import struct
import threading
import time

from ways import Datagrams

PORT = 7002
PACKETS_PER_S = 60
PAYLOAD_BYTES = 120


def serve(port: int) -> None:
    """Answer for ever."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("", port))
    while True:
        packet, client = server.recvfrom(2048)
        server.sendto(packet[:16] + struct.pack("d", time.monotonic()) + packet[24:], client)


def play(way: str, to: tuple[str, int], seconds: float) -> dict[str, object]:
    """Send for some time; the delays of what has arrived."""
    datagrams = Datagrams(way, to)
    up_ms: dict[int, float] = {}
    down_ms: dict[int, float] = {}

    def receive() -> None:
        while True:
            answer = datagrams.receive()
            now = time.monotonic()
            number, sent, turned = struct.unpack_from("=qdd", answer)
            up_ms[number] = (turned - sent) * 1e3
            down_ms[number] = (now - turned) * 1e3

    threading.Thread(target=receive, daemon=True).start()
    start = time.monotonic()
    packets = round(seconds * PACKETS_PER_S)
    for number in range(packets):
        time.sleep(max(0.0, start + number / PACKETS_PER_S - time.monotonic()))
        head = struct.pack("=qdd", number, time.monotonic(), 0.0)
        datagrams.send(head.ljust(PAYLOAD_BYTES, b"\0"))
    time.sleep(1.5)
    return {
        "packets": packets,
        "lost": 1 - len(down_ms) / packets,
        "up_ms": percentiles(list(up_ms.values())),
        "down_ms": percentiles(list(down_ms.values())),
    }


def percentiles(delays: list[float]) -> dict[str, float]:
    """Median, 99th percentile and maximum."""
    ordered = sorted(delays) or [float("nan")]
    at = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    last = len(ordered) - 1
    return {name: round(ordered[int(share * last)], 2) for name, share in at.items()}


def main() -> None:
    """Serve, or play and print the delays."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["serve", "play"])
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--to", default="10.255.255.254")
    parser.add_argument("--way", default="direct")
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    if options.action == "serve":
        serve(options.port)
    print(json.dumps(play(options.way, (options.to, options.port), options.seconds)))


if __name__ == "__main__":
    main()
