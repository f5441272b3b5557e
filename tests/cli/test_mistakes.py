"""Mistakes of users and machines: one line with place and remedy, and nothing is left behind."""

import errno
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from anabranch.cli.hints import with_way
from anabranch.files import in_words
from conftest import CLI, SMALL, Anabranch

LATE = SMALL.replace('paths = [["R1"], ["R2"]]', 'paths = [["R1"], ["R2"]]\nstart_s = 20')
"""No user of the flow `two` starts before the end of the run."""


def line(done: "subprocess.CompletedProcess[str]") -> str:
    """The only line of an error."""
    assert done.returncode == 2
    (found,) = done.stderr.splitlines()
    return found


@pytest.mark.parametrize(
    "kinds",
    ["goodput,goodput-rtt,rates,network", pytest.param("animation", marks=pytest.mark.slow)],
)
def test_a_run_in_which_nobody_sends_is_no_error(
    kinds: str, tmp_path: Path, anabranch: Anabranch
) -> None:
    file = tmp_path / "late.toml"
    file.write_text(LATE.replace('paths = [["R2"]]', 'paths = [["R2"]]\nstart_s = 20'))
    done = anabranch("run", file, "--out", tmp_path / "out")
    assert (done.returncode, done.stderr.count("it sends nothing")) == (0, 2)
    assert anabranch("compare", file, "-a", "lia,olia").returncode == 0
    drawn = anabranch("plot", tmp_path / "out", "--out", tmp_path / "f", "--kind", kinds)
    assert drawn.returncode == 0


@pytest.mark.usefixtures("no_figures")
def test_a_damaged_table_is_named(small: Path, tmp_path: Path, anabranch: Anabranch) -> None:
    anabranch("run", small, "--out", tmp_path / "out")
    for table in ("flows", "path_samples"):
        file = tmp_path / "out" / f"{table}.parquet"
        whole = file.read_bytes()
        for damaged in (whole[:-5], whole[:9], b"", b"x" * len(whole)):
            file.write_bytes(damaged)
            said = line(anabranch("plot", tmp_path / "out", "--out", tmp_path / "f"))
            assert said == f"anabranch: {file}: the table is damaged, or no Parquet: run again"
        file.write_bytes(whole)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_leaves_no_files(number: signal.Signals, long: Path, tmp_path: Path) -> None:
    usual = dict.fromkeys((signal.SIGTERM, signal.SIGHUP), signal.SIG_DFL)
    usual[signal.SIGINT] = signal.default_int_handler

    def reset() -> None:
        for one, handler in usual.items():
            signal.signal(one, handler)

    command = [*CLI, "run", str(long), "--out", str(tmp_path / "new" / "out"), "--jobs", "1"]
    with subprocess.Popen(command, stderr=-1, preexec_fn=reset) as process:
        assert process.stderr
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob(".anabranch-*")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(number)
        code, said = process.wait(60), process.stderr.read().decode()
    assert list(tmp_path.iterdir()) == [long]
    # As shells report it: 128 and the number.
    assert code == 128 + number
    words = "interrupted" if number == signal.SIGINT else f"ended by {number.name}"
    assert said == f"anabranch: {words}\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_error(closed: str, small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = f"{' '.join(CLI)} run {small} --seeds 1 --out {out} {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    assert (out / "flows.parquet").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("json_", [[], ["--json"]])
def test_a_full_stdout_is_named(json_: list[str], small: Path) -> None:
    with open("/dev/full", "w") as full:
        command = [*CLI, "run", str(small), "--seeds", "1", *json_]
        done = subprocess.run(command, stdout=full, stderr=-1, text=True)
    assert line(done).startswith("anabranch: stdout: No space left on device: ")


@pytest.mark.parametrize("letter", ["\x1b[31m", "\n", "\x9b", "\u202e", "\u2028", "\x7f"])
@pytest.mark.parametrize("place", ["small", "R1", "two"])
def test_a_name_with_control_characters_is_refused(
    letter: str, place: str, tmp_path: Path, anabranch: Anabranch
) -> None:
    file = tmp_path / "odd.toml"
    escaped = "".join(f"\\u{ord(one):04x}" for one in letter)
    text = SMALL.replace("[links.R1]", '[links."R1"]')
    file.write_text(text.replace(f'"{place}"', f'"{place}{escaped}"'))
    said = line(anabranch("run", file, "--seeds", 1))
    assert f"U+{ord(letter[0]):04X}" in said
    assert said.isprintable()


def test_an_error_has_no_control_characters(small: Path, anabranch: Anabranch) -> None:
    for odd in ("\x1b[31m", "\u202e", "\x9b2J"):
        for options in (["-a", f"li{odd}a"], ["--set", f"links.{odd}=3"], ["--on", f"s{odd}"]):
            assert line(anabranch("run", small, *options)).isprintable()
        assert line(anabranch("run", f"{small}{odd}")).isprintable()


@pytest.mark.parametrize("key", ["links.R1.delay_ms", "measure.duration_s", "links.R1.rate_mbps"])
def test_a_huge_number_is_short_in_an_error(key: str, small: Path, anabranch: Anabranch) -> None:
    for value in ("1e308", "-1e300", str(10**400)):
        assert len(line(anabranch("run", small, "--set", f"{key}={value}"))) < 800


def test_a_port_in_use_names_the_way_out(small: Path, anabranch: Anabranch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = anabranch("ui", small, "--no-browser", "--port", port)
    expected = f"port {port} of 127.0.0.1 is in use: give another --port, or none for a free one"
    assert line(done) == f"anabranch: {expected}"


def test_a_scenario_of_the_page_that_is_not_there(tmp_path: Path, anabranch: Anabranch) -> None:
    file = tmp_path / "nope.toml"
    assert line(anabranch("ui", file, "--no-browser")) == f"anabranch: {file}: file not found"


def test_a_directory_with_a_long_name_fails_before_the_run(
    long: Path, tmp_path: Path, anabranch: Anabranch
) -> None:
    for name in ("a" * 300, "ü" * 200, f"new/{'a' * 256}/out"):
        said = line(anabranch("run", long, "--out", tmp_path / name))
        assert said.endswith("File name too long: a name has at most 255 bytes")
        assert len(said) < 250


def test_an_error_of_the_system_has_place_cause_and_remedy() -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "small/r")
    remedy = "free some space, or write to another disk"
    assert in_words(full) == f"small/r: No space left on device: {remedy}"
    assert in_words(OSError(errno.ENOENT, "No such file", "x")) == "x: file not found"
    assert in_words(FileExistsError("out: not empty")) == "out: not empty"


@pytest.mark.parametrize(
    ("key", "way"),
    [
        ("links.R1.buffer=10", "queue.drop_tail"),
        ("links.R1.latency_ms=10", "delay_ms"),
        ("links.R1.bandwidth=10", "rate_mbps"),
        ("links.R1.plr=0.1", "loss.bernoulli"),
        ("links.R1.rtt_ms=10", "half the RTT"),
        ("flows.two.cc=lia", "algorithm"),
        ("flows.two.users=3", "count"),
        ("measure.duration=3", "measure.duration_s"),
    ],
)
def test_usual_words_for_a_key_name_it(
    key: str, way: str, small: Path, anabranch: Anabranch
) -> None:
    assert way in line(anabranch("run", small, "--set", key)).partition("; ")[2]


def test_all_keys_are_listed(small: Path, anabranch: Anabranch) -> None:
    said = line(anabranch("run", small, "--set", "tcp.pacin=true"))
    assert "host_jitter_us" in said
    assert " more" not in said
    cut = "x: unknown key, expected one of a, b and 3 more"
    assert with_way(cut) == f"{cut} (`anabranch schema` and `anabranch list` have all)"


@pytest.mark.usefixtures("no_figures")
def test_figures_that_a_result_does_not_have_cost_no_others(
    small: Path, tmp_path: Path, anabranch: Anabranch
) -> None:
    out, figures = tmp_path / "out", tmp_path / "f"
    anabranch("run", small, "--out", out)
    unknown = line(anabranch("plot", out, "--out", figures, "--kind", "network,goodputs"))
    assert "sweep, animation" in unknown
    assert not figures.exists()


def test_a_figure_without_data_is_named_and_the_others_are_written(
    small: Path, tmp_path: Path, anabranch: Anabranch
) -> None:
    out, figures = tmp_path / "out", tmp_path / "f"
    anabranch("run", small, "--out", out)
    done = anabranch("plot", out, "--out", figures, "--kind", "completion,network")
    assert (done.returncode, "completion: no file was completed" in done.stderr) == (2, True)
    assert (figures / "network.svg").exists()
    assert anabranch("plot", out, "--out", tmp_path / "g", "--kind", "completion").returncode == 2
    assert not (tmp_path / "g").exists()


@pytest.mark.parametrize(
    ("options", "way"),
    [
        (["-a", "htcp"], "--on kernel, as root"),
        (["-a", "copa"], "write it as a rule in Python"),
        (["--set", "links.R1.jitter=3"], "jitter_ms"),
        (["--set", "links.R1.reordering=0.1"], "docs/reference/traces.md"),
        (["--set", "links.R1.ack_loss=0.1"], "docs/reference/two-way.md"),
        (["--set", "links.R2.queue.red.ecn2.cake=1"], None),
        (["-a", "half.py"], "FILE.py:CLASS"),
        (["-a", "lai"], None),
    ],
)
def test_a_known_absence_names_its_way_out_in_one_line(
    options: list[str], way: str | None, small: Path, anabranch: Anabranch
) -> None:
    done = anabranch("run", small, *options)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert (way or "expected one of") in line
    assert ("not modelled" in line or "; " in line) == (way is not None)
