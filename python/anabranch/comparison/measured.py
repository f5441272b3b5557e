"""Measured goodputs of flows, given or read from iperf3 and ss, beside computed ones."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from anabranch.result import Result
from anabranch.scenario import Scenario, ScenarioError, expected_one_of

KINDS = {"goodput_mbps": "Mbps", "rtt_ms": "RTT, ms"}
"""What may be measured: columns of `Result.summary()`."""

SS = "expected the JSON of `iperf3 -J`, or the output of `ss -tin` on the sender"


@dataclass(frozen=True)
class Measured:
    """What a flow got outside the simulator: the mean over its users."""

    goodput_mbps: float
    rtt_ms: float | None = None


def given(settings: Sequence[str], scenario: Scenario) -> dict[str, Measured]:
    """Measurements by flow, each as text such as "phone=12.3". Raises `ScenarioError`."""
    found = {}
    for setting in settings:
        flow, equals, text = setting.rpartition("=")
        try:
            goodput = float(text)
        except ValueError:
            goodput = math.nan
        if not equals or not 0 <= goodput < math.inf:
            raise ScenarioError(f"--measured {setting}: expected FLOW=Mbps, as in phone=12.3")
        found[_known(flow, scenario, "--measured")] = Measured(goodput)
    return found


def from_files(files: Sequence[str], scenario: Scenario) -> dict[str, Measured]:
    """Measurements by flow, each read from FLOW=FILE, or FILE where there is one flow.

    Raises `ScenarioError`, and OSError for a file that cannot be read.
    """
    found = {}
    flows = [flow["name"] for flow in scenario.network()["flows"]]
    for text in files:
        flow, equals, file = text.partition("=")
        if not equals and len(flows) > 1:
            raise ScenarioError(
                f"--measured-from {text}: of which flow? Expected FLOW={text}, with one of "
                f"{', '.join(flows)}"
            )
        name = _known(flow, scenario, "--measured-from") if equals else flows[0]
        found[name] = read(Path(file if equals else text))
    return found


def read(file: Path) -> Measured:
    """The mean of the connections of an `iperf3 -J` or `ss -tin`. Raises `ScenarioError`.

    iperf3: what the receiver got, over the number of streams. ss: acknowledged bytes over the time
    in which there was something to send; subflows of Multipath TCP count as one connection.
    """
    text = file.read_text(encoding="utf-8", errors="replace")
    if text.lstrip().startswith("{"):
        return _iperf3(text, file)
    return _ss(text, file)


def _iperf3(text: str, file: Path) -> Measured:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ScenarioError(f"{file}: {error}: {SS}") from None
    if failed := document.get("error"):
        raise ScenarioError(f"{file}: iperf3 failed: {failed}")
    try:
        end = document["end"]
        streams = end["streams"]
        goodput = end["sum_received"]["bits_per_second"] / 1e6 / len(streams)
    except (KeyError, TypeError, ZeroDivisionError):
        raise ScenarioError(f"{file}: no end.sum_received of TCP streams: {SS}") from None
    rtts = [stream["sender"].get("mean_rtt", 0) / 1e3 for stream in streams]
    return Measured(goodput, float(np.mean(rtts)) if all(rtts) else None)


def _ss(text: str, file: Path) -> Measured:
    """Connections with data: `bytes_acked` and `busy`, on the line below that of their addresses.

    The last `rtt` is the smoothed one of the kernel.
    """
    rates, rtts, multipath = [], [], False
    for line in text.splitlines():
        acked, busy = re.search(r"\bbytes_acked:(\d+)", line), re.search(r"\bbusy:(\d+)ms", line)
        if not (acked and busy and int(busy[1])):
            continue
        rates.append(int(acked[1]) * 8e-3 / int(busy[1]))
        rtt = re.search(r"\brtt:([\d.]+)/", line)
        rtts.append(float(rtt[1]) if rtt else math.nan)
        multipath = multipath or "tcp-ulp-mptcp" in line
    if not rates:
        raise ScenarioError(f"{file}: no connection with bytes_acked and busy: {SS}")
    goodput = sum(rates) if multipath else sum(rates) / len(rates)
    rtt_ms = float(np.average(rtts, weights=rates))
    return Measured(goodput, None if math.isnan(rtt_ms) else rtt_ms)


def _known(flow: str, scenario: Scenario, option: str) -> str:
    flows = [each["name"] for each in scenario.network()["flows"]]
    if flow not in flows:
        raise ScenarioError(f"{option}: unknown flow {flow!r}: {expected_one_of(flow, flows)}")
    return flow


def beside(result: Result, measured: Mapping[str, Measured]) -> pd.DataFrame:
    """Per algorithm and measured flow, what was computed and where 95 % of runs lie.

    `low` and `high` bound a further run with a probability of 95 % (Student's t over the seeds);
    NaN for one seed and where nothing is random. `verdict` is "inside", or how far it is from what
    was computed.
    """
    rows: list[dict[str, Any]] = []
    for row in result.summary().to_dict(orient="records"):
        if row["flow"] not in measured:
            continue
        for column, name in KINDS.items():
            value = getattr(measured[row["flow"]], column)
            if value is None:
                continue
            # The interval of one more run is sqrt(n + 1) times that of the mean over n.
            half = row[f"{column}_ci95"] * math.sqrt(len(result.seeds) + 1) or math.nan
            low, high = max(row[column] - half, 0.0 * half), row[column] + half
            rows.append(
                {
                    "backend": result.backend,
                    "algorithm": row["algorithm"],
                    "flow": row["flow"],
                    "quantity": name,
                    "measured": value,
                    "computed": row[column],
                    "low": low,
                    "high": high,
                    "verdict": _verdict(value, row[column], low, high),
                }
            )
    return pd.DataFrame(rows)


def _verdict(measured: float, computed: float, low: float, high: float) -> str:
    if low <= measured <= high:
        return "inside"
    if not computed:
        return "outside"
    ratio = measured / computed
    apart = f"{ratio - 1:+.1%}".replace("%", " %") if ratio <= 2 else f"{ratio:.3g} times"
    return apart if math.isnan(low) else f"outside, {apart}"
