"""Measured goodputs of flows, given or read from files (`anabranch.readers`), beside computed ones.

A flow may have several measurements: as many runs of the real network.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from anabranch.intervals import mean_with_interval
from anabranch.readers import read, taken
from anabranch.result import Result
from anabranch.scenario import Scenario, ScenarioError, expected_one_of

# The goodput of each flow while it sends: what a program at its ends would measure.


TRANSFERS = ("file", "poisson")
"""Workloads in which a connection is a transfer."""


def while_sending(result: Result) -> tuple[pd.DataFrame, dict[str, str]]:
    """Per case and flow `goodput_mbps` with its 95 % interval over seeds, and its name per flow.

    A transfer has its bytes over its own time; the mean over transfers, NaN where none is done. A
    user that starts after the warm-up, stops before the end, or is on and off in turn has its bytes
    over the time within the measurement window in which it sends.
    """
    scenario = result.scenario
    flows = {flow["name"]: flow for flow in scenario.network()["flows"]}
    window = (scenario.warmup_s, scenario.duration_s)
    by = [*result.keys, "flow"]
    rows = result.flows.assign(goodput_mbps=result.flows["goodput_mbps"].astype(float))
    whole = window[1] - window[0]
    names: dict[str, str] = {}
    for i, row in rows[["flow", "start_s", "stop_s"]].iterrows():
        flow = flows[row["flow"]]
        kind = flow["workload"]
        if kind in TRANSFERS:
            continue
        sends = _sending_s(flow, row["start_s"], row["stop_s"], window)
        if sends < whole:
            rows.loc[i, "goodput_mbps"] *= whole / sends if sends > 0 else float("nan")
            names[row["flow"]] = "Mbps while it sends"
    found = rows.groupby(by, sort=False)["goodput_mbps"].mean().reset_index()
    rates = result.transfers.assign(
        goodput_mbps=result.transfers["bytes"] * 8e-6 / result.transfers["duration_s"]
    )
    if not result.transfers.empty or result.backend in ("sim", "quic", "kernel"):
        of_transfers = found["flow"].map(lambda name: flows[name]["workload"] in TRANSFERS)
        own = rates.groupby(by, sort=False)["goodput_mbps"].mean()
        keys = pd.MultiIndex.from_frame(found[by])
        found.loc[of_transfers, "goodput_mbps"] = own.reindex(keys)[of_transfers.to_numpy()].array
        names |= dict.fromkeys(found["flow"][of_transfers], "Mbps of a transfer")
    summary = mean_with_interval(found, [*result.cases, "flow"], ["goodput_mbps"])
    return summary, {name: names.get(name, "Mbps") for name in flows}


def _sending_s(
    flow: Mapping[str, Any], start_s: float, stop_s: float, window: tuple[float, float]
) -> float:
    """For how long a user sends within a window."""
    begin, end = max(start_s, window[0]), min(stop_s, window[1])
    if begin >= end:
        return 0.0
    if flow["workload"] != "on_off":
        return end - begin
    on, period = flow["on_s"], flow["on_s"] + flow["off_s"]

    def upto(time_s: float) -> float:
        periods, rest = divmod(time_s - start_s, period)
        return float(periods * on + min(rest, on))

    return upto(end) - upto(begin)


@dataclass(frozen=True)
class Measured:
    """Goodput of a flow outside the simulator, the mean over its users: once or several times."""

    goodput_mbps: tuple[float, ...]
    rtt_ms: tuple[float, ...] = ()
    """RTTs of those measurements that have one."""

    def __add__(self, other: "Measured") -> "Measured":
        """The measurements of both."""
        return Measured(self.goodput_mbps + other.goodput_mbps, self.rtt_ms + other.rtt_ms)


def _nothing(_: str) -> None:
    pass


def measurements(
    settings: Sequence[str],
    files: Sequence[str],
    scenario: Scenario,
    say: Callable[[str], None] = _nothing,
) -> dict[str, Measured]:
    """All measurements by flow: of `given` and of `from_files`."""
    found: dict[str, Measured] = {}
    for flow, one in [*from_files(files, scenario, say), *given(settings, scenario)]:
        found[flow] = found[flow] + one if flow in found else one
    return found


def given(settings: Sequence[str], scenario: Scenario) -> list[tuple[str, Measured]]:
    """Flows and measurements, each as text such as "phone=12.3". Raises `ScenarioError`."""
    found = []
    for setting in settings:
        flow, equals, text = setting.rpartition("=")
        try:
            goodput = float(text)
        except ValueError:
            goodput = math.nan
        if not equals or not 0 <= goodput < math.inf:
            raise ScenarioError(f"--measured {setting}: expected FLOW=Mbps, as in phone=12.3")
        found.append((_known(flow, scenario, "--measured"), Measured((goodput,))))
    return found


def from_files(
    files: Sequence[str], scenario: Scenario, say: Callable[[str], None] = _nothing
) -> list[tuple[str, Measured]]:
    """Flows and measurements, each read from FLOW=FILE#N; FLOW= is needed where there are several.

    N chooses a connection of the file. `say` gets a line about what was read of each. Raises
    `ScenarioError`, and OSError for a file that cannot be read.
    """
    found = []
    flows = {flow["name"]: flow["count"] for flow in scenario.network()["flows"]} if files else {}
    for text in files:
        flow, equals, file = text.partition("=")
        if not equals and len(flows) > 1:
            raise ScenarioError(
                f"--measured-from {text}: of which flow? Expected FLOW={text}, with one of "
                f"{', '.join(flows)}"
            )
        name = _known(flow, scenario, "--measured-from") if equals else next(iter(flows))
        place, number = _chosen(file if equals else text)
        if not place.exists():
            raise ScenarioError(f"--measured-from {text}: file not found: {place}")
        took = taken(read(place), flows[name], number)
        say(took.said)
        rates = [c.goodput_mbps for c in took.connections if c.goodput_mbps is not None]
        rtts = [c.rtt_ms for c in took.connections if c.rtt_ms is not None]
        rtt = (float(np.mean(rtts)),) if len(rtts) == len(rates) else ()
        found.append((name, Measured((float(np.mean(rates)),), rtt)))
    return found


def _chosen(text: str) -> tuple[Path, int | None]:
    """The file, and the number of a connection behind "#"; a file of that very name comes first."""
    name, hash_, number = text.rpartition("#")
    if hash_ and number.isdigit() and not Path(text).exists():
        return Path(name), int(number)
    return Path(text), None


def _known(flow: str, scenario: Scenario, option: str) -> str:
    flows = [each["name"] for each in scenario.network()["flows"]]
    if flow not in flows:
        raise ScenarioError(f"{option}: unknown flow {flow!r}: {expected_one_of(flow, flows)}")
    return flow


def beside(result: Result, measured: Mapping[str, Measured]) -> pd.DataFrame:
    """Per algorithm and measured flow, what was computed and where 95 % of runs lie.

    The computed goodput is that while the flow sends (`while_sending`). `low` and `high` bound a
    further run with a probability of 95 % (Student's t over the seeds); NaN for one seed and where
    nothing is random. `measured` is the mean of `measurements`, and `measured_ci95` half its 95 %
    interval; NaN for one measurement. `verdict`: one measurement is "inside" where 95 % of runs
    are; the mean of several is "inside" where its difference from the mean over the seeds is
    within the 95 % interval of that difference (Welch 1947); else how far it is from what was
    computed.
    """
    goodputs, what = while_sending(result)
    sources = {
        "goodput_mbps": goodputs.to_dict(orient="records"),
        "rtt_ms": result.summary().to_dict(orient="records"),
    }
    rows: list[dict[str, Any]] = []
    for flow in dict.fromkeys(row["flow"] for row in sources["rtt_ms"]):
        for column, found in sources.items():
            values = getattr(measured[flow], column) if flow in measured else ()
            quantity = what[flow] if column == "goodput_mbps" else "RTT, ms"
            rows += [
                {
                    "backend": result.backend,
                    "algorithm": row["algorithm"],
                    "flow": flow,
                    "quantity": quantity,
                    **_compared(values, row[column], row[f"{column}_ci95"], len(result.seeds)),
                }
                for row in found
                if values and row["flow"] == flow
            ]
    order = [(name, row["flow"]) for row in sources["rtt_ms"] for name in [row["algorithm"]]]
    rows.sort(key=lambda row: order.index((row["algorithm"], row["flow"])))
    return pd.DataFrame(rows)


def _compared(
    values: Sequence[float], computed: float, computed_ci95: float, seeds: int
) -> dict[str, Any]:
    """The columns of numbers and the verdict."""
    # The interval of one more run is sqrt(n + 1) times that of the mean over n.
    half = computed_ci95 * math.sqrt(seeds + 1) or math.nan
    low, high = max(computed - half, 0.0 * half), computed + half
    n, mean = len(values), float(np.mean(values))
    if n == 1:
        ci95, inside = math.nan, low <= mean <= high
    else:
        own, theirs = float(np.var(values, ddof=1)) / n, _variance_of_mean(computed_ci95, seeds)
        ci95 = _quantile(n - 1) * math.sqrt(own)
        inside = abs(mean - computed) <= _welch(own, n, theirs, seeds)
    return {
        "measured": mean,
        "measurements": n,
        "measured_ci95": ci95,
        "computed": computed,
        "low": low,
        "high": high,
        "verdict": _verdict(mean, computed, inside, has_interval=n > 1 or not math.isnan(low)),
    }


def _variance_of_mean(ci95: float, n: int) -> float:
    return 0.0 if n < 2 or math.isnan(ci95) else (ci95 / _quantile(n - 1)) ** 2


def _welch(own: float, n: int, theirs: float, seeds: int) -> float:
    """Half the 95 % interval of a difference of means with these variances (Welch 1947)."""
    both = own + theirs
    if not both:
        return 0.0
    freedom = both**2 / (own**2 / (n - 1) + (theirs**2 / (seeds - 1) if theirs else 0.0))
    return _quantile(freedom) * math.sqrt(both)


def _quantile(freedom: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.975))


def _verdict(measured: float, computed: float, inside: bool, has_interval: bool) -> str:
    if math.isnan(computed):
        return "nothing was computed"
    if inside:
        return "inside"
    if not computed:
        return "outside"
    ratio = measured / computed
    apart = f"{ratio - 1:+.1%}".replace("%", " %")
    if ratio > 2:
        apart = f"{ratio:.3g} times"
    elif 0 < ratio < 0.1:
        apart = f"1/{float(f'{1 / ratio:.3g}'):.0f} of it"
    return f"outside, {apart}" if has_interval else apart
