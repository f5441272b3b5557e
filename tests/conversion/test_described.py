"""Traces described in a few numbers, and made by `trace make`."""

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anabranch
from anabranch.conversion.described import KINDS, Delays, Steps, Walk, csv, made, mahimahi
from anabranch.conversion.traces import LinkTrace, read
from anabranch.scenario import Scenario
from conftest import Anabranch

WALK = Walk(seed=1, step_s=1, steps_=200, median_mbps=8, sigma=0.5, correlation=0.8)


def opportunities(trace: Steps | Walk) -> np.ndarray:
    return np.array([int(line) for line in mahimahi(trace).decode().split()])


def test_steps_give_an_opportunity_per_1500_bytes() -> None:
    times = opportunities(Steps(((1, 12), (2, 3), (1, 0))))
    # 12 Mbps are 1000 packets a second, 3 Mbps 250; the last line ends the trace at 4 s.
    assert np.count_nonzero(times <= 1000) == 1000
    assert np.count_nonzero((times > 1000) & (times <= 3000)) == 500
    assert np.count_nonzero(times > 3000) == 1
    assert times[-1] == 4000
    assert np.all(np.diff(times) >= 0)


def test_a_packet_that_a_step_begins_is_finished_in_the_next() -> None:
    # Half a packet in each of four steps of 10 ms at 0.6 Mbps: packets at 20 and 40 ms.
    assert opportunities(Steps(((0.01, 0.6),) * 4)).tolist() == [20, 40, 40]


def test_a_walk_has_its_median_and_is_still_in_outages() -> None:
    rates = np.array([rate for _, rate in WALK.steps()])
    # The median of 200 rates, correlated by 0.8: sigma sqrt(pi / 2 * 9 / 200) = 13 % of error.
    assert abs(np.median(rates) / 8 - 1) < 0.4
    assert np.corrcoef(rates[1:], rates[:-1])[0, 1] > 0.6
    times = opportunities(replace(WALK, outages=((50, 55),)))
    assert np.count_nonzero((times > 50_000) & (times < 55_000)) == 0
    assert np.count_nonzero((times > 55_000) & (times <= 56_000)) > 0


def test_delays_are_lines_at_the_sums_of_the_durations() -> None:
    trace = Delays(((10, 0), (10, 40), (5, 20)))
    assert csv(trace).decode().split() == ["time_s,delay_ms", "0.0,0", "10.0,40", "20.0,20"]


EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = {"lte": "lte.trace", "wifi": "wifi.csv", "leo": "leo.csv"}


def trace_of(kind: str, seed: int, duration_s: float) -> LinkTrace:
    return read(made(kind, seed, duration_s), "csv")


@pytest.mark.parametrize("kind", KINDS)
def test_the_trace_of_the_examples_is_what_the_command_makes(
    kind: str, tmp_path: Path, anabranch: Anabranch
) -> None:
    out = tmp_path / "trace"
    done = anabranch("trace", "make", kind, out)
    assert (done.returncode, out.read_bytes()) == (0, (EXAMPLES / FILES[kind]).read_bytes())
    again = anabranch("trace", "make", kind, out, "--seed", 2)
    assert (again.returncode, "the file exists" in again.stderr) == (2, True)


def test_an_unknown_kind_is_named_with_the_known_ones(tmp_path: Path, anabranch: Anabranch) -> None:
    done = anabranch("trace", "make", "wfi", tmp_path / "x")
    assert (done.returncode, "did you mean wifi?" in done.stderr) == (2, True)


@given(st.integers(), st.floats(1, 400))
def test_rates_are_of_the_standard_and_end_above_zero(seed: int, duration_s: float) -> None:
    for kind, most in (("wifi", 0.65 * 65), ("leo", 200 * 1.15)):
        rates = trace_of(kind, seed, duration_s).columns["rate_mbps"]
        assert 0 <= min(rates) <= max(rates) <= most
        assert rates[-1] > 0  # a link refuses a trace that ends at 0


@given(st.integers())
def test_a_satellite_is_changed_every_15_s(seed: int) -> None:
    trace = trace_of("leo", seed, 60)
    rates, losses = trace.columns["rate_mbps"], trace.columns["loss"]
    rows = zip(trace.time_s, rates, losses, strict=True)
    events = [(time, rate == 0, loss) for time, rate, loss in rows if rate == 0 or loss]
    expected = [row for at in (15, 30, 45) for row in ((at, True, 0), (at + 0.2, False, 0.02))]
    assert events == expected


def test_a_rate_of_wifi_holds_for_seconds_and_a_neighbour_takes_half() -> None:
    trace = trace_of("wifi", 3, 3600)
    rates, delays = trace.columns["rate_mbps"], trace.columns["delay_ms"]
    busy = sum(delay == 5 for delay in delays) / len(delays)
    assert busy == pytest.approx(1 / 3, abs=0.05)  # 2 s of each 6
    alone = [rate for rate, delay in zip(rates, delays, strict=True) if delay == 1]
    shared = [rate for rate, delay in zip(rates, delays, strict=True) if delay == 5]
    mean = [sum(part) / len(part) for part in (alone, shared)]
    assert mean[1] == pytest.approx(mean[0] / 2, rel=0.1)


def test_links_take_them() -> None:
    text = """
        algorithm = "lia"
        measure = { duration_s = 20, warmup_s = 2 }
        links.wifi = { trace_file = "wifi.csv", delay_ms = 5 }
        links.leo = { trace_file = "leo.csv", delay_ms = 20 }
        [[flows]]
        name = "user"
        paths = [["wifi"], ["leo"]]
    """
    inputs = {name: (EXAMPLES / name).read_bytes() for name in ("wifi.csv", "leo.csv")}
    result = anabranch.run(Scenario.parse(text, inputs=inputs), seeds=1)
    assert result.links["throughput_mbps"].min() > 1


def test_the_same_seed_gives_the_same_bytes_and_another_does_not() -> None:
    assert made("wifi", 5) == KINDS["wifi"].text(Random(5), 120) != made("wifi", 6)
