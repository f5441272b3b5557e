"""Samples of each path of a run, as qlog files."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from anabranch.qlog.events import METRICS, SEPARATOR
from anabranch.result import Result

EVENTS = "urn:ietf:params:qlog:events:quic-12"


def write(result: Result, directory: str | os.PathLike[str]) -> None:
    """Write the samples of each user's paths to a file in a folder per run.

    The files are JSON text sequences by draft-ietf-quic-qlog-main-schema-13 with one kind of event,
    `quic:recovery_metrics_updated` (draft-ietf-quic-qlog-quic-events-12) with the path's number as
    `path_id`. A path has none before its first RTT.
    """
    packet_bytes = result.scenario.network()["packet_bytes"]
    runs = result.path_samples.groupby(list(result.keys), sort=False)
    for keys, samples in runs:
        folder = Path(directory, "-seed-".join(_file_name(str(key)) for key in keys[-2:]))
        folder.mkdir(parents=True)
        for (flow, user), rows in samples.groupby(["flow", "user"], sort=False):
            name = f"{_file_name(flow)}-{user}.sqlog"
            with (folder / name).open("w", encoding="utf-8") as file:
                _write_user(file, f"{flow}, user {user}", rows, packet_bytes)


def _write_user(file: IO[str], title: str, rows: pd.DataFrame, packet_bytes: int) -> None:
    header = {
        "file_schema": "urn:ietf:params:qlog:file:sequential",
        "serialization_format": "application/qlog+json-seq",
        "title": title,
        "trace": {
            "vantage_point": {"type": "client", "name": title},
            "event_schemas": [EVENTS],
            "common_fields": {
                "time_format": "relative_to_epoch",
                "reference_time": {"clock_type": "monotonic", "epoch": "unknown"},
            },
        },
    }
    _write_record(file, header)
    measured = rows[np.isfinite(rows.rtt_ms) & np.isfinite(rows.window_packets)]
    for row in measured.itertuples():
        data = {
            "smoothed_rtt": row.rtt_ms,
            "congestion_window": round(row.window_packets * packet_bytes),
            "bytes_in_flight": row.in_flight_packets * packet_bytes,
            "packets_in_flight": row.in_flight_packets,
            "path_id": row.path,
        }
        event = {"time": row.time_s * 1e3, "name": f"quic:recovery_{METRICS}", "data": data}
        _write_record(file, event)


def _write_record(file: IO[str], record: Mapping[str, Any]) -> None:
    file.write(f"{SEPARATOR}{json.dumps(record)}\n")


def _file_name(text: str) -> str:
    return re.sub(r"[^\w.=-]", "_", text)
