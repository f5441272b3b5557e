"""Goodput to expect after a remedy, and the sizes that it needs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.diagnose.case import Case, Finding
from anabranch.diagnose.connection import Path
from anabranch.diagnose.host import Host

MULTIPATH_SHARE = 0.95
"""Payload of a packet with the options of Multipath TCP, as a share of what a contract counts."""
TCP_SHARE = 0.965
ALONE_TOO = frozenset(
    {
        "application",
        "loss",
        "mtu-black-hole",
        "own-shaper",
        "pacing",
        "policer",
        "receive-buffer",
        "send-buffer",
        "wrong-route",
    }
)
"""Causes that hold for one path alone, so that its goodput alone is no expectation."""
HOLDS = frozenset(
    {"backup-flag", "loss", "mtu-black-hole", "own-shaper", "pacing", "path-dead", "policer",
     "wrong-route"}
)  # fmt: skip
"""Causes that hold one path at its rate now, if another cause is mended."""
SENT_SHARE = 0.7
"""Payload under way in a full send buffer: a writer is woken at a third free."""
RECEIVED_SHARE = 0.6
"""Receive window of a receive buffer."""
AS_NOW = frozenset({"none", "path-dead", "shared-bottleneck"})
WINDOWS = 4
"""Sizes of a buffer: the kernel counts twice the payload, and a loss holds data for another RTT."""
DEFAULTS = {"tcp_rmem": "4096 131072", "tcp_wmem": "4096 16384"}


@dataclass(frozen=True)
class Expected:
    """A goodput, and what it is from."""

    mbps: float
    source: str
    at_least: bool = False


def fastest(case: Case) -> Path:
    """The path with the smallest RTT, of equal ones that with most bytes."""
    return min(case.paths, key=lambda p: (case.rtt_ms(p), -p.last.number("bytes_acked")))


def link_mbps(case: Case, path: Path, *, policed: bool = False) -> float:
    """Rate of the link of a path: by contract, alone, or as measured.

    A policer gives less than the contract says, and is never full.
    """
    device = path.device or ""
    by_contract = None if policed else case.evidence.links_mbps.get(device)
    alone = case.evidence.alone_mbps.get(device)
    if by_contract is not None:
        return by_contract
    rate = (path.rate_mbps or 0.0) / MULTIPATH_SHARE
    if alone is not None:
        return max(alone / TCP_SHARE, rate) if policed else alone / TCP_SHARE
    return rate


def expected(case: Case, finding: Finding, also: Sequence[Finding] = ()) -> Expected | None:
    """Goodput after the remedy of a finding, with what `also` fires unchanged; None: as unknown."""
    now = case.evidence.goodput_mbps or case.connection.goodput_mbps
    if finding.id in AS_NOW or (finding.id == "bufferbloat" and not case.starved):
        return Expected(now, "as now") if now is not None else None
    left = {finding.path.device} if finding.id == "slow-path-blocks" and finding.path else set()
    held = [one.path for one in also if one.id in HOLDS]
    share = MULTIPATH_SHARE if len(case.paths) > 1 or finding.id != "none" else TCP_SHARE
    alone = case.evidence.alone_mbps
    devices = {path.device for path in case.paths}
    if rates := {d: share * r for d, r in case.evidence.links_mbps.items() if d not in left}:
        source = "--link"
        if finding.id not in ALONE_TOO:
            rates = {d: min(r, alone.get(d, r)) for d, r in rates.items()}
        if finding.id == "policer" and finding.path and finding.path.device in rates:
            rates[finding.path.device] = share * link_mbps(case, finding.path, policed=True)
    elif finding.id not in ALONE_TOO and len(alone) > 1 and devices <= set(alone):
        source, rates = "the paths alone", {d: r for d, r in alone.items() if d not in left}
    else:
        seen = [path.rate_mbps or 0.0 for path in case.paths if path.device not in left]
        return Expected(sum(seen), "the rates now", at_least=True) if any(seen) else None
    for path in case.paths:
        if path.device in rates:
            most = path.rate_mbps if path in held else _sent_mbps(case, finding, path)
            rates[path.device] = min(rates[path.device], most if most is not None else math.inf)
    return Expected(min(sum(rates.values()), _received_mbps(case, finding)), source)


def _sent_mbps(case: Case, finding: Finding, path: Path) -> float:
    """Rate of a path at which its send buffer is full, unless that is what is mended."""
    largest, rtt = case.evidence.here.buffer_limit("tcp_wmem"), path.last.number("minrtt")
    if largest is None or not rtt or finding.id == "send-buffer":
        return math.inf
    return SENT_SHARE * largest * 8e-3 / rtt


def _received_mbps(case: Case, finding: Finding) -> float:
    """Goodput at which the receive window is full, unless that is what is mended."""
    largest = case.evidence.peer.buffer_limit("tcp_rmem")
    paths = [p for p in case.paths if finding.id != "slow-path-blocks" or p is not finding.path]
    rtt = max((case.rtt_ms(path) for path in paths), default=0.0)
    if largest is None or not rtt or finding.id in ("receive-buffer", "bufferbloat"):
        return math.inf
    return RECEIVED_SHARE * largest * 8e-3 / rtt


def receive_command(case: Case) -> str:
    """Command for a receive buffer for the window that the sum of the links needs."""
    total = sum(link_mbps(case, path) for path in case.paths)
    delay = max(max(case.delay_ms(path), _full_ms(path)) for path in case.paths)
    return _sysctl("tcp_rmem", WINDOWS * total * delay * 125, case.evidence.peer)


def send_command(case: Case) -> str:
    """Command for a send buffer for the path that needs most."""
    needed = [
        link_mbps(case, path) * max(case.rtt_ms(path), _full_ms(path)) * 125 for path in case.paths
    ]
    return _sysctl("tcp_wmem", WINDOWS * max(needed), case.evidence.here)


def _full_ms(path: Path) -> float:
    """RTT with a queue of one bandwidth-delay product, which a path has once it is full."""
    return 2 * max(moment.number("minrtt") for moment in path.moments)


def _sysctl(name: str, needed: float, host: Host) -> str:
    size = 1 << 20
    # A buffer that is full is not made smaller.
    while size < max(needed, 2 * (host.buffer_limit(name) or 0)):
        size *= 2
    return f"sysctl -w net.ipv4.{name}='{DEFAULTS[name]} {size}'"
