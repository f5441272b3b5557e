"""Warnings where a backend runs something else than the scenario says."""

import json
from pathlib import Path

import pytest

from anabranch import Scenario, run
from anabranch.result import Result
from anabranch.result.caveats import WITHOUT_EFFECT, caveats
from anabranch.result.manifest import Manifest
from conftest import Anabranch

pytestmark = pytest.mark.usefixtures("no_figures")

TEXT = """
algorithm = "lia"
measure = {{ duration_s = 4, warmup_s = 1, sample_ms = 1000 }}
links.A = {{ rate_mbps = 2, delay_ms = 10, queue.{queue} }}
links.B = {{ rate_mbps = 2, delay_ms = {delay}, queue.{queue} }}

[[flows]]
name = "two"
count = {users}
paths = [["A"], ["B"]]
"""
RED, DROP_TAIL = "red = {}", "drop_tail.packets = 20"


def scenario(delay: float = 10, queue: str = RED, users: int = 2) -> Scenario:
    return Scenario.parse(TEXT.format(delay=delay, queue=queue, users=users))


def test_different_return_delays_are_a_caveat_over_quic_only() -> None:
    (text,) = caveats(scenario(delay=80), "quic")
    assert "flow 'two' has return delays of 10, 80 ms" in text
    assert "return over the first path, in 10 ms" in text
    assert "give its paths one return_delay_ms, or run it on sim" in text
    assert "\n" not in text
    assert caveats(scenario(delay=10), "quic") == []
    for backend in ("sim", "kernel", "equilibrium"):
        assert caveats(scenario(delay=80), backend) == []


def test_return_delays_that_differ_by_rounding_only_are_no_caveat() -> None:
    # The sum of two links, 0.1 + 0.2, is 5e-17 above 0.3; a nanosecond, 1e-6 ms, is a difference.
    assert caveats(scenario(delay=10.000000000000002), "quic") == []
    assert len(caveats(scenario(delay=10.000001), "quic")) == 1


@pytest.mark.parametrize("backend", ["equilibrium", "fluid"])
def test_drop_tail_links_are_a_caveat_of_the_equations(backend: str) -> None:
    (text,) = caveats(scenario(queue=DROP_TAIL), backend)
    assert "links A, B are drop-tail: the equations give all packets there one loss" in text
    assert "use queue.red, or run it on sim" in text
    assert caveats(scenario(queue=RED), backend) == []
    assert caveats(scenario(queue=DROP_TAIL, users=1), backend) == []
    assert caveats(scenario(queue=DROP_TAIL), "sim") == []


@pytest.mark.parametrize(
    ("backend", "delay", "queue", "words"),
    [("quic", 80, RED, "return delays of 10, 80 ms"), ("equilibrium", 10, DROP_TAIL, "drop-tail")],
)
def test_a_caveat_is_printed_and_in_json_and_in_the_stored_result(
    backend: str, delay: int, queue: str, words: str, tmp_path: Path, anabranch: Anabranch
) -> None:
    file = tmp_path / "scenario.toml"
    file.write_text(TEXT.format(delay=delay, queue=queue, users=2))
    done = anabranch("run", file, "--on", backend, "--json", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if words in line]
    assert [line.startswith("anabranch: warning: ") for line in lines] == [True]
    (warning,) = json.loads(done.stdout)["warnings"]
    assert words in warning
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert words in manifest["warnings"][0]
    assert words in Result.load(tmp_path / "out").warnings[0]
    assert Manifest.read(tmp_path / "out").runs.backend == backend
    quiet = anabranch("run", file, "--on", backend, "--quiet")
    assert words not in quiet.stderr


def test_theory_equilibrium_warns_of_drop_tail_links(tmp_path: Path, anabranch: Anabranch) -> None:
    file = tmp_path / "scenario.toml"
    for queue, expected in ((DROP_TAIL, 1), (RED, 0)):
        file.write_text(TEXT.format(delay=10, queue=queue, users=2))
        done = anabranch("theory", "equilibrium", file)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("are drop-tail: the equations give") == expected


def test_the_simulator_has_no_caveats() -> None:
    assert run(scenario(delay=80, queue=DROP_TAIL), seeds=1).warnings == []


def with_tcp(tcp: str, set: list[tuple[str, str]] | None = None) -> Scenario:
    return Scenario.parse(tcp + TEXT.format(delay=10, queue=RED, users=2), set=set or [])


@pytest.mark.parametrize(
    ("backend", "key", "value"),
    [
        ("quic", "rmem_max_bytes", "1e6"),
        ("quic", "undo", "true"),
        ("fluid", "delayed_acks", "true"),
        ("equilibrium", "undo", "true"),
        ("kernel", "join_handshake", "false"),
        ("sim", "wmem_max_bytes", "100000"),
        ("sim", "quick_acks", "true"),
    ],
)
def test_a_key_without_effect_is_named_once_if_it_is_written(
    backend: str, key: str, value: str
) -> None:
    def named(found: Scenario) -> list[str]:
        return [line for line in caveats(found, backend) if f"tcp.{key}: has no effect" in line]

    assert len(named(with_tcp(f"tcp.{key} = {value}\n"))) == 1
    assert len(named(with_tcp("", [(f"tcp.{key}", value)]))) == 1
    assert not [line for line in caveats(with_tcp(""), backend) if "no effect" in line]


def test_a_key_with_effect_is_not_named() -> None:
    linux = 'tcp = { scheduler = "linux", wmem_max_bytes = 100000, rmem_max_bytes = 1e6 }\n'
    assert not [line for line in caveats(with_tcp(linux), "sim") if "no effect" in line]
    assert len(caveats(with_tcp(linux), "quic")) == 3


def test_the_page_of_quic_lists_the_keys_without_effect() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/quic.md").read_text()
    (row,) = [line for line in page.splitlines() if line.startswith("| keys of `[tcp]` without")]
    keys = row.split("|")[2].replace("`", "").replace(" ", "").split(",")
    assert keys == WITHOUT_EFFECT["quic"]


def test_the_programs_of_the_kernel_have_no_effect_without_the_scheduler_of_linux() -> None:
    text = TEXT.format(delay=10, queue=RED, users=2)

    def found(backend: str, *lines: str) -> list[str]:
        return caveats(Scenario.parse("\n".join(lines) + "\n" + text), backend)

    on, linux = "tcp.kernel_programs = true", 'tcp.scheduler = "linux"'
    (warning,) = found("sim", on)
    assert 'tcp.kernel_programs: has no effect on sim without scheduler = "linux"' in warning
    assert found("sim", on, linux) == []
    assert found("sim", 'tcp.profile = "linux"') == []
    for backend in ("quic", "kernel", "fluid", "equilibrium"):
        assert any("tcp.kernel_programs: has no effect" in one for one in found(backend, on))
