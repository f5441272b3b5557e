"""The columns of a CSV trace by their names, in the units that the names say."""

import re

from anabranch.scenario import ScenarioError

UNITS = {
    "time_s": ("time", {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6}),
    "rate_mbps": (
        "rate|throughput|bandwidth|goodput|",
        {"mbps": 1.0, "kbps": 1e-3, "bps": 1e-6, "gbps": 1e3, "mbit/s": 1.0, "kbit/s": 1e-3}
        | {"bit/s": 1e-6, "gbit/s": 1e3},
    ),
    "delay_ms": ("delay|latency", {"ms": 1.0, "s": 1e3, "us": 1e-3}),
    "loss": ("loss", {"": 1.0, "percent": 0.01, "%": 0.01}),
}
"""Per column of a trace, the words for it and the factors of its units."""

EXPECTED = "expected time_s and some of rate_mbps, delay_ms, loss"


def separator(header: str) -> str:
    """Separator of the columns of a header."""
    return next((each for each in ",;\t" if each in header), ",")


def columns(names: list[str]) -> list[tuple[str, float]]:
    """For each name the column of a trace and the factor to its unit. Raises `ScenarioError`."""
    found = [_column(name) for name in names]
    own = [column for column, _ in found]
    if "time_s" not in own or len(own) < 2:
        raise ScenarioError(f"line 1: {EXPECTED}, got {', '.join(names)}")
    for column in own:
        if own.count(column) > 1:
            both = [name for name, place in zip(names, own, strict=True) if place == column]
            raise ScenarioError(f"line 1: {' and '.join(both)} are both {column}: keep one")
    return found


def _column(name: str) -> tuple[str, float]:
    plain = re.sub(r"[_\s()\[\]]+", "_", name.strip().lower()).strip("_")
    for column, (words, units) in UNITS.items():
        for word in words.split("|"):
            for unit, factor in units.items():
                if plain == "_".join(part for part in (word, unit) if part):
                    return column, factor
            if word and plain == word:
                named = ", ".join(f"{word}_{unit}" for unit in units)
                raise ScenarioError(f"line 1: column {name!r}: in which unit? Call it {named}")
    raise ScenarioError(f"line 1: unknown column {name!r}: {EXPECTED}")
