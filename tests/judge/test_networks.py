"""The networks of items: what a point sets, the order of points, the boxes of a search."""

from pathlib import Path

import pytest

from anabranch.judge.entries import Sample, open_items
from anabranch.judge.networks import around, networks, settings
from judge.tiny import write


def packets(values: dict) -> int:
    found: int = settings(values)["links.bottleneck.queue"]["drop_tail"]["packets"]
    return found


def test_a_buffer_in_bdp_is_packets_of_the_link() -> None:
    # 10 Mbps x 40 ms = 50 000 bytes, 33.3 packets.
    assert packets({"buffer_bdp": 1}) == 33
    # 20 Mbps x 100 ms / 2 = 125 000 bytes, 83.3 packets.
    assert packets({"rate_mbps": 20, "rtt_ms": 100, "buffer_bdp": 0.5}) == 83
    assert packets({"buffer_bdp": 1, "tcp.packet_bytes": 300}) == 167
    assert packets({"rate_mbps": 1, "rtt_ms": 5, "buffer_bdp": 0.1}) == 2, "never less than two"
    assert settings({"rtt_ms": 100})["links.bottleneck.delay_ms"] == 50
    assert settings({"tcp.ecn": True}) == {"tcp.ecn": True}, "nothing else is touched"


def test_a_queue_that_is_written_stays() -> None:
    written = {"rate_mbps": 20, "links.bottleneck.queue": {"codel": {}}}
    assert settings(written)["links.bottleneck.queue"] == {"codel": {}}


def test_reference_and_rule_differ_by_what_the_reference_sets() -> None:
    entries = open_items()
    (first, *_) = networks(entries, "shared", entries.items["shared"], quick=True)
    paths = [flow["paths"] for flow in first.scenario.network()["flows"]]
    assert len(paths[0]) == 2
    reference = [flow["paths"] for flow in first.references["reno"].network()["flows"]]
    assert len(reference[0]) == 1
    assert reference[1:] == paths[1:]


def test_steps_of_the_delay_double_the_rtt_and_the_queue_is_its_larger_bdp() -> None:
    entries = open_items()
    (one,) = networks(entries, "delay-steps", entries.items["delay-steps"], quick=True)
    link = one.values["links.bottleneck"]
    text = one.scenario.inputs[link["trace_file"]].decode()
    added = {float(line.split(",")[1]) for line in text.splitlines()[1:]}
    # ACKs return after the link's delay, without the trace.
    rtts = {2 * link["delay_ms"] + ms for ms in added}
    assert rtts == {40.0, 80.0}
    # 10 Mbps x 80 ms = 100 000 bytes, 66.7 packets.
    assert link["queue"] == {"drop_tail": {"packets": 67}}


def test_the_quick_form_has_fewer_points_and_samples_come_smallest_first() -> None:
    entries = open_items()
    item = entries.items["range"]
    drawn = networks(entries, "range", item, quick=True)
    assert item.sample is not None
    assert len(drawn) == item.sample.quick
    sizes = [n.sampled["rate_mbps"] * n.sampled["rtt_ms"] * n.sampled["buffer_bdp"] for n in drawn]
    assert sizes == sorted(sizes)
    again = networks(entries, "range", item, quick=True)
    assert [n.label for n in again] == [n.label for n in drawn], "the same every time"


def test_the_box_of_a_search_is_around_the_worst_and_inside_the_first() -> None:
    sample = Sample(3, 2, {"a": "log(1,16)", "b": "lin(0,8)"})
    # Half as wide on the logarithmic scale: a factor of 4, from 4 / 2 to 4 x 2.
    assert around(sample, {"a": 4.0, "b": 4.0}, 0) == {"a": "log(2.0,8.0)", "b": "lin(2.0,6.0)"}
    assert around(sample, {"a": 16.0, "b": 0.5}, 0) == {"a": "log(8.0,16.0)", "b": "lin(0.0,2.5)"}
    assert around(sample, {"a": 4.0, "b": 4.0}, 1)["b"] == "lin(3.0,5.0)"


def test_the_tiny_folder_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, monkeypatch)
    entries = open_items()
    (one, two) = networks(entries, "victim", entries.items["victim"], quick=False)
    assert (one.label, two.label) == ("1 flow", "2 flows")
    # 6 Mbps x 40 ms = 30 000 bytes, 20 packets.
    assert two.values["links.bottleneck.queue"] == {"drop_tail": {"packets": 20}}
