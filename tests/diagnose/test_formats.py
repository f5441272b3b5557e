"""Every format and version that the tools print: read alike, or refused by name."""

import json
import re
from pathlib import Path

import pytest

from anabranch import ScenarioError
from anabranch.diagnose import gather
from anabranch.diagnose.connection import connection_of
from anabranch.readers import read

SS = """\
Netid State Recv-Q Send-Q  Local Address:Port  Peer Address:PortProcess
tcp   ESTAB 0      111776      10.77.0.2:34694    10.99.0.1:5204
\t skmem:(r0,rb131072,t0,tb1055232,f864,w138400,o0,bl0,d0) cubic wscale:7,7 rto:272 \
rtt:69.561/2.475 mss:1448 pmtu:1500 cwnd:229 bytes_sent:8696224 bytes_acked:8585137 \
data_segs_out:6375 lastrcv:{0} busy:6148ms unacked:83 minrtt:60.102 snd_wnd:160384 \
tcp-ulp-mptcp flags:Mmec token:0000(id:0)/f8330721(id:0)
tcp   ESTAB 0      32784  10.77.1.2%wan1:51351    10.99.0.1:5204
\t skmem:(r0,rb131072,t0,tb382464,f1456,w43600,o0,bl0,d0) cubic wscale:7,7 rtt:40.05/4.568 \
mss:1448 cwnd:35 bytes_sent:4618821 bytes_retrans:46992 bytes_acked:4539046 data_segs_out:3357 \
lastrcv:{0} busy:6024ms unacked:24 retrans:0/33 minrtt:30.216 snd_wnd:161792 \
tcp-ulp-mptcp flags:Jjec token:fadf2000(id:0)/f8330721(id:1)
"""
TOTAL = """\
mptcp ESTAB 0      0           10.77.0.2:34694    10.99.0.1:5204
\t skmem:(r0,rb131072,t0,tb1441792,f3424,w1000096,o0,bl0,d0) subflows:1 token:f8330721 \
write_seq:{0} snd_una:{1}
"""


def one_line(text: str) -> str:
    return text.replace("\n\t", " ")


FORMS = {
    "ss -tinmM": SS,
    "ss -O": one_line(SS),
    "ss -H": SS.partition("\n")[2],
    "ss -HO": one_line(SS).partition("\n")[2],
    "ss -t, without Netid": re.sub(r"^(Netid|tcp  ) ", "", SS, flags=re.M),
    "ss state established": re.sub(r"ESTAB |State", "", SS),
    "ss -e": SS.replace("10.99.0.1:5204\n", "10.99.0.1:5204 uid:1000 ino:4711 sk:5 <->\n"),
    "ss -p": SS.replace("10.99.0.1:5204\n", '10.99.0.1:5204 users:(("iperf3",pid=7,fd=5))\n'),
    "blanks at the ends of lines": SS.replace("\n", "   \n"),
    "CRLF": SS.replace("\n", "\r\n"),
    "a byte order mark": "\ufeff" + SS,
    "IPv4 in IPv6": re.sub(r"(10\.\d+\.\d+\.\d+)(%wan1)?:", r"[::ffff:\1]\2:", SS),
    "hexadecimal numbers, iproute2 to 6.4": SS
    + TOTAL.format("15e532e888d13d26", "15e532e888c1ff5e"),
    "decimal numbers, 6.5 and later": SS + TOTAL.format(1577829155126033702, 1577829155125034846),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_ss_says_the_same(tmp_path: Path, name: str) -> None:
    for i, quiet in enumerate((6000, 10_000)):
        text = FORMS[name].replace("{0}", str(quiet))
        (tmp_path / f"ss-{i}.txt").write_text(
            text if i else text.replace("bytes_acked:8", "bytes_acked:3")
        )
    evidence = gather([tmp_path])
    found = connection_of(evidence)
    assert found is not None
    assert [path.address for path in found.paths] == ["10.77.0.2", "10.77.1.2"]
    # 8 585 137 less 3 585 137 bytes in 4 s.
    assert found.paths[0].rate_mbps == pytest.approx(10)
    assert [path.last.rule for path in found.paths] == ["cubic", "cubic"]
    assert [path.last.rtt_ms for path in found.paths] == [69.561, 40.05]
    # 0x15e532e888d13d26 - 0x15e532e888c1ff5e = 998856.
    assert set(found.outstanding_bytes) in ({998856}, set())


def iperf3_test(version: str) -> dict[str, object]:
    """12.5 MB in 10 s, of which 12 arrived; versions since 3.7 say which end sent."""
    newer = tuple(map(int, version.split("."))) >= (3, 7)
    ends = [
        {"socket": 5, "bytes": count, "seconds": 10, "bits_per_second": count * 0.8}
        | ({"sender": True} if newer else {})
        for count in (12_500_000, 12_000_000)
    ]
    return {
        "start": {"version": f"iperf {version}", "test_start": {"reverse": 0}},
        "intervals": [],
        "end": {"streams": [{"sender": ends[0], "receiver": ends[1]}]},
    }


VERSIONS = ["3.1.4", "3.6", "3.7", "3.9", "3.10", "3.11", "3.12", "3.13", "3.16", "3.17", "3.19",
            "3.20", "3.21"]  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_of_iperf3_is_read(tmp_path: Path, version: str) -> None:
    file = tmp_path / "test.json"
    document = iperf3_test(version)
    file.write_text(json.dumps(document))
    # 12 MB in 10 s are 9.6 Mbps.
    assert gather([file]).goodput_mbps == pytest.approx(9.6)
    assert read(file).connections[0].goodput_mbps == pytest.approx(9.6)
    events = [{"event": key, "data": value} for key, value in document.items() if value]
    file.write_text("\n".join(map(json.dumps, events)))
    assert gather([file]).goodput_mbps == pytest.approx(9.6)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (json.dumps({"start": {}, "intervals": [], "error": "refused"}), "iperf3 failed: refused"),
        (json.dumps({"start": {"version": "iperf 3.12"}, "intervals": [{"sum": {"end": 4.0}}]}),
         "interrupted after 4 s"),
        ("\x1f\x8b", "compressed"),
        ("PK\3\4", "compressed"),
        ("\n\r\r\n", "cut in its first header"),
        ('\x1e{"qlog_version": "0.3", "trace": {}}\n', "without packets"),
        ('{"qlog_version": "0.3", "traces": 5}', "not qlog"),
        ('[{"ifname": "wan0", "addr_info": []}]', "not known"),
        ("iperf 2.1.8: [ 1] 0.0-10.0 sec 11.2 MBytes", "not known"),
        ("Active Connections\n  TCP 10.0.0.1:443", "not known"),
    ],
)  # fmt: skip
def test_what_is_not_read_is_refused_by_name_with_what_to_take(
    tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "odd"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(ScenarioError, match=f"odd: .*{said}"):
        gather([file])


def test_a_list_without_listeners_is_read(tmp_path: Path) -> None:
    file = tmp_path / "ss-listen.txt"
    file.write_text("State Recv-Q Send-Q Local Address:Port Peer Address:PortProcess\n")
    assert gather([tmp_path]).skipped == []
