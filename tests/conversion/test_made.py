"""Synthetic traces: the files of examples/ come out of the command, and links take them."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import anabranch
from anabranch.conversion.described import KINDS, made
from anabranch.conversion.traces import LinkTrace, read
from anabranch.scenario import Scenario
from conftest import Anabranch

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
