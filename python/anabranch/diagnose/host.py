"""Addresses, routes, queues, limits and counters of a host, as its tools print them.

`ip mptcp endpoint`, `ip mptcp limits`, `ip -br addr`, `ip addr`, `ip rule`, `ip route`,
`ip -s link`, `nstat`, `sysctl`, `tc -s qdisc` of iproute2 4.2 to 7.1, one after the other in any
order, and the JSON of `ip -j mptcp` and `nstat -j`.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

COUNTER = re.compile(r"([A-Z][A-Za-z0-9]*)\s+(\d+)\s+\d+\.\d+")
SYSCTL = re.compile(r"((?:net|kernel|vm|fs)\.[\w./-]+)\s*=\s*(.*)")
ENDPOINT = re.compile(
    r"(?P<address>[0-9a-f.:]+) id (?P<id>\d+)(?P<flags>( (subflow|signal|backup|fullmesh|implicit"
    r"|laminar|rawflags \S+))*)( dev (?P<device>\S+))?"
)
LIMITS = re.compile(r"add_addr_accepted (\d+) subflows (\d+)")
BRIEF = re.compile(r"(?P<device>[\w.@-]+)\s+(UP|DOWN|UNKNOWN|\w*DOWN)\s+(?P<addresses>.*[.:].*)")
RULE = re.compile(r"(\d+):\s*from (\S+)(?:.*?)(?:lookup|table) (\S+)")
DEVICE = re.compile(r"\d+: (?P<device>[^:@\s]+)(?:@\S+)?: <(?P<flags>[^>]*)")
ADDRESS = re.compile(r"inet6? ([0-9a-f.:]+)/\d+.*scope (\w+)")
QDISC = re.compile(r"qdisc (?P<kind>\w+) \S+ dev (?P<device>\S+) (?P<rest>.*)")
CLASS_RATE = re.compile(r"\b(?:rate|bandwidth|maxrate) ([\d.]+)([KMGT]?)bit", re.IGNORECASE)
SHAPERS = ("tbf", "htb", "cake", "fq", "hfsc")
UNITS = {"": 1e-6, "K": 1e-3, "M": 1.0, "G": 1e3, "T": 1e6}


@dataclass(frozen=True)
class Endpoint:
    """An endpoint of `ip mptcp`."""

    address: str
    id: int
    flags: frozenset[str]
    device: str | None


@dataclass(frozen=True)
class Qdisc:
    """A queueing discipline that limits a rate."""

    kind: str
    rate_mbps: float


@dataclass
class Host:
    """Knowledge of a host; None: no input says it."""

    counters: dict[str, int] | None = None
    """Counters of nstat, without the prefix of Multipath TCP's; those that are 0 are missing."""
    endpoints: list[Endpoint] | None = None
    limits: dict[str, int] | None = None
    """`subflows` and `add_addr_accepted`."""
    addresses: dict[str, str] | None = None
    """Device by address, without loopback and link-local addresses."""
    rules: list[tuple[str, str]] | None = None
    """Source and table of each rule, in their order."""
    gateways: dict[tuple[str, str], str] = field(default_factory=dict)
    """Router of the default route, by table and device; "" where it has none."""
    without_router: set[str] = field(default_factory=set)
    """Devices behind which there is one host, such as modems and tunnels."""
    sysctl: dict[str, str] = field(default_factory=dict)
    shapers: dict[str, Qdisc] | None = None
    """Disciplines that limit a rate, by device."""
    sent_bytes: list[dict[str, int]] = field(default_factory=list)
    """Bytes by device, in each `ip -s link`."""
    listening: set[tuple[str, str]] | None = None
    """Protocol and port, by `ss -ltnM`."""

    opened: dict[str, tuple[bool, bool]] = field(default_factory=dict)
    """Whether SYN and SYN/ACK had MP_CAPABLE in a capture, by the listener's port."""

    def buffer_limit(self, name: str) -> int | None:
        """The largest of the three numbers of tcp_rmem or tcp_wmem, bytes."""
        numbers = self.sysctl.get(f"net.ipv4.{name}", "").split()
        return int(numbers[2]) if len(numbers) == 3 and numbers[2].isdigit() else None


def read(text: str, host: Host) -> list[str]:
    """Add what a text says to a host; the names of the formats in it, none if it is unknown."""
    if text.lstrip().startswith(("{", "[")):
        return _read_json(text, host)
    found: dict[str, None] = {}
    device, counting = "", ""
    links: dict[str, int] = {}
    for line in text.splitlines():
        said, device, counting = _read_line(line, host, links, device, counting)
        if said:
            found[said] = None
    if links:
        host.sent_bytes.append(links)
        found["ip -s link"] = None
    return list(found)


def _read_line(
    line: str, host: Host, links: dict[str, int], device: str, counting: str
) -> tuple[str, str, str]:
    """The format of a line, the device that it is about, and the direction of what it counts."""
    text = line.strip()
    if match := COUNTER.fullmatch(text):
        host.counters = host.counters or {}
        name = match[1].removeprefix("MPTcpExt")
        host.counters[name] = max(host.counters.get(name, 0), int(match[2]))
        return "nstat", device, counting
    if text == "#kernel":
        host.counters = host.counters or {}
        return "nstat", device, counting
    if match := SYSCTL.fullmatch(text):
        host.sysctl[match[1].replace("/", ".")] = match[2].strip()
        return "sysctl", device, counting
    if match := LIMITS.fullmatch(text):
        host.limits = {"add_addr_accepted": int(match[1]), "subflows": int(match[2])}
        # Both are usually printed one after the other, and without an endpoint the first is empty.
        host.endpoints = host.endpoints or []
        return "ip mptcp", device, counting
    if match := ENDPOINT.fullmatch(text):
        flags = frozenset(match["flags"].split())
        _endpoint(Endpoint(match["address"], int(match["id"]), flags, match["device"]), host)
        return "ip mptcp", device, counting
    if match := QDISC.match(text):
        host.shapers = host.shapers or {}
        _shaper(match["kind"], match["device"], match["rest"], host.shapers)
        return "tc", device, counting
    if match := DEVICE.match(text):
        if "POINTOPOINT" in match["flags"]:
            host.without_router.add(match["device"])
        return "", match["device"], ""
    if text.startswith(("RX:", "TX:")):
        return "", device, text[:2]
    if counting and device and re.fullmatch(r"\d+(\s+\d+)+", text):
        if counting == "TX":
            links[device] = int(text.split()[0])
        return "", device, ""
    return _read_route(line, host, device), device, counting


def _read_route(line: str, host: Host, device: str) -> str:
    text = line.strip()
    if match := RULE.match(text):
        host.rules = [*(host.rules or []), (match[2], match[3])]
        return "ip rule"
    if device and (match := ADDRESS.match(text)):
        _address(match[1], device, host)
        return "ip addr"
    if match := BRIEF.fullmatch(text):
        host.addresses = host.addresses or {}
        for address in match["addresses"].split():
            _address(address.partition("/")[0], match["device"].partition("@")[0], host)
        return "ip addr"
    words = text.split()
    if "dev" in words[:-1] and not text.startswith("qdisc"):
        of = words[words.index("dev") + 1]
        if words[0] == "default":
            table = words[words.index("table") + 1] if "table" in words[:-1] else "main"
            via = words[words.index("via") + 1] if "via" in words[:-1] else ""
            host.gateways[table, of] = via
        return "ip route"
    return ""


def _endpoint(endpoint: Endpoint, host: Host) -> None:
    others = [one for one in host.endpoints or [] if one.id != endpoint.id]
    host.endpoints = [*others, endpoint]


def _address(address: str, device: str, host: Host) -> None:
    host.addresses = host.addresses or {}
    if not address.startswith(("127.", "169.254.", "fe80:")) and address != "::1":
        host.addresses[address] = device


def _shaper(kind: str, device: str, rest: str, shapers: dict[str, Qdisc]) -> None:
    rate = CLASS_RATE.search(rest)
    if kind in SHAPERS and rate:
        shapers[device] = Qdisc(kind, float(rate[1]) * UNITS[rate[2].upper()])


def _read_json(text: str, host: Host) -> list[str]:
    """The JSON of `ip -j mptcp endpoint`, `ip -j mptcp limits` and `nstat -j`."""
    try:
        document = json.loads(text)
    except ValueError:
        return []
    found = []
    for one in _objects(document):
        if isinstance(kernel := one.get("kernel"), dict):
            host.counters = host.counters or {}
            for name, value in kernel.items():
                host.counters[name.removeprefix("MPTcpExt")] = int(value)
            found.append("nstat -j")
        elif "add_addr_accepted" in one:
            host.limits = {
                "add_addr_accepted": int(one["add_addr_accepted"]),
                "subflows": int(one.get("subflows", 0)),
            }
            found.append("ip -j mptcp")
        elif "address" in one and "id" in one:
            flags = frozenset(one.get("flags", ()))
            _endpoint(Endpoint(one["address"], int(one["id"]), flags, one.get("dev")), host)
            found.append("ip -j mptcp")
    return list(dict.fromkeys(found))


def _objects(document: Any) -> Iterator[dict[str, Any]]:
    for one in document if isinstance(document, list) else [document]:
        if isinstance(one, dict):
            yield one
