"""Measurements: cases, each in a bed of its own, which yield rows of a table.

Every number's unit ends its name. Three numbers are the median, the 95 % quantile and the maximum.
"""

import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from series import Three, three
from session import Session

Value = float | str | Three | list[float] | None
Trace = list[tuple[float, float]]
"""Steps of seconds and Mbit/s."""
Row = tuple[str, dict[str, Value]]
"""A name, empty if the case has one row, and named values; the table leaves lists out."""

GOODPUT_WARM_S, WARM_S = 2, 3
RUNS = (("down", 1, 6), ("down", 4, 12), ("up", 1, 6), ("up", 4, 6))
"""Direction, connections and seconds of the runs for goodput; four downloads take longer, for a
processor time that is counted in 0.01 s."""
SIZES = {"10 kB": 10**4, "100 kB": 10**5, "1 MB": 10**6, "10 MB": 10**7}
FILES = 20
TOUCH_S = 5
IMPAIRED_S = WARM_S + TOUCH_S + 2
CONNECTIONS = 4
"""Downloads in all cases that do not say otherwise."""
SECOND = 2
"""The link that some cases impair."""


@dataclass(frozen=True)
class Case:
    """A measurement."""

    name: str
    title: str
    seconds: float
    """About how long it takes, without the start."""
    run: Callable[[Session], Iterator[Row]]
    everywhere: bool = False
    """Whether it runs in every network, or only in the first."""


def goodput(session: Session) -> Iterator[Row]:
    """Goodput; processor time of the four downloads; memory at the end."""
    values: dict[str, Value] = {}
    costs: dict[str, Value] = {}
    for direction, connections, seconds in RUNS:
        bulk = session.bulk(direction, connections, seconds)
        bulk.sleep_until(GOODPUT_WARM_S)
        before = _cpu_s(session)
        bulk.sleep_until(seconds - 0.5)
        used = [after - before for before, after in zip(before, _cpu_s(session), strict=True)]
        controls = session.bed.congestion_control()
        series = bulk.finish()
        begin, end = bulk.begin + GOODPUT_WARM_S, bulk.begin + seconds - 0.5
        values[f"{direction}_{connections}_mbps"] = series.mbps(begin, end)
        if (direction, connections) == ("down", 4):
            costs["stall_worst_s"] = series.stalls_s(begin, end, connections)[1]
            costs |= _per_gb(series.received(begin, end), used)
            costs |= {f"tcp_of_{side}": _counts(found) for side, found in controls.items()}
    near, far = session.pair.rss_mb()
    yield "", values | {"near_rss_mb": near, "far_rss_mb": far} | costs


def _cpu_s(session: Session) -> tuple[float, float, float]:
    return *session.pair.cpu_s(), session.bed.emulator_cpu_s()


def _per_gb(received: int, used: list[float]) -> dict[str, Value]:
    """Processor time per GB that has arrived, of both programs and of the emulator.

    The emulator's includes what the kernels of the hosts do with the packets that it writes.
    """
    parts = zip(("near", "far", "emulator"), used, strict=True)
    return {f"{part}_s_per_gb": s / (received / 1e9) for part, s in parts if received}


def _counts(found: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in found.items())


def completion(session: Session) -> Iterator[Row]:
    """Completion times of fresh connections by size."""
    for name, size in SIZES.items():
        yield name, {"complete_ms": three(session.files_ms(size, FILES))}


def latency(session: Session) -> Iterator[Row]:
    """New connections and keystrokes, alone and beside two bulk connections."""
    yield "idle", _touched(session) | {"bulk_mbps": None}
    for direction in ("down", "up"):
        bulk = session.bulk(direction, 2)
        bulk.sleep_until(WARM_S)
        values = _touched(session)
        end = bulk.begin + WARM_S + TOUCH_S
        yield f"2 {direction}", values | {"bulk_mbps": bulk.stop().mbps(end - TOUCH_S, end)}


def _touched(session: Session) -> dict[str, Value]:
    opens, keys = session.touch_ms(TOUCH_S)
    return {"new_ms": three(opens), "key_ms": three(keys)}


def fault(
    which: str, times_s: tuple[float, float, float], broken: dict[str, float], session: Session
) -> Iterator[Row]:
    """Four downloads, and when the fast or slow link breaks, works again, and they end."""
    begin_s, end_s, seconds = times_s
    link = session.bed.network.numbers()[which]
    bulk = session.bulk("down", CONNECTIONS, seconds)
    bulk.sleep_until(begin_s)
    session.bed.set(link, **broken)
    bulk.sleep_until(end_s)
    session.bed.set(link, **dict.fromkeys(broken, 0))
    series = bulk.finish()
    at = bulk.begin
    normal = series.mbps(at + WARM_S - 1, at + begin_s)
    stalls = series.stalls_s(at + begin_s - 1, at + bulk.seconds, CONNECTIONS)
    yield (
        "",
        {
            "stall_all_s": stalls[0],
            "stall_worst_s": stalls[1],
            "before_mbps": normal,
            "broken_mbps": series.mbps(at + begin_s, at + end_s),
            "back_s": series.back_s(normal, at + end_s, at + bulk.seconds),
            "ended": series.ended_before(at + bulk.seconds),
            "seconds_mbps": [series.mbps(at + s, at + s + 1) for s in range(int(seconds))],
        },
    )


def impaired(impair: Callable[[Session], None], session: Session) -> Iterator[Row]:
    """Four downloads beside new connections and keystrokes while the second link is impaired."""
    impair(session)
    bulk = session.bulk("down", CONNECTIONS)
    bulk.sleep_until(WARM_S)
    touched = _touched(session)
    bulk.sleep_until(IMPAIRED_S)
    series, begin, end = bulk.stop(), bulk.begin + WARM_S, bulk.begin + IMPAIRED_S
    stalls = series.stalls_s(begin, end, CONNECTIONS)
    values: dict[str, Value] = {"bulk_mbps": series.mbps(begin, end)}
    values |= {"stall_all_s": stalls[0], "stall_worst_s": stalls[1]} | touched
    yield "", values | {"ended": series.ended_before(end)}


def bloat(session: Session) -> None:
    """Give the second link a queue of 2 s."""
    session.bed.set_queue(SECOND, 2000)


def reorder(session: Session) -> None:
    """Let a tenth of the packets arrive later than they should."""
    session.bed.set(SECOND, reordered=0.1, late_ms=20)


def loss(percent: float, session: Session) -> None:
    """Lose packets at random."""
    session.bed.set(SECOND, loss=percent / 100)


def varying(trace: Trace, session: Session) -> None:
    """Let the rate of the second link follow a trace, again and again, with a queue of 300 ms."""
    session.bed.set_queue(SECOND, 300)
    session.bed.meanwhile(partial(_replay, session, trace))


def _replay(session: Session, trace: Trace, closing: threading.Event) -> None:
    while True:
        for seconds, mbps in trace:
            session.bed.set(SECOND, rate=mbps * 1e6)
            if closing.wait(seconds):
                return


def read_trace(file: Path) -> Trace:
    """A trace from a file of lines `SECONDS MBPS`."""
    trace = []
    for number, line in enumerate(file.read_text().splitlines(), 1):
        words = line.split()
        if len(words) != 2 or not all(re.fullmatch(r"\d*\.?\d+", word) for word in words):
            raise ValueError(f"{file}:{number}: expected seconds and Mbit/s, such as 0.1 14.2")
        # At a rate of 0 a packet would never leave.
        trace.append((float(words[0]), max(0.01, float(words[1]))))
    return trace


def fading() -> Trace:
    """A trace as LTE may give it: a random walk of 60 s, and every 8 s a fade of 0.5 s."""
    draw = random.Random(1)
    rate = 14.0
    trace = []
    for step in range(600):
        rate = min(28, max(4, rate * draw.uniform(0.85, 1 / 0.85)))
        trace.append((0.1, 1 if step % 80 >= 75 else rate))
    return trace


def cases(trace: Trace) -> list[Case]:
    """All cases, in their order."""
    kills = [
        Case(
            f"kill-{which}",
            f"the {which} link is a black hole from 5 to 11 s, 4 downloads",
            20,
            partial(fault, which, (5, 11, 20), {"dead": 1}),
        )
        for which in ("fast", "slow")
    ]
    zombies = [
        Case(
            f"zombie-{which}",
            f"the {which} link delays by 3 s more from 6 to 15 s, 4 downloads",
            21,
            partial(fault, which, (6, 15, 21), {"extra_ms": 3000}),
        )
        for which in ("fast", "slow")
    ]
    impairments: list[tuple[str, str, Callable[[Session], None]]] = [
        ("bloat", "a queue of 2 s", bloat),
        ("reorder", "10 % of the packets up to 20 ms late", reorder),
        ("loss-1", "1 % random loss", partial(loss, 1)),
        ("loss-3", "3 % random loss", partial(loss, 3)),
        ("trace", "a rate that varies, a queue of 300 ms", partial(varying, trace)),
    ]
    return [
        Case("goodput", "1 and 4 connections; processor, memory", 30, goodput, everywhere=True),
        Case("completion", f"{FILES} fresh connections of each size", 65, completion),
        Case("latency", "new connection with a byte; keystroke", 5 + 2 * 9, latency),
        *kills,
        *zombies,
        *(
            Case(
                name,
                f"link {SECOND} has {what}, 4 downloads",
                IMPAIRED_S,
                partial(impaired, impair),
            )
            for name, what, impair in impairments
        ),
    ]
