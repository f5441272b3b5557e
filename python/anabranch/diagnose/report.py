"""A diagnosis as JSON, of the schema `anabranch.diagnose/1`."""

from typing import Any

import pandas as pd

from anabranch.diagnose.answer import Diagnosis
from anabranch.diagnose.case import Finding
from anabranch.diagnose.connection import Moment, Path
from anabranch.readers.ss import times_of

SCHEMA = "anabranch.diagnose/1"
COLUMNS = ["time_s", "path", "rate_mbps", "rtt_ms", "minrtt_ms", "window_packets",
           "in_flight_packets", "full"]  # fmt: skip
TOTALS = ["time_s", "unacknowledged_bytes", "window_bytes", "buffer_bytes"]


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


def samples(found: Diagnosis) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Over time, each path, and the data and buffers of the connection; NaN where unknown.

    Rates are means since the sample before. `full`: its own window holds the path.
    """
    evidence = found.evidence
    outputs = evidence.samples if len(evidence.samples) > 2 else evidence.series or evidence.samples
    times = times_of(outputs) if outputs else []
    rows, totals = [], []
    for path in found.connection.paths:
        before: tuple[float, float] | None = None
        for time_s, output in zip(times, outputs, strict=False):
            if (socket := output.sockets.get((path.local, path.remote))) is None:
                continue
            moment, acked = Moment(socket), socket.fields.get("bytes_acked", 0.0)
            rate = (acked - before[1]) * 8e-6 / (time_s - before[0]) if before else None
            before = (time_s, acked)
            rows.append(
                {
                    "time_s": time_s,
                    "path": path.name,
                    "rate_mbps": rate,
                    "rtt_ms": moment.rtt_ms,
                    "minrtt_ms": socket.fields.get("minrtt"),
                    "window_packets": socket.fields.get("cwnd"),
                    "in_flight_packets": moment.number("unacked"),
                    "full": moment.is_full,
                }
            )
    one, known = found.connection, outputs is evidence.samples
    for i, (time_s, output) in enumerate(zip(times, outputs, strict=False)):
        seen = [output.sockets.get((path.local, path.remote)) for path in one.paths]
        windows = [s.fields["snd_wnd"] for s in seen if s and "snd_wnd" in s.fields]
        totals.append(
            {
                "time_s": time_s,
                "unacknowledged_bytes": one.outstanding_bytes[i]
                if known and len(one.outstanding_bytes) == len(times)
                else None,
                "window_bytes": max(windows, default=None),
                "buffer_bytes": one.buffers[i][0]
                if known and len(one.buffers) == len(times)
                else None,
            }
        )
    return pd.DataFrame(rows, columns=COLUMNS), pd.DataFrame(totals, columns=TOTALS)


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
