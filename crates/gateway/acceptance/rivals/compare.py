"""The gateway beside programs over Multipath TCP, in a bed that shares no code with the lab.

    sudo .venv/bin/python crates/gateway/acceptance/rivals/compare.py --json results/rivals.json
    sudo .venv/bin/python crates/gateway/acceptance/rivals/compare.py --only kill \
        --programs quic,mptcp

Each case has a bed of its own per program (bed.py), which is removed when the script ends, however
it ends (isolation.py). install.py builds the other programs.
"""

import argparse
import contextlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bed import Bed, Network, compiled
from isolation import enter
from measures import Case, Trace, Value, cases, fading, read_trace
from programs import PROGRAMS
from session import Session

NETWORKS = ["25/30+12/70", "300/10+80/30", "100/25+100/25"]
START_S = 4
"""Time for the start of a bed and of a program."""
LATE_MS = 5
"""Lateness of the emulator above which a row gets a note."""
NAME_WIDTH = 12


def main() -> None:
    """Print a table per case and network."""
    chosen = options()
    enter(chosen.congestion_control)
    document: dict[str, Any] = {"head": head(chosen), "results": []}
    save(document, chosen.json)
    for name, value in document["head"].items():
        print(f"# {name}: {value}", flush=True)
    plan = [
        (network, case)
        for place, network in enumerate(chosen.network)
        for case in chosen.cases
        if case.everywhere or place == 0 or chosen.given
    ]
    started = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="anabranch-rivals-") as folder:
            emulator = compiled(Path(folder))
            for number, (network, case) in enumerate(plan):
                report_progress(plan[number:], len(plan), len(chosen.programs))
                table(network, case, chosen, emulator, document)
    except KeyboardInterrupt:
        print("interrupted: everything is removed", file=sys.stderr)
        sys.exit(130)
    print(f"\n# {time.monotonic() - started:.0f} s", flush=True)


def options() -> argparse.Namespace:
    """The options, checked."""
    every = cases([])
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"cases: {', '.join(case.name for case in every)}",
    )
    parser.add_argument("--only", default="", help="cases, by the beginnings of their names")
    parser.add_argument("--programs", default=",".join(PROGRAMS), help="default: %(default)s")
    parser.add_argument(
        "--network",
        type=network,
        action="append",
        help=f"RATE/RTT+RATE/RTT in Mbit/s and ms, for all cases; default: {' and '.join(NETWORKS)}"
        ", all cases in the first and goodput in the others",
    )
    parser.add_argument("--queue-ms", type=float, default=100, help="default: %(default)s")
    parser.add_argument("--congestion-control", default="cubic", help="default: %(default)s")
    parser.add_argument(
        "--trace",
        type=trace,
        default=fading(),
        help="file for `trace`: lines of seconds and Mbit/s",
    )
    parser.add_argument("--json", type=Path, help="file for all values, written after each program")
    chosen = parser.parse_args()
    chosen.given = bool(chosen.network)
    networks = chosen.network or map(Network.parse, NETWORKS)
    chosen.network = [replace(network, queue_ms=chosen.queue_ms) for network in networks]
    beginnings = tuple(chosen.only.split(","))
    chosen.cases = [case for case in cases(chosen.trace) if case.name.startswith(beginnings)]
    chosen.programs = chosen.programs.split(",")
    if not chosen.cases:
        parser.error(f"--only {chosen.only}: no such case; there are {', '.join(names(every))}")
    for name in chosen.programs:
        if name not in PROGRAMS:
            parser.error(f"--programs {name}: there are {', '.join(PROGRAMS)}")
        for file in PROGRAMS[name].files():
            if not file.exists():
                parser.error(f"{name}: {file} is missing: {PROGRAMS[name].remedy}")
    return chosen


def network(text: str) -> Network:
    """A network of the command line."""
    try:
        return Network.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(error) from None


def trace(text: str) -> Trace:
    """A trace of the command line."""
    try:
        return read_trace(Path(text))
    except (ValueError, OSError) as error:
        raise argparse.ArgumentTypeError(error) from None


def names(every: list[Case]) -> Iterator[str]:
    """The cases' names."""
    return (case.name for case in every)


def head(chosen: argparse.Namespace) -> dict[str, str]:
    """Conditions on which figures depend."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "kernel": platform.release(),
        "processors": str(os.cpu_count()),
        "load average at the start": f"{os.getloadavg()[0]:.1f}",
        "congestion control": chosen.congestion_control,
    } | {name: PROGRAMS[name].version() for name in chosen.programs}


def report_progress(left: list[tuple[Network, Case]], total: int, programs: int) -> None:
    """Say which case begins, and how long the rest takes."""
    minutes = sum(case.seconds + START_S for _, case in left) * programs / 60
    case = left[0][1].name
    number = total - len(left) + 1
    print(f"[{number}/{total}] {case}; about {minutes:.0f} min left", file=sys.stderr, flush=True)


def table(
    network: Network,
    case: Case,
    chosen: argparse.Namespace,
    emulator: Path,
    document: dict[str, Any],
) -> None:
    """Run a case with each program, and print its rows."""
    print(f"\n## {case.name}: {case.title}\n{network}", flush=True)
    has_header = False
    for name in chosen.programs:
        begin = time.monotonic()
        result: dict[str, Any] = {"network": str(network), "case": case.name, "program": name}
        result |= {"rows": {}, "notes": []}
        document["results"].append(result)
        try:
            with bed(network, chosen.congestion_control, emulator) as new:
                session = Session.open(new, PROGRAMS[name], chosen.congestion_control)
                for row, values in case.run(session):
                    result["rows"][row] = values
                    shown = {key: v for key, v in values.items() if not isinstance(v, list)}
                    if not has_header:
                        print_row("", "", [padded(key, key) for key in shown])
                        has_header = True
                    print_row(name, row, [padded(key, text(key, shown[key])) for key in shown])
                result["notes"] += notes(session, chosen.congestion_control)
        except (RuntimeError, OSError, subprocess.SubprocessError) as error:
            result["notes"].append(f"failed: {error}")
        for note in result["notes"]:
            print(f"  {name}: {note}", flush=True)
        result |= {"seconds": time.monotonic() - begin, "load": os.getloadavg()[0]}
        print(f"  {name}: {result['seconds']:.0f} s, load {result['load']:.1f}", file=sys.stderr)
        save(document, chosen.json)


def save(document: dict[str, Any], file: Path | None) -> None:
    """Write the JSON document, if there is a file for it."""
    if file:
        file.write_text(json.dumps(document, indent=1) + "\n")


@contextlib.contextmanager
def bed(network: Network, congestion_control: str, emulator: Path) -> Iterator[Bed]:
    """A bed with a folder for its files."""
    with (
        tempfile.TemporaryDirectory(prefix="anabranch-rivals-") as folder,
        Bed(network, congestion_control, emulator, Path(folder)) as new,
    ):
        yield new


def notes(session: Session, congestion_control: str) -> Iterator[str]:
    """Faults during the measurement."""
    if not session.pair.alive():
        yield f"failed: a program has ended: {session.log()}"
    counters = session.bed.counters()
    latest_ms = max(direction["latest_ms"] for direction in counters["directions"])
    if not counters["realtime"]:
        yield "the emulator has no real-time priority"
    if latest_ms > LATE_MS:
        yield f"the emulator was late by up to {latest_ms:.0f} ms"
    if dropped := session.bed.dropped_at_devices():
        yield f"{dropped} packets were dropped before the emulator read them"
    for side, found in session.bed.congestion_control().items():
        if others := found.keys() - {congestion_control}:
            yield f"connections of {side} have {', '.join(others)}"


def print_row(name: str, row: str, cells: list[str]) -> None:
    """A row of a table."""
    print(" ".join([f"{name:{NAME_WIDTH}} {row:8}", *cells]), flush=True)


def padded(key: str, text: str) -> str:
    """A cell of a column."""
    return f"{text:>{max(len(key), 20 if key.endswith('_ms') else 8)}}"


def text(key: str, value: Value) -> str:
    """A value with the digits that its unit deserves."""
    if value is None:
        return "never" if key == "back_s" else "-"
    if isinstance(value, str):
        return value or "none"
    if isinstance(value, tuple):
        return " / ".join(text(key, one) for one in value)
    digits = {"_mbps": 1, "_s": 2, "_gb": 1}
    return f"{value:.{next((n for end, n in digits.items() if key.endswith(end)), 0)}f}"


if __name__ == "__main__":
    main()
