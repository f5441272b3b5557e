"""`anabranch diagnose` on situations whose cause is known, measured on Linux 6.18."""

import json
import re
import shutil
import socket
import subprocess
import threading
from contextlib import suppress
from importlib import resources
from pathlib import Path
from random import Random

import pytest

from anabranch import ScenarioError, load
from anabranch.diagnose import diagnose, gather
from anabranch.diagnose.answer import words
from anabranch.diagnose.connection import connection_of
from anabranch.diagnose.host import Host, read
from conftest import Anabranch
from diagnose.conftest import NAMES, kept, links, truth

# A cause that cannot be told from the files that are left: the answer says what to take.
WITHOUT_MEMORY = {"05-sndbuf", "07-slow-path-blocks", "08-loss"}
WITHOUT_PEER = {"04-server-plain", "17-options-stripped"}
FROM_SS_ALONE = {
    "06-rcvbuf",
    "09-backup",
    "11-app-limited",
    "13-bufferbloat",
    "14-mtu",
    "15-policer",
    "21-path-dies",
}


@pytest.mark.parametrize("name", NAMES)
def test_the_cause_of_each_situation_is_found(situations: Path, name: str) -> None:
    known = truth(situations / name)
    found = diagnose(gather([situations / name]))
    assert found.cause.id == known["cause"]
    assert found.is_enough
    if known["path"] and found.cause.path and found.cause.id != "plain-tcp":
        assert found.cause.path.name == known["path"]


@pytest.mark.parametrize("name", NAMES)
def test_the_goodput_after_the_remedy_is_predicted(situations: Path, name: str) -> None:
    known = truth(situations / name)
    found = diagnose(gather([situations / name], links_mbps=links(known)))
    measured = known["goodput_mbps"].get("after_remedy", known["goodput_mbps"]["with_cause"])
    assert found.expected is not None
    # 0.95 of the links is predicted; loss, a queue and a policer leave 2 to 13 % less.
    assert found.expected.mbps == pytest.approx(measured, rel=0.15)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("pattern", "open_questions"),
    [
        (r"(?!ssm-).*", WITHOUT_MEMORY),
        (r"(?!peer-).*", WITHOUT_PEER),
        (r"ss-[12]\.txt", set(NAMES) - FROM_SS_ALONE),
    ],
)
def test_with_fewer_files_the_cause_is_found_or_what_is_missing_is_named(
    situations: Path, tmp_path: Path, name: str, pattern: str, open_questions: set[str]
) -> None:
    found = diagnose(gather([kept(situations / name, tmp_path / name, pattern)]))
    if name in open_questions:
        assert found.cause.id == "not-enough"
        assert all(one.command for one in found.missing)
        assert found.missing
    else:
        assert found.cause.id == truth(situations / name)["cause"]


def test_the_order_of_files_does_not_matter(situations: Path) -> None:
    files = sorted((situations / "06-rcvbuf").glob("*.txt"))
    here = [file for file in files if not file.name.startswith("peer-")]
    one, other = (diagnose(gather(order)) for order in (here, here[::-1]))
    assert one.cause == other.cause
    assert one.connection.goodput_mbps == other.connection.goodput_mbps


def test_outputs_in_one_file_are_as_good_as_in_several(situations: Path, tmp_path: Path) -> None:
    folder = situations / "07-slow-path-blocks"
    together = tmp_path / "all.txt"
    parts = ["ssm-1.txt", "ssm-2.txt", "ip-mptcp.txt", "ip-route.txt", "sysctl.txt", "nstat.txt"]
    together.write_text("\n".join((folder / part).read_text() for part in parts))
    assert diagnose(gather([together])).cause.id == "slow-path-blocks"


def test_hexadecimal_and_decimal_sequence_numbers_are_the_same(situations: Path) -> None:
    # iproute2 6.1 prints them in hexadecimal, 7.1 in decimal, of the same connection at one time.
    folder = situations / "12-wrong-route"
    old, new = (connection_of(gather([folder / f"ssm-2{name}.txt"])) for name in ("", "-v7.1"))
    assert old is not None
    assert new is not None
    # 0x7598... - 0x7598... and 8473618438518456683 - 8473618438517961675 = 495008.
    assert new.outstanding_bytes == (495008,)
    assert 0 < old.outstanding_bytes[0] < 2**21


@pytest.mark.parametrize("name", NAMES)
def test_one_sample_names_no_wrong_cause(situations: Path, tmp_path: Path, name: str) -> None:
    folder = kept(situations / name, tmp_path / name, r"(?!ss-|ssm-2|series|ip-link).*")
    found = diagnose(gather([folder]))
    assert found.cause.id in {truth(situations / name)["cause"], "not-enough"}
    # One moment tells little of what a path does; rows of structure need no more.
    if found.connection.seconds is None and found.cause.id in {"application", "own-shaper"}:
        assert found.cause.confidence == "possible"


def test_a_test_that_failed_is_left_out_of_a_folder(situations: Path, tmp_path: Path) -> None:
    folder = kept(situations / "01-healthy", tmp_path / "all", r".*")
    (folder / "alone-wan1.json").write_text('{"start": {}, "intervals": [], "error": "no route"}')
    found = diagnose(gather([folder]))
    assert any("no route" in one for one in found.evidence.skipped)
    with pytest.raises(ScenarioError, match="no route"):
        gather([folder / "ssm-1.txt"], alone={"wan1": folder / "alone-wan1.json"})


def test_a_host_with_one_address_and_plain_tcp_is_not_told_to_use_multipath(
    situations: Path,
) -> None:
    found = diagnose(gather([situations / "16-single-healthy"]))
    assert found.cause.id == "none"
    assert not found.missing


def test_the_receiver_is_told_to_ask_the_sender(situations: Path, tmp_path: Path) -> None:
    file = tmp_path / "ss.txt"
    file.write_text((situations / "01-healthy" / "peer-ssm-2.txt").read_text())
    found = diagnose(gather([file]))
    assert found.cause.id == "not-enough"
    assert "at the other end" in found.missing[0].command


def test_a_path_that_a_program_leaves_out_is_named(situations: Path, tmp_path: Path) -> None:
    # SO_MAX_PACING_RATE 0 of a BPF program: ss prints no pacing_rate for that subflow.
    folder = kept(situations / "07-slow-path-blocks", tmp_path / "held", r"(?!ss).*")
    for file in ("ssm-1.txt", "ssm-2.txt"):
        text = (situations / "07-slow-path-blocks" / file).read_text()
        lines = text.splitlines()
        for i, line in enumerate(lines):
            if line.startswith("\t") and "%wan1" in lines[i - 1]:
                line = re.sub(r"pacing_rate \S+ ", "", line)
                line = re.sub(r"unacked:\d+", "unacked:0", line)
                lines[i] = line
        (folder / file).write_text("\n".join(lines))
    found = diagnose(gather([folder]))
    assert found.cause.id == "held-back"
    assert found.cause.path is not None
    assert found.cause.path.name == "wan1"


def test_formats_of_ip_in_json_are_read() -> None:
    text, json_text = Host(), Host()
    read("10.77.1.2 id 1 subflow backup dev wan1\nadd_addr_accepted 0 subflows 2\n", text)
    endpoint = {"address": "10.77.1.2", "id": 1, "flags": ["subflow", "backup"], "dev": "wan1"}
    read(json.dumps([endpoint]), json_text)
    read(json.dumps({"add_addr_accepted": 0, "subflows": 2}), json_text)
    assert text.endpoints == json_text.endpoints
    assert text.limits == json_text.limits == {"add_addr_accepted": 0, "subflows": 2}


@pytest.mark.parametrize(
    ("rate", "mbps"), [("4Mbit", 4.0), ("4700Kbit", 4.7), ("500000bit", 0.5), ("1Gbit", 1000.0)]
)
def test_rates_of_shapers_are_read_in_every_unit(rate: str, mbps: float) -> None:
    host = Host()
    read(f"qdisc tbf 803e: dev wan1 root refcnt 2 rate {rate} burst 6000b lat 80ms \n", host)
    assert host.shapers is not None
    assert host.shapers["wan1"].rate_mbps == pytest.approx(mbps)


def test_every_cause_has_a_sentence_and_a_remedy(situations: Path) -> None:
    for name in NAMES:
        found = diagnose(gather([situations / name]))
        said = [found.sentence, *(one.command for one in found.remedy)]
        assert all(said)
        assert not re.search(r"\{\w+\}", " ".join(said)), said
    assert all(one["remedy"] for one in words().values())


def test_redacted_copies_have_the_same_cause_and_no_address(
    anabranch: Anabranch, situations: Path, tmp_path: Path
) -> None:
    for name in NAMES:
        target = tmp_path / name
        done = anabranch("diagnose", str(situations / name), "--redact", str(target))
        assert done.returncode == 0, done.stderr
        text = "".join(file.read_text() for file in target.iterdir())
        assert not re.search(r"10\.(77|99)\.", text)
        assert diagnose(gather([target])).cause.id == truth(situations / name)["cause"]


def test_the_command_prints_cause_remedy_and_expectation(
    anabranch: Anabranch, situations: Path
) -> None:
    done = anabranch(
        "diagnose", str(situations / "07-slow-path-blocks"), "--link", "wan0=30,wan1=3"
    )
    assert done.returncode == 0
    assert "Cause (likely): slow-path-blocks" in done.stdout
    assert "Remedy: ip mptcp endpoint change id 1 backup" in done.stdout
    assert "expected 28.5 Mbps (--link)" in done.stdout  # 0.95 of 30


def test_not_enough_exits_with_3_and_names_the_command(
    anabranch: Anabranch, situations: Path
) -> None:
    done = anabranch("diagnose", str(situations / "05-sndbuf" / "ss-1.txt"), "--json")
    assert done.returncode == 3
    found = json.loads(done.stdout)
    assert found["schema"] == "anabranch.diagnose/1"
    assert found["cause"]["id"] == "not-enough"
    assert any("ss -tinmM" in one["command"] for one in found["missing"])


@pytest.mark.parametrize("given", ["wan0", "wan0=fast", "wan0=0", "=3"])
def test_a_link_without_a_rate_is_refused(
    anabranch: Anabranch, situations: Path, given: str
) -> None:
    done = anabranch("diagnose", str(situations / "05-sndbuf"), "--link", given)
    assert done.returncode == 2
    assert "expected" in done.stderr


@pytest.mark.parametrize("change", ["buffers", "scheduler", "lia"])
def test_the_network_is_simulated_with_a_change(
    anabranch: Anabranch, situations: Path, tmp_path: Path, change: str
) -> None:
    # 40 Mbps of links in all; a receive buffer of 1 MB leaves half of it at 30 and 60 ms.
    file = tmp_path / "network.toml"
    given = ["--link", "wan0=30,wan1=10", "--what-if", change, "--scenario", str(file), "--json"]
    done = anabranch("diagnose", str(situations / "06-rcvbuf"), *given)
    found = json.loads(done.stdout)["what_if"]
    assert found["change"] == change
    assert 0 < found["simulated_now_mbps"] < found["simulated_then_mbps"] < 40
    assert load(file).link_names == ["wan0", "wan1"]


def test_a_scenario_is_not_overwritten(
    anabranch: Anabranch, situations: Path, tmp_path: Path
) -> None:
    file = tmp_path / "network.toml"
    file.write_text("mine")
    done = anabranch("diagnose", str(situations / "06-rcvbuf"), "--scenario", str(file))
    assert done.returncode == 2
    assert file.read_text() == "mine"


@pytest.mark.parametrize("shell", [["dash"], ["busybox", "sh"]])
def test_the_script_collects_what_is_read(tmp_path: Path, shell: list[str]) -> None:
    if shutil.which(shell[0]) is None or shutil.which("ss") is None:
        pytest.skip(f"{shell[0]} or ss is not installed")
    script = resources.files("anabranch.diagnose").joinpath("collect.sh").read_text()
    with socket.create_server(("127.0.0.1", 0)) as server:
        stop = threading.Event()
        port = server.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        taken, _ = server.accept()

        def send() -> None:
            while not stop.is_set():
                client.sendall(bytes(65536))
                stop.wait(0.05)

        def receive() -> None:
            while taken.recv(1 << 20):
                pass

        threads = [threading.Thread(target=one) for one in (send, receive)]
        for thread in threads:
            thread.start()
        done = subprocess.run([*shell, "-s", str(tmp_path / "out")], input=script, text=True,
                              capture_output=True, timeout=60)  # fmt: skip
        stop.set()
        threads[0].join()
        client.close()
        threads[1].join()
        taken.close()
    assert done.returncode == 0, done.stderr
    evidence = gather([tmp_path / "out"])
    assert len(evidence.samples) == 13
    connection = connection_of(evidence, f"127.0.0.1:{port}")
    assert connection is not None
    # 64 kB each 50 ms are 10.5 Mbps; a busy host sends later, never earlier.
    assert connection.goodput_mbps is not None
    assert 1 < connection.goodput_mbps < 10.6


def test_a_device_that_no_path_has_is_refused_with_the_choices(
    anabranch: Anabranch, situations: Path
) -> None:
    done = anabranch("diagnose", str(situations / "06-rcvbuf"), "--link", "wan0=30,lte0=10")
    assert done.returncode == 2
    assert "device 'lte0': expected one of wan0, wan1" in done.stderr


def test_what_a_strangers_file_has_for_the_terminal_is_escaped(
    anabranch: Anabranch, situations: Path, tmp_path: Path
) -> None:
    folder = kept(situations / "06-rcvbuf", tmp_path / "all", r"(?!ss-).*")
    for file in folder.glob("ssm-*.txt"):
        file.write_text(file.read_text().replace("%wan1", "%\x1b[31m[b]x"))
    (folder / "[red]\x1b[31m.bin").write_bytes(b"odd")
    done = anabranch("diagnose", str(folder))
    assert done.returncode in (0, 3)
    assert "\x1b" not in done.stdout
    assert "[red]" in done.stdout


def test_damaged_files_end_in_an_answer_or_a_line(situations: Path, tmp_path: Path) -> None:
    random = Random(3)
    for i in range(60):
        target = tmp_path / str(i)
        target.mkdir()
        for file in (situations / random.choice(NAMES)).iterdir():
            data = bytearray(file.read_bytes())
            for _ in range(random.choice((0, 1, 20))):
                at = random.randrange(len(data) + 1)
                data[at : at + random.randrange(30)] = random.choice((b"", b"9" * 30, b"-", b"nan"))
            if file.suffix != ".toml":
                (target / file.name).write_bytes(bytes(data))
        with suppress(ScenarioError):
            diagnose(gather([target]))


# `anabranch-kernel doctor` has the same causes and words.

ROOT = Path(__file__).parents[2]
ROWS = (ROOT / "python/anabranch/diagnose/rows.py").read_text()
DOCTOR = "".join(
    file.read_text()
    for pattern in ("doctor.rs", "doctor/*.rs", "stalls.rs", "pins.rs")
    for file in sorted((ROOT / "crates/kernel/kernel/src").glob(pattern))
)
NAMED = {*re.findall(r'Finding\(\s*"([a-z-]+)"', ROWS), "none", "not-enough"}
CHECKED = {name for name in words() if re.search(rf'"{name}"', DOCTOR)}


def test_every_cause_of_both_has_words_and_no_words_are_left_over() -> None:
    assert {name for name, said in words().items() if said.get("sentence")} >= NAMED
    assert {name for name, said in words().items() if said.get("check")} <= CHECKED
    assert set(words()) == NAMED | CHECKED


def test_what_both_find_has_a_check_and_a_sentence() -> None:
    both = NAMED & CHECKED
    # Rows 1 to 6, 10 and 14 of the design, as far as a host without a transfer shows them.
    assert both == {"limits-forbid", "no-endpoint", "endpoint-without-device", "wrong-route",
                    "send-buffer", "receive-buffer", "slow-path-blocks", "held-back"}  # fmt: skip
    for name in both - {"slow-path-blocks", "held-back"}:  # of `status`, which watches transfers
        assert words()[name]["check"], name
        assert words()[name]["sentence"], name


@pytest.mark.parametrize("name", NAMES)
def test_the_remedy_begins_with_the_command_of_the_words(situations: Path, name: str) -> None:
    found = diagnose(gather([situations / name]))
    template = words()[found.cause.id]["remedy"]
    command = re.split(r"[{=]|[A-Z]{4}", template)[0]
    if template.startswith(("ip ", "tc ", "sysctl ")) and found.cause.id != "bufferbloat":
        assert (
            found.remedy[0]
            .command.replace("sysctl -w", "sysctl")
            .startswith(command.replace("sysctl -w", "sysctl"))
        )
