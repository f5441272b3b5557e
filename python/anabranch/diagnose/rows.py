"""The causes in the order in which they are asked; the first that fires is the answer.

Thresholds are those that separate 21 situations whose cause is known
(`tests/diagnose/situations.tar.gz`); each constant says what it separates.
"""

from collections.abc import Callable

from anabranch.diagnose import expect
from anabranch.diagnose.case import (
    Answer,
    Case,
    Command,
    Confidence,
    Fact,
    Finding,
    Missing,
    mbps,
    ms,
)
from anabranch.diagnose.connection import LITTLE_BYTES, PACED, Path
from anabranch.diagnose.host import Endpoint

BACKUP_SHARE = 0.01
"""A backup has less of the bytes."""
DEAD_MS = 1000.0
"""A path that lives is acknowledged within it, and within `DEAD_RTTS`."""
DEAD_RTTS = 4.0
ROUTE_SHARE = 0.1
"""A device that carries a path has sent more of the path's bytes."""
PACED_SHARE = 0.8
SHAPED_SHARE = 0.75
MEANT_SHARE = 0.9
"""A shaper with more of the link's rate keeps its queue short, and takes nothing."""
EMPTY_BUFFER = 0.6
"""A full send buffer holds two thirds to all of its size: a writer is woken at a third free."""
EMPTY_SAMPLES = 0.2
"""Share of the samples: the first ones of a connection find a buffer that grows."""
BLOAT_MS = 100.0
"""A queue that calls and games feel."""
FULL_BLOAT_MS = 200.0
"""The same where no goodput is lost."""
BLOAT_RTTS = 4.0
"""A drop-tail queue of one bandwidth-delay product doubles the RTT, of two triples it."""
SLOWER = 4.0
"""Below this ratio of RTTs the sum needs four windows of the fast path, which defaults have."""
EMPTY_QUEUE = 0.25
"""Share of the least RTT: with less queue CUBIC does not fill a link."""
UNUSUAL = 5
"""One of so many samples may have more queue, such as those of slow start."""
SEVERAL_LOSSES = 8
POLICED_SHARE = 0.03
POLICED_TIMES = 5.0
"""Random loss is alike early and late; a policer drops the overshoot of slow start."""
EARLY_BYTES = 250_000
"""With less the share that was lost says little."""
LATE_SHARE = 0.8
"""At most as much of the bytes had been sent at the earliest output."""
SHARED_OF_SUM = 0.87
SHARED_OF_OTHER = 0.7
SHARED_CORRELATION = 0.8
SERIES = 12
"""Samples of both RTTs whose correlation says something."""

ENDPOINTS = "ip mptcp endpoint; ip mptcp limits"


def plain_tcp(case: Case) -> Answer:
    """A program that does not use Multipath TCP on a host with several addresses."""
    if case.connection.is_multipath:
        return None
    addresses = case.evidence.here.addresses
    if addresses is None:
        return Missing("plain-tcp", "ip -br addr", "whether this host has a second address")
    devices = sorted(set(addresses.values()))
    if len(devices) < 2:
        return None
    path = case.paths[0]
    others = [device for device in devices if device != path.device]
    return Finding(
        "plain-tcp",
        (Fact("tcp-ulp-mptcp", "missing"), Fact("devices with an address", ", ".join(devices))),
        "certain",
        path,
        {"fast": path.name, "slow": ", ".join(others)},
    )


def fell_back(case: Case) -> Answer:
    """A peer, or a box on the way, without Multipath TCP."""
    if not case.connection.fell_back:
        return None
    flags = case.paths[0].flags if case.paths else ""
    facts = [Fact("flags", flags or "none", "without M, the peer's key")]
    listening = case.evidence.peer.listening
    port = case.connection.port
    if listening is not None and ("mptcp", port) in listening:
        facts.append(Fact("peer's ss -ltnM", f"mptcp on port {port}"))
        return Finding("options-stripped", tuple(facts), "certain")
    if listening is not None and ("tcp", port) in listening:
        facts.append(Fact("peer's ss -ltnM", f"tcp alone on port {port}"))
        remedy = (Command("peer", "mptcpize run PROGRAM, where PROGRAM is the server"),)
        return Finding("peer-without-mptcp", tuple(facts), "certain", remedy=remedy)
    if port in case.evidence.peer.opened:
        asked, answered = case.evidence.peer.opened[port]
        facts.append(Fact("the peer's capture", f"SYN with{'' if asked else 'out'} MP_CAPABLE",
                          f"SYN/ACK with{'' if answered else 'out'}"))  # fmt: skip
        if asked and not answered:
            remedy = (Command("peer", "mptcpize run PROGRAM, where PROGRAM is the server"),)
            return Finding("peer-without-mptcp", tuple(facts), "certain", remedy=remedy)
        return Finding("options-stripped", tuple(facts), "certain")
    why = "whether the peer's program uses Multipath TCP, or a box strips it (peer-without-mptcp, "
    return Missing("options-stripped", "ss -ltnM, at the peer", why + "options-stripped)")


def second_path(case: Case) -> Answer:
    """A second path that was not tried, or not answered."""
    if not case.connection.is_multipath or case.connection.fell_back:
        return None
    here = case.evidence.here
    counters = here.counters or {}
    joining = [path for path in case.connection.paths if path.joining]
    sent, answered = counters.get("MPJoinSynTx", 0), counters.get("MPJoinSynAckRx", 0)
    if joining:
        facts = (Fact("state", "SYN-SENT"), Fact("MPJoinSynTx", str(sent), f"> {answered} answers"))
        return _dead(case, joining[0], facts)
    if len(case.paths) > 1:
        return _unused(case)
    if sent > answered:
        return _dead(case, None, (Fact("MPJoinSynTx", str(sent), f"> {answered} MPJoinSynAckRx"),))
    addresses = here.addresses
    if addresses is not None and len(set(addresses.values())) < 2 and not counters.get("AddAddr"):
        return None
    if here.endpoints is None or here.limits is None:
        return Missing("no-endpoint", ENDPOINTS, "why there is one subflow only")
    return _untried(case, case.paths[0])


def _dead(case: Case, path: Path | None, facts: tuple[Fact, ...]) -> Finding:
    named = path or next(iter(case.connection.paths))
    values = {"path": path.name if path else "the second path"}
    values["device"] = (path.device if path else None) or "DEVICE"
    values["id"] = case.endpoint_id(named) if path else "N"
    return Finding("path-dead", facts, "certain", path, values)


def _wanted(case: Case) -> list[Endpoint]:
    """Endpoints for subflows, of the connection's family, from which there is none."""
    used = {path.address for path in case.paths}
    families = {":" in address for address in used}
    return [
        one for one in case.evidence.here.endpoints or ()
        if one.flags & {"subflow", "fullmesh"} and one.address not in used
        and (":" in one.address) in families
    ]  # fmt: skip


def _limits(case: Case, wanted: list[Endpoint]) -> Finding | None:
    limit, more = (case.evidence.here.limits or {}).get("subflows"), len(case.paths) - 1
    if not wanted or limit is None or limit > more:
        return None
    facts = (Fact("limit of subflows", f"{limit}"), Fact("endpoint", wanted[0].address))
    return Finding("limits-forbid", facts, "certain", None, {}, _raised(more + len(wanted)))


def _raised(needed: int) -> tuple[Command, ...]:
    needed = max(2, needed)
    command = f"ip mptcp limits set subflow {needed} add_addr_accepted {needed}"
    return (Command("this host", command),)


def _unused(case: Case) -> Answer:
    """A further path of a connection that has several."""
    here = case.evidence.here
    if limits := _limits(case, wanted := _wanted(case)):
        return limits
    tried = {one.address for one in wanted} | {path.address for path in case.paths}
    # Addresses of other networks are no paths; those of --link are.
    counted = [
        (address, device) for address, device in (here.addresses or {}).items()
        if device in case.evidence.links_mbps and address not in tried and ":" not in address
        and device not in {path.device for path in case.paths}
    ]  # fmt: skip
    return _added(*counted[0], len(case.paths)) if counted and here.endpoints is not None else None


def _added(address: str, device: str, subflows: int) -> Finding:
    facts = (Fact("subflows", f"{subflows}"), Fact(f"endpoint of {device}", "missing"))
    command = f"ip mptcp endpoint add {address} dev {device} subflow"
    return Finding("no-endpoint", facts, "certain", remedy=(Command("this host", command),))


def _untried(case: Case, used: Path) -> Answer:
    here = case.evidence.here
    limits = here.limits or {}
    counters = here.counters
    if forbidden := _limits(case, wanted := _wanted(case)):
        return forbidden
    addresses = here.addresses or {}
    if wanted and addresses and not any(one.address in addresses for one in wanted):
        one = wanted[0]
        facts = (Fact("endpoint", one.address), Fact("addresses", ", ".join(sorted(addresses))))
        command = f"ip mptcp endpoint delete id {one.id}, and add the address that the device has"
        return Finding("endpoint-without-device", facts, "certain", None, {"command": command})
    if wanted:
        return Missing("path-dead", "nstat -az | grep MPTcpExt", "whether the join was tried")
    if (counters or {}).get("AddAddr") and limits["add_addr_accepted"] == 0:
        facts = (Fact("AddAddr", str((counters or {})["AddAddr"])), Fact("add_addr_accepted", "0"))
        return Finding("add-addr-not-accepted", facts, "certain", remedy=_raised(2))
    if counters is None and limits["add_addr_accepted"] == 0:
        return Missing(
            "add-addr-not-accepted", "nstat -az", "whether the peer announced an address"
        )
    # A device with a default route leads to the Internet; a bridge of containers does not.
    routed = {device for _, device in here.gateways}
    others = [(a, d) for a, d in addresses.items() if d != used.device]
    others.sort(key=lambda one: (one[1] not in routed, ":" in one[0]))
    return _added(*(others[0] if others else ("ADDRESS", "DEVICE")), 1)


def backup(case: Case) -> Answer:
    """A path that is a backup."""
    total = sum(path.last.number("bytes_acked") for path in case.paths)
    for path in case.paths:
        flag = next((f for f in "bB" if f in path.flags), "")
        if flag and path.last.number("bytes_acked") < BACKUP_SHARE * total:
            facts = (Fact("flags", path.flags, f"with {flag}"), Fact("bytes_acked",
                     f"{path.last.number('bytes_acked'):.0f}", f"of {total:.0f}"))  # fmt: skip
            values = {"path": path.name, "id": case.endpoint_id(path)}
            command = f"ip mptcp endpoint change id {values['id']} nobackup"
            host = "this host" if flag == "b" else "peer"
            remedy = (Command("peer" if host == "peer" else "this host", command),)
            return Finding("backup-flag", facts, "certain", path, values, remedy)
    return None


def silent(case: Case) -> Answer:
    """A path whose packets are not acknowledged: full ones never were, or it has died."""
    if len(case.paths) < 2:
        return None
    for path in case.paths:
        last = path.last
        quiet_ms = last.number("lastack")
        if not last.number("unacked") or not last.number("backoff"):
            continue
        if quiet_ms <= DEAD_MS or quiet_ms <= DEAD_RTTS * (last.rtt_ms or 0.0):
            continue
        facts: tuple[Fact, ...] = (
            Fact("backoff", f"{last.number('backoff'):.0f}"),
            Fact("lastack", ms(quiet_ms), f"ago, RTT {ms(last.rtt_ms or 0.0)}"),
            Fact("bytes_acked", f"{last.number('bytes_acked'):.0f}"),
        )
        if last.is_captured:
            largest = f"{last.number('largest_acked'):.0f}"
            facts = (*facts, Fact("largest segment acknowledged", largest,
                                  f"bytes, sent {last.number('mss'):.0f}"))  # fmt: skip
        # A capture says which segment was acknowledged, ss only how much.
        acked = last.socket.fields.get("largest_acked", last.number("bytes_acked"))
        if acked >= last.number("mss"):
            return _dead(case, path, facts)
        values = {"path": path.name, "device": path.device or "DEVICE"}
        values["mtu"] = f"{last.number('pmtu') or 1500:.0f}"
        return Finding("mtu-black-hole", facts, "certain", path, values)
    return None


def wrong_route(case: Case) -> Answer:
    """Packets of a path that leave through another device."""
    here = case.evidence.here
    for path in case.paths:
        if path.device is None or "%" in path.local or len(case.paths) < 2:
            continue
        captured = case.evidence.left_by.get((path.local, path.remote), path.device)
        if captured != path.device:
            facts: tuple[Fact, ...] = (
                Fact("address of", path.device), Fact("captured on", captured))  # fmt: skip
            return _routed(case, path, facts, certain=True)
        sent = path.grown("bytes_sent")
        # Beside the packets of others a few of the path's own say nothing.
        measured = len(here.sent_bytes) > 1 and len(path.moments) > 1 and sent > LITTLE_BYTES
        if measured and path.device in here.sent_bytes[-1]:
            counts = [links[path.device] for links in here.sent_bytes if path.device in links]
            left = max(counts) - min(counts)
            if left < ROUTE_SHARE * sent:
                facts = (Fact(f"{path.device} sent", f"{left} bytes"),
                         Fact("the subflow sent", f"{sent:.0f} bytes"))  # fmt: skip
                return _routed(case, path, facts, certain=True)
        elif not measured and here.rules is not None:
            default = next((dev for table, dev in here.gateways if table == "main"), None)
            ruled = any(source.partition("/")[0] == path.address for source, _ in here.rules)
            if default and default != path.device and not ruled:
                facts = (
                    Fact("ip rule from", path.address, "missing"),
                    Fact("default dev", default),
                )
                return _routed(case, path, facts, certain=False)
    return None


def _routed(case: Case, path: Path, facts: tuple[Fact, ...], *, certain: bool) -> Finding:
    here = case.evidence.here
    used = {table for _, table in here.rules or ()}
    table = next(str(number) for number in range(100, 253) if str(number) not in used)
    routers = [via for (_, device), via in here.gateways.items() if device == path.device]
    unknown = "" if path.device in here.without_router else "ROUTER"
    via = f"via {router} " if (router := max(routers, default=unknown)) else ""
    commands = (
        f"ip route add default {via}dev {path.device} table {table}",
        f"ip rule add from {path.address} table {table}",
    )
    remedy = tuple(Command("this host", command) for command in commands)
    values = {"command": "; ".join(commands)}
    return Finding("wrong-route", facts, "certain" if certain else "likely", path, values, remedy)


def receives(case: Case) -> Answer:
    """The end that receives does not see what limits."""
    sent = sum(path.last.number("bytes_acked") for path in case.paths)
    received = sum(path.last.number("bytes_received") for path in case.paths)
    if received > sent and received > LITTLE_BYTES:
        return Missing("any", f"{case.retake}, at the other end", "this end receives")
    if sent < LITTLE_BYTES:
        return Missing("any", case.retake + ", during a transfer", "nothing moved 100 kB")
    return None


def pacing(case: Case) -> Answer:
    """A limit that the program has set."""
    for path in case.paths:
        for moment in path.moments:
            limit = moment.pacing_mbps[1] if moment.pacing_mbps else None
            rate = path.seen_mbps
            if limit and rate is not None and rate >= PACED_SHARE * limit:
                facts = (Fact("rate", mbps(rate), f">= 0.8 of {mbps(limit)}"),)
                values = {"path": path.name, "limit": mbps(limit)}
                return Finding("pacing", facts, _sure(path), path, values)
    return None


def _sure(path: Path) -> Confidence:
    return "certain" if path.rate_mbps is not None else "possible"


def application(case: Case) -> Answer:
    """A program that has nothing to send at times."""
    if buffers := case.connection.buffers:
        empty = [(size, used) for size, used in buffers if used < EMPTY_BUFFER * size]
        if len(empty) < max(1.0, EMPTY_SAMPLES * len(buffers)):
            return None
        size, used = min(empty, key=lambda one: one[1] / one[0])
        facts: tuple[Fact, ...] = (Fact("w", str(used), f"< 0.6 tb {size}"),)
        values = {"used": f"{used} bytes", "buffer": str(size)}
        sure: Confidence = "likely" if case.samples > 1 else "possible"
        return Finding("application", facts, sure, None, values)
    first = case.paths[0].last
    if (first.is_captured or first.is_logged) and case.window_holds:
        return None
    idle = all(
        path.busy_share is not None
        and path.busy_share < 0.9
        and any(not moment.number("notsent") for moment in path.moments)
        for path in case.paths
    )
    if not idle:
        return None
    facts = tuple(Fact(f"busy share of {p.name}", f"{p.busy_share:.2f}") for p in case.paths)
    return Finding("application", facts, "possible", None, {"used": "little", "buffer": "its size"})


def own_shaper(case: Case) -> Answer:
    """A queueing discipline of this host that limits a path."""
    for path in case.paths:
        shaper = (case.evidence.here.shapers or {}).get(path.device or "")
        rate = path.seen_mbps
        link = case.evidence.links_mbps.get(path.device or "")
        if shaper is None or (link is not None and shaper.rate_mbps >= MEANT_SHARE * link):
            continue
        if rate is not None and rate >= SHAPED_SHARE * shaper.rate_mbps:
            facts = (Fact("rate", mbps(rate), f">= 0.75 of {mbps(shaper.rate_mbps)}"),)
            values = {"path": path.name, "kind": shaper.kind, "limit": mbps(shaper.rate_mbps)}
            values["device"] = path.device or ""
            return Finding("own-shaper", facts, _sure(path), path, values)
    return None


def held_back(case: Case) -> Answer:
    """A path that a BPF program leaves out: its pacing rate is 0, which ss does not print."""
    for path in case.starved:
        others = [other for other in case.paths if other is not path]
        if path.last.pacing_mbps is None and any(p.last.pacing_mbps for p in others):
            facts = (Fact("pacing_rate", f"missing on {path.name}"),)
            return Finding("held-back", facts, "likely", path, {"path": path.name})
    return None


def window(case: Case) -> Answer:
    """A receive window that is full of data which waits for a path."""
    facts = case.window_holds
    if not facts:
        return None
    exact = bool(case.connection.outstanding_bytes)
    slow = case.slowest
    rtts = sorted((case.rtt_ms(path) for path in case.paths), reverse=True)
    if bloat := _bloat(case, slow, BLOAT_MS):
        sure: Confidence = "likely" if exact else "possible"
        # A shorter queue costs goodput: windows, and with them send buffers, stay small.
        shape = Fact("for the delay alone, at the cost of goodput:", bloat.remedy[0].command)
        command = Command("peer", expect.receive_command(case))
        found = (*facts, *bloat.facts, shape)
        return Finding("bufferbloat", found, sure, slow, bloat.values, (command,))
    held = case.connection.window_bytes
    buffer = {"buffer": f"{held} bytes" if held is not None else "flow control"}
    if len(rtts) > 1 and rtts[0] >= SLOWER * rtts[1] > 0:
        fast = expect.fastest(case)
        ratio = Fact("RTT", ms(rtts[0]), f"{rtts[0] / rtts[1]:.3g} times the next, {ms(rtts[1])}")
        values = {"slow": slow.name, "slow_ms": ms(rtts[0]), "fast": fast.name}
        values |= {"fast_ms": ms(case.rtt_ms(fast)), "id": case.endpoint_id(slow), **buffer}
        command = Command("this host", f"ip mptcp endpoint change id {values['id']} backup")
        sure = "likely" if exact else "possible"
        return Finding("slow-path-blocks", (*facts, ratio), sure, slow, values, (command,))
    values = {**buffer, "fast": ", ".join(path.name for path in case.starved)}
    command = Command("peer", expect.receive_command(case))
    sure = "likely" if exact else "possible"
    return Finding("receive-buffer", facts, sure, None, values, (command,))


def send_buffer(case: Case) -> Answer:
    """A send buffer that does not let a path fill its window."""
    if not case.starved:
        return None
    outstanding, held = case.connection.outstanding_bytes, case.connection.window_bytes
    if outstanding and held and max(outstanding) >= 0.9 * held:
        return None
    sizes = {m.buffer[0] for path in case.paths for m in path.moments if m.buffer is not None}
    if not sizes:
        return Missing("send-buffer", case.retake, "which buffer is full")
    limit = case.evidence.here.buffer_limit("tcp_wmem")
    if limit is None:
        if len(sizes) > 1 or case.samples < 2 or len(case.paths) < 2:
            return None
        facts: tuple[Fact, ...] = (Fact("tb", str(max(sizes)), "on all subflows, in all samples"),)
    elif max(sizes) >= limit:
        facts = (Fact("tb", str(max(sizes)), f"= tcp_wmem {limit}"),)
    else:
        return None
    if not outstanding:
        return Missing("send-buffer", case.retake, "whether the receive window is the limit")
    facts = (*facts, Fact("write_seq - snd_una", str(max(outstanding)), f"< 0.9 snd_wnd {held}"))
    values = {"buffer": f"{max(sizes)} bytes", "fast": ", ".join(p.name for p in case.starved)}
    command = Command("this host", expect.send_command(case))
    sure: Confidence = "certain" if limit else "likely"
    return Finding("send-buffer", facts, sure, None, values, (command,))


def loss(case: Case) -> Answer:
    """A path that loses packets although no queue is full."""
    for path in case.paths:
        if path.last.is_captured:
            if (found := _loss_of_capture(path)) is not None:
                return found
            continue
        full = [m for m in path.full_moments if m.queue_ms is not None]
        if path.last.rule in PACED or not full or not path.window_is_full:
            continue
        queues = [(m.queue_ms or 0.0) / max(m.number("minrtt"), 1e-3) for m in full]
        queue = sorted(queues)[-1 - len(queues) // UNUSUAL]
        if queue >= EMPTY_QUEUE or path.last.retransmitted < SEVERAL_LOSSES:
            continue
        shares = _lost_shares(case, path)
        if shares is None:
            return Missing(
                "loss", case.retake, f"whether {path.name} loses at random, or is policed"
            )
        early, late = shares
        facts = (
            Fact("queue", f"{queue:.2g}", "of the least RTT, with a full window"),
            Fact("sent again", f"{early:.2%} before the first sample, {late:.2%} after it"),
        )
        values = {"path": path.name, "device": path.device or "DEVICE"}
        if early >= POLICED_SHARE and early >= POLICED_TIMES * late:
            values["rate"] = f"{950 * expect.link_mbps(case, path, policed=True):.0f}"
            return Finding("policer", facts, "likely", path, values)
        return Finding("loss", facts, "likely", path, values)
    return None


def _lost_shares(case: Case, path: Path) -> tuple[float, float] | None:
    """Share of the bytes sent again up to the earliest output that tells it, and after that.

    None where too little was sent in between.
    """
    key = (path.local, path.remote)
    earlier = [o.sockets[key] for o in case.evidence.series if key in o.sockets]
    seen = [*earlier, *(moment.socket for moment in path.moments)]
    sent = {s.fields.get("bytes_sent", 0.0): s.fields.get("bytes_retrans", 0.0) for s in seen}
    last = max(sent)
    first = min((s for s in sent if s >= EARLY_BYTES), default=min(sent))
    if first > LATE_SHARE * last:
        return None
    return sent[first] / max(first, 1.0), (sent[last] - sent[first]) / (last - first)


def _loss_of_capture(path: Path) -> Finding | None:
    """Losses, each with the RTT of its time: without a queue a link or a policer loses."""
    last = path.last
    if last.retransmitted < SEVERAL_LOSSES or "loss_rtt" not in last.socket.fields:
        return None
    queue = last.number("loss_rtt") / max(last.number("minrtt"), 1e-3) - 1
    if queue >= EMPTY_QUEUE:
        return None
    share = last.number("bytes_retrans") / max(last.number("bytes_sent"), 1.0)
    facts = (
        Fact("queue", f"{queue:.2g}", "of the least RTT, when packets were lost (median)"),
        Fact("sent again", f"{share:.2%}"),
    )
    values = {"path": path.name, "device": path.device or "DEVICE"}
    return Finding("loss", facts, "possible", path, values)


def shared(case: Case) -> Answer:
    """Paths with one bottleneck."""
    if len(case.paths) < 2 or case.starved:
        return None
    alone = [case.evidence.alone_mbps.get(path.device or "") for path in case.paths]
    known = [rate for rate in alone if rate is not None]
    together = case.evidence.goodput_mbps or case.connection.goodput_mbps
    links = [case.evidence.links_mbps.get(path.device or "") for path in case.paths]
    if len(known) == len(case.paths) and together:
        if min(known) <= max(SHARED_OF_SUM * together, SHARED_OF_OTHER * max(known)):
            return None
        facts = (Fact("alone", ", ".join(mbps(rate) for rate in known), f"of {mbps(together)}"),)
        return Finding("shared-bottleneck", facts, "likely")
    if (found := _correlation(case)) is not None:
        if found <= SHARED_CORRELATION:
            return None
        return Finding(
            "shared-bottleneck", (Fact("correlation of RTTs", f"{found:.2f}"),), "possible"
        )
    if None not in links and together and together >= 0.9 * sum(r for r in links if r is not None):
        return None
    if case.connection.is_logged:
        return None
    command = " and ".join(f"iperf3 -J -c PEER -B {path.address}" for path in case.paths)
    return Missing("shared-bottleneck", command, "what each path has alone (--alone DEVICE=FILE)")


def _correlation(case: Case) -> float | None:
    """Correlation of the RTTs of the two paths with most bytes, in a long series."""
    first, second = sorted(case.paths, key=lambda p: -p.last.number("bytes_acked"))[:2]
    keys = [(path.local, path.remote) for path in (first, second)]
    series = case.evidence.series or case.evidence.samples
    seen = [[output.sockets.get(key) for key in keys] for output in series]
    pairs = [
        (one.fields["rtt"], two.fields["rtt"])
        for one, two in seen
        if one and two and min(one.fields.get("rtt", 0.0), two.fields.get("rtt", 0.0)) > 0
    ]
    # Slow start of one path alone is left out.
    pairs = pairs[len(pairs) // 4 :]
    if len(pairs) < SERIES:
        return None
    from statistics import StatisticsError, correlation

    try:
        return correlation(*zip(*pairs, strict=True))
    except StatisticsError:
        return None


def full_bloat(case: Case) -> Answer:
    """A queue that costs delay, and no goodput."""
    if case.starved:
        return None
    return next((b for path in case.paths if (b := _bloat(case, path, FULL_BLOAT_MS))), None)


def _bloat(case: Case, path: Path, least_ms: float) -> Finding | None:
    for moment in path.moments:
        queue, rtt = moment.queue_ms, moment.rtt_ms
        if queue is None or rtt is None:
            continue
        if queue >= least_ms and rtt >= BLOAT_RTTS * moment.number("minrtt"):
            facts = (Fact("rtt - minrtt", ms(queue), f"RTT {ms(rtt)}"),)
            values = {"path": path.name, "queue_ms": ms(queue), "device": path.device or "DEVICE"}
            values["rtt_ms"] = ms(moment.number("minrtt"))
            values["rate"] = f"{950 * expect.link_mbps(case, path):.0f}"
            command = (
                f"tc qdisc replace dev {values['device']} root tbf rate {values['rate']}kbit "
                "burst 6000 latency 60ms"
            )
            remedy = (Command("this host", command),)
            return Finding("bufferbloat", facts, "likely", path, values, remedy)
    return None


ROWS: tuple[Callable[[Case], Answer], ...] = (
    plain_tcp,
    fell_back,
    second_path,
    backup,
    silent,
    wrong_route,
    receives,
    pacing,
    application,
    own_shaper,
    held_back,
    window,
    send_buffer,
    loss,
    shared,
    full_bloat,
)
"""In the order in which they are asked."""

QUIC_ROWS = (
    backup,
    silent,
    receives,
    application,
    own_shaper,
    window,
    loss,
    shared,
    full_bloat,
)
"""The same of a qlog, which has no sockets."""
