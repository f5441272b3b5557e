"""A diagnosis as JSON, of the schema `anabranch.diagnose/1`."""

from typing import Any

from anabranch.diagnose.answer import Diagnosis
from anabranch.diagnose.case import Finding
from anabranch.diagnose.connection import Path

SCHEMA = "anabranch.diagnose/1"


def as_dict(found: Diagnosis) -> dict[str, Any]:
    """Everything that was read and found; None where no input says it."""
    connection, evidence = found.connection, found.evidence
    buffers = connection.buffers
    return {
        "schema": SCHEMA,
        "read": [
            {"file": one.file, "format": one.format, "peer": one.of_peer} for one in evidence.read
        ],
        "left_out": evidence.skipped,
        "connection": {
            "token": connection.token,
            "mptcp": connection.is_multipath and not connection.fell_back,
            "interval_s": connection.seconds,
            "goodput_mbps": goodput_mbps(found),
            "outstanding_bytes": max(connection.outstanding_bytes, default=None),
            "window_bytes": connection.window_bytes,
            "send_buffer": {"bytes": buffers[-1][0], "used": buffers[-1][1]} if buffers else None,
            "others": connection.others,
        },
        "paths": [_path(found, path) for path in connection.paths],
        "cause": _finding(found.cause)
        | {"sentence": found.sentence, "confidence": found.cause.confidence},
        "also": [_finding(one) for one in found.also],
        "remedy": [
            {
                "host": one.host,
                "command": one.command,
                "expected_mbps": found.expected.mbps if found.expected else None,
                "from": found.expected.source if found.expected else None,
            }
            for one in found.remedy
        ],
        "missing": [
            {"cause": one.cause, "command": one.command, "why": one.why} for one in found.missing
        ],
    }


def goodput_mbps(found: Diagnosis) -> float | None:
    """Between the samples; that of iperf3 where there is only one."""
    measured = found.connection.goodput_mbps
    return measured if measured is not None else found.evidence.goodput_mbps


def held_by(found: Diagnosis, path: Path) -> str:
    """The limit that keeps a path from sending more."""
    if path.joining:
        return "nobody answers"
    if found.cause.path is path and found.cause.id == "held-back":
        return "the kernel program"
    if path.last.is_captured and found.cause.id == "not-enough":
        return "not known"
    if path.window_is_full:
        return "its window"
    if found.cause.id in ("application", "send-buffer", "pacing"):
        return {"application": "the program", "send-buffer": "the send buffer"}.get(
            found.cause.id, "the program's limit"
        )
    if found.cause.id in ("receive-buffer", "slow-path-blocks", "bufferbloat"):
        return "the receive window"
    return "nothing to send"


def _path(found: Diagnosis, path: Path) -> dict[str, Any]:
    last = path.last
    return {
        "device": path.device,
        "address": path.address,
        "state": last.socket.state or None,
        "flags": path.flags or None,
        "exists": not path.joining,
        "rate_mbps": path.rate_mbps,
        "alone_mbps": found.evidence.alone_mbps.get(path.device or ""),
        "rtt_ms": last.rtt_ms,
        "minrtt_ms": last.socket.fields.get("minrtt"),
        "window_packets": last.socket.fields.get("cwnd"),
        "in_flight_packets": last.number("unacked"),
        "unsent_bytes": last.unsent_bytes,
        "retransmitted": path.retransmitted_share,
        "busy_share": path.busy_share,
        "held_by": held_by(found, path),
        "rule": last.rule or None,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.id,
        "path": finding.path.name if finding.path else None,
        "evidence": [
            {"field": one.field, "value": one.value, "compared_with": one.compared_with or None}
            for one in finding.facts
        ],
    }
