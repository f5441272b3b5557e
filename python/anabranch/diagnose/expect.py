"""Goodput to expect after a remedy, and the sizes that it needs."""

from dataclasses import dataclass

from anabranch.diagnose.case import Case, Finding
from anabranch.diagnose.connection import Path

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


def expected(case: Case, finding: Finding) -> Expected | None:
    """Goodput after the remedy of a finding; None where there is nothing to expect."""
    now = case.evidence.goodput_mbps or case.connection.goodput_mbps
    multipath = len(case.paths) > 1 or finding.id != "none"
    share = MULTIPATH_SHARE if multipath else TCP_SHARE
    if finding.id in AS_NOW or (finding.id == "bufferbloat" and not case.starved):
        return Expected(now, "as now") if now is not None else None
    if finding.id == "slow-path-blocks":
        return _of_path(case, fastest(case), share)
    links = case.evidence.links_mbps
    if links:
        of_links = dict(links)
        if finding.id == "policer" and finding.path and finding.path.device in of_links:
            of_links[finding.path.device] = link_mbps(case, finding.path, policed=True)
        return Expected(share * sum(of_links.values()), "--link")
    alone = case.evidence.alone_mbps
    devices = {path.device for path in case.paths}
    if finding.id not in ALONE_TOO and len(alone) > 1 and devices <= set(alone):
        return Expected(sum(alone.values()), "the paths alone")
    rates = sum(path.rate_mbps or 0.0 for path in case.paths)
    return Expected(rates, "the rates now", at_least=True) if rates else None


def _of_path(case: Case, path: Path, share: float) -> Expected | None:
    device = path.device or ""
    if device in case.evidence.links_mbps:
        return Expected(share * case.evidence.links_mbps[device], "--link")
    if device in case.evidence.alone_mbps:
        return Expected(case.evidence.alone_mbps[device], f"{path.name} alone")
    rate = path.rate_mbps
    return Expected(rate, "its rate now", at_least=True) if rate else None


def receive_command(case: Case) -> str:
    """Command for a receive buffer for the window that the sum of the links needs."""
    total = sum(link_mbps(case, path) for path in case.paths)
    delay = max(max(case.delay_ms(path), _full_ms(path)) for path in case.paths)
    return _sysctl("tcp_rmem", WINDOWS * total * delay * 125)


def send_command(case: Case) -> str:
    """Command for a send buffer for the path that needs most."""
    needed = [
        link_mbps(case, path) * max(case.rtt_ms(path), _full_ms(path)) * 125 for path in case.paths
    ]
    return _sysctl("tcp_wmem", WINDOWS * max(needed))


def _full_ms(path: Path) -> float:
    """RTT with a queue of one bandwidth-delay product, which a path has once it is full."""
    return 2 * max(moment.number("minrtt") for moment in path.moments)


def _sysctl(name: str, needed: float) -> str:
    size = 1 << 20
    while size < needed:
        size *= 2
    return f"sysctl -w net.ipv4.{name}='{DEFAULTS[name]} {size}'"
