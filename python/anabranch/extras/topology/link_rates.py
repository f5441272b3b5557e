"""The rate of a link by the attributes that the Internet Topology Zoo gives an edge."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

OC1_MBPS = 51.84
"""SONET's STS-1 (ANSI T1.105); SDH's STM-1 is three of it (ITU-T G.707)."""

DIGITAL_MBPS = {
    **{"T1": 1.544, "DS1": 1.544, "T3": 44.736, "DS3": 44.736},
    **{"E1": 2.048, "E3": 34.368, "E4": 139.264},
}
"""Rates of the plesiochronous hierarchies (ITU-T G.702)."""

PREFIX_MBPS = {"K": 1e-3, "M": 1.0, "G": 1e3, "T": 1e6}

SONET = re.compile(r"(?<![A-Za-z])(OC|STM)[-\s]?(\d+)", re.IGNORECASE)
DIGITAL = re.compile(rf"(?<!\w)({'|'.join(DIGITAL_MBPS)})(?!\w)")
PLAIN = re.compile(
    r"(?<![\w.])(\d+(?:\.\d+)?)\s*-?([KMGT])"
    r"(?:b|bps|bit|bits|bit/s|bits/s|b/s|bp/s|E|bE|igE|ig|igabit|igabit Ethernet| Ethernet)?(?!\w)",
    re.IGNORECASE,
)
ETHERNET = re.compile(
    r"(?<![\w.])(GigE|GbE|GE|Gigabit Ethernet|Fast ?Ethernet)(?!\w)", re.IGNORECASE
)
TIMES = re.compile(r"(?<!\w)(\w+)\s*(?:[*×]|\bx)\s*(?=[A-Za-z\d])", re.IGNORECASE)
RANGE = re.compile(r"(?<![A-Za-z\d-])\d+(?:\.\d+)?\s*[KMGT]?\w{0,3}\s*-\s*\d", re.IGNORECASE)
BOUND = re.compile(r"^\s*(<|up to)", re.IGNORECASE)

LABELS = ("LinkLabel", "LinkType", "label", "bandwidth", "capacity")
"""Attributes whose text may name a rate, the first that does counts."""


@dataclass(frozen=True)
class Rate:
    """A rate, and what a reader must know of it; "" where nothing."""

    mbps: float
    remark: str = ""


def of_edge(edge: Mapping[str, Any]) -> Rate | None:
    """The rate of an edge; None where it has none, or several. Raises ValueError.

    `rate_mbps`, else `LinkSpeedRaw` (bit/s), else `LinkSpeed` with `LinkSpeedUnits`, else what the
    label says.
    """
    label = next((str(edge[name]) for name in LABELS if edge.get(name)), "")
    bound = f"the label says {label!r}, an upper bound" if BOUND.match(label) else ""
    if "rate_mbps" in edge:
        return Rate(float(edge["rate_mbps"]))
    if edge.get("LinkSpeedRaw"):
        return Rate(float(edge["LinkSpeedRaw"]) / 1e6, bound)
    units = str(edge.get("LinkSpeedUnits", ""))[:1].upper()
    if edge.get("LinkSpeed") and units in PREFIX_MBPS:
        return Rate(float(edge["LinkSpeed"]) * PREFIX_MBPS[units], bound)
    for name in LABELS:
        text = str(edge.get(name) or "")
        if (mbps := in_text(text)) is not None:
            return Rate(mbps, bound or f"by the label {text!r}")
    return None


def in_text(text: str) -> float | None:
    """The rate that a text names, Mbps; None where it names none, several or a range.

    >>> in_text("OC-192c"), in_text("< 2.5 Gbps"), in_text("10GE"), in_text("2 x STM-16")
    (9953.28, 2500.0, 10000.0, 4976.64)
    >>> in_text("10-20Gbps"), in_text("N*10Gbit/s"), in_text("DWDM")
    (None, None, None)
    """
    if RANGE.search(text):
        return None
    count = 1
    if times := TIMES.search(text):
        if not times[1].isdigit():
            return None
        count, text = int(times[1]), text[: times.start()] + text[times.end() :]
    found = {OC1_MBPS * int(n) * (3 if k.upper() == "STM" else 1) for k, n in SONET.findall(text)}
    rest = SONET.sub(" ", text)
    found |= {DIGITAL_MBPS[name] for name in DIGITAL.findall(rest)}
    found |= {float(n) * PREFIX_MBPS[unit.upper()] for n, unit in PLAIN.findall(rest)}
    rest = PLAIN.sub(" ", rest)
    found |= {100.0 if name[0] in "fF" else 1000.0 for name in ETHERNET.findall(rest)}
    return round(count * found.pop(), 6) if len(found) == 1 else None
