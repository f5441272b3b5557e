"""Files that arrive at given times, each a TCP connection. Runs in a host.

    python files.py serve
    python files.py send --port 9001 --times arrivals.json

`arrivals.json` is a list of [arrival s, bytes]. The server answers with the time at which it had a
whole file, and one clock gives all times. `send` ends with the last arrival and prints all, each
with its time in the system, s, or null if it is not delivered.
"""

import argparse
import asyncio
import json
import struct
import time
from pathlib import Path

PORT = 7003
CHUNK = bytes(1 << 16)


async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Receive one file, and answer when."""
    try:
        (left,) = struct.unpack("!Q", await reader.readexactly(8))
        while left > 0 and (data := await reader.read(min(left, 1 << 20))):
            left -= len(data)
        if left == 0:
            writer.write(struct.pack("!d", time.monotonic()))
            await writer.drain()
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def send(port: int, arrival: float, size: int) -> float | None:
    """Send one file when it arrives; its time in the system, s."""
    await asyncio.sleep(arrival - time.monotonic())
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(struct.pack("!Q", size))
        for start in range(0, size, len(CHUNK)):
            writer.write(CHUNK[: size - start])
            await writer.drain()
        (done,) = struct.unpack("!d", await reader.readexactly(8))
        writer.close()
    except (ConnectionError, asyncio.IncompleteReadError):
        return None
    return float(done - arrival)


async def send_all(port: int, arrivals: list[tuple[float, int]]) -> None:
    """Send all; after the last arrival print what each took that is delivered."""
    begin = time.monotonic() + 1
    tasks = [asyncio.create_task(send(port, begin + at, size)) for at, size in arrivals]
    end = begin + arrivals[-1][0]
    await asyncio.wait(tasks, timeout=end - time.monotonic())
    took = [task.result() if task.done() else None for task in tasks]
    rows = [[at, size, s] for (at, size), s in zip(arrivals, took, strict=True)]
    print(json.dumps({"files": rows}))
    for task in tasks:
        task.cancel()


async def main() -> None:
    """Serve, or send."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["serve", "send"])
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--times", type=Path)
    chosen = parser.parse_args()
    if chosen.what == "serve":
        server = await asyncio.start_server(receive, "", chosen.port, backlog=1024)
        await server.serve_forever()
    else:
        await send_all(chosen.port, json.loads(chosen.times.read_text()))


if __name__ == "__main__":
    asyncio.run(main())
