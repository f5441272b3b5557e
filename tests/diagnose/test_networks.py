"""`anabranch diagnose` where several things are wrong, or beside the connection: edited files."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch.diagnose import Diagnosis, diagnose, gather
from anabranch.diagnose.rows import QUIC_ROWS, ROWS
from diagnose.conftest import NAMES, links, truth

Edit = Callable[[str, str], str]


def asked(folder: Path, target: Path, edit: Edit, links_mbps: dict[str, float] | None = None
          ) -> Diagnosis:  # fmt: skip
    """The answer to files of a situation, each edited by its name and text."""
    shutil.copytree(folder, target, ignore=shutil.ignore_patterns("truth.toml"))
    for file in target.glob("*.txt"):
        file.write_text(edit(file.name, file.read_text()))
    return diagnose(gather([target], links_mbps=links_mbps))


def test_a_limit_leaves_out_the_third_of_three_paths(situations: Path, tmp_path: Path) -> None:
    def edit(name: str, text: str) -> str:
        if name == "ip-mptcp.txt":
            text = re.sub(r"subflows \d+", "subflows 1", text)
            return f"10.77.2.2 id 2 subflow dev wan2\n{text}"
        return text

    found = asked(situations / "01-healthy", tmp_path / "a", edit)
    assert found.cause.id == "limits-forbid"
    assert found.remedy[0].command.startswith("ip mptcp limits set subflow 2")


def test_a_link_that_the_user_counts_on_and_no_path_uses_is_named(
    situations: Path, tmp_path: Path
) -> None:
    def edit(name: str, text: str) -> str:
        line = "wan2             UP             10.77.2.2/24\n"
        return line + text if name == "ip-route.txt" else text

    given = {"wan0": 20.0, "wan1": 10.0, "wan2": 10.0}
    found = asked(situations / "01-healthy", tmp_path / "a", edit, given)
    assert found.cause.id == "no-endpoint"
    assert found.remedy[0].command == "ip mptcp endpoint add 10.77.2.2 dev wan2 subflow"
    # Not every address of a host is a path.
    assert asked(situations / "01-healthy", tmp_path / "b", edit).cause.id == "none"


def test_the_endpoint_is_for_a_device_with_a_default_route(
    situations: Path, tmp_path: Path
) -> None:
    def edit(name: str, text: str) -> str:
        line = "docker0          UP             172.17.0.1/16\n"
        return text.replace("wan0 ", f"{line}wan0 ", 1) if name == "ip-route.txt" else text

    found = asked(situations / "02-no-endpoint", tmp_path / "a", edit)
    assert found.remedy[0].command == "ip mptcp endpoint add 10.77.1.2 dev wan1 subflow"


def test_a_connection_that_has_ended_is_not_the_one(situations: Path, tmp_path: Path) -> None:
    """One that moved 400 MB before, and whose subflows linger, is left out."""
    gone = (
        "tcp   ESTAB 0      1      10.77.0.2:4000    10.99.0.1:5204\n"
        "\t skmem:(r0,rb131072,t0,tb419328,f3263,w833,o0,bl0,d0) cubic rtt:38/22 mss:1448 "
        "cwnd:10 bytes_sent:400000000 bytes_acked:400000000 data_segs_out:300000 lastrcv:50692 "
        "busy:48992ms minrtt:20 tcp-ulp-mptcp flags:Mmec token:0000(id:0)/cadf84b0(id:0) \n"
    )

    def edit(name: str, text: str) -> str:
        return text + gone if name.startswith(("ss-", "ssm-")) else text

    found = asked(situations / "07-slow-path-blocks", tmp_path / "a", edit)
    assert found.cause.id == "slow-path-blocks"


def test_a_device_without_a_router_has_a_route_without_one(
    situations: Path, tmp_path: Path
) -> None:
    def edit(name: str, text: str) -> str:
        if name.startswith("ip-link"):
            return re.sub(r"(wan1.*?<)", r"\1POINTOPOINT,", text)
        return re.sub(r"default .*dev wan1.*\n", "", text) if name == "ip-route.txt" else text

    found = asked(situations / "12-wrong-route", tmp_path / "a", edit)
    assert found.cause.id == "wrong-route"
    assert found.remedy[0].command == "ip route add default dev wan1 table 100"


def test_a_shaper_at_the_rate_of_the_link_is_meant(situations: Path, tmp_path: Path) -> None:
    folder = situations / "20-own-shaper"
    (rate,) = re.findall(r"tbf.*rate (\S+)bit", (folder / "tc.txt").read_text())
    mbps = float(rate[:-1]) * {"K": 1e-3, "M": 1.0}[rate[-1]]
    found = asked(folder, tmp_path / "a", lambda _, text: text, {"wan0": 20, "wan1": mbps / 0.95})
    assert "own-shaper" not in [found.cause.id, *(one.id for one in found.also)]


def test_what_is_expected_has_the_other_limits(situations: Path, tmp_path: Path) -> None:
    folder = situations / "09-backup"
    given = links(truth(folder))  # 12 and 18 Mbps; wan1, with an RTT of 25 ms, is the backup

    def shaped(name: str, text: str) -> str:
        tbf = "qdisc tbf 1: dev wan0 root refcnt 2 rate 12Mbit burst 6000b lat 60ms\n"
        return text + tbf if name == "tc.txt" else text

    found = asked(folder, tmp_path / "a", shaped, {**given, "wan0": 30.0})
    assert found.cause.id == "backup-flag"
    assert [one.id for one in found.also] == ["own-shaper"]
    assert found.expected is not None
    now = found.connection.paths[0].rate_mbps
    assert now is not None
    assert found.expected.mbps == pytest.approx(now + 0.95 * 18)

    def small(name: str, text: str) -> str:
        return re.sub(r"(tcp_wmem = 4096\s+16384)\s+\d+", r"\1 32768", text)

    found = asked(folder, tmp_path / "b", small, given)
    assert found.expected is not None
    # 0.7 of 32768 bytes in 25 ms are 7.3 Mbps, in 30 ms 6.1: less than both links.
    assert found.expected.mbps == pytest.approx(7.3 + 6.1, rel=0.03)


def test_a_backup_without_a_rule_has_the_wrong_route_too(situations: Path, tmp_path: Path) -> None:
    def edit(name: str, text: str) -> str:
        text = text.replace("10.77.1.2%wan1:", "10.77.1.2:")
        return re.sub(r".*from 10.77.1.2 .*\n", "", text) if name == "ip-route.txt" else text

    folder = situations / "09-backup"
    found = asked(folder, tmp_path / "a", edit, links(truth(folder)))
    assert found.cause.id == "backup-flag"
    assert "wrong-route" in [one.id for one in found.also]
    assert found.expected is not None
    # The backup shares the first link, of 12 Mbps, until it has a route of its own.
    assert found.expected.mbps == pytest.approx(0.95 * 12, rel=0.02)


def test_a_backup_whose_use_would_cost_goodput_is_meant(situations: Path, tmp_path: Path) -> None:
    def edit(name: str, text: str) -> str:
        # 0.6 of 40 kB in the 30 ms of a path are 6.4 Mbps; there are 11.3 now.
        if name == "peer-sysctl.txt":
            return re.sub(r"(tcp_rmem = 4096\s+131072)\s+\d+", r"\1 40000", text)
        return text

    folder = situations / "09-backup"
    found = asked(folder, tmp_path / "a", edit, links(truth(folder)))
    assert found.cause.id == "none"
    assert len(found.connection.paths) == 2


def test_a_path_alone_that_has_less_than_its_contract_counts(
    situations: Path, tmp_path: Path
) -> None:
    found = asked(situations / "02-no-endpoint", tmp_path / "a", lambda _, t: t,
                  {"wan0": 20.0, "wan1": 100.0})  # fmt: skip
    assert found.expected is not None
    assert found.expected.mbps == pytest.approx(0.95 * 20 + 9.4, rel=0.01)


@pytest.mark.parametrize("name", NAMES)
def test_a_remedy_that_begins_with_a_command_is_one(situations: Path, name: str) -> None:
    for step in diagnose(gather([situations / name])).remedy:
        if step.command.startswith(("ip ", "tc ", "sysctl ")):
            assert not re.search(r", | or |;", step.command), step.command


def test_a_buffer_that_is_full_is_not_made_smaller(situations: Path, tmp_path: Path) -> None:
    def edit(name: str, text: str) -> str:
        if name == "peer-sysctl.txt":
            return re.sub(r"(tcp_rmem = 4096\s+131072)\s+\d+", r"\1 33554432", text)
        return text

    found = asked(situations / "06-rcvbuf", tmp_path / "a", edit)
    assert found.remedy[0].command.endswith(" 67108864'")


def test_all_rows_of_a_qlog_are_rows() -> None:
    assert set(QUIC_ROWS) < set(ROWS)
