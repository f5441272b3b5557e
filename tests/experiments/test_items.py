"""The items of `judge/`: all of RFC 9743's sections, every threshold with a reason, references."""

import pytest

from anabranch import run
from anabranch.experiments import folder
from anabranch.experiments.networks import Network, around, cases, settings
from anabranch.experiments.outcome import suited
from anabranch.experiments.subject import Subject
from anabranch.experiments.suite import Sample, Suite
from anabranch.scenario import ScenarioError

RFC_9743 = [
    *("5.1.1", "5.1.2", "5.1.3", "5.1.4", "5.1.5", "5.2.1", "5.2.2", "5.2.3", "5.3.1", "5.3.2"),
    *("6.1", "6.2", "6.3", "6.4"),
    *("7.1", "7.2", "7.3", "7.4", "7.5", "7.6", "7.7", "7.8", "7.9", "7.10", "7.11"),
]
"""The sections below 5, 6 and 7, from the table of contents."""


def networks(suite: Suite, name: str, quick: bool = True) -> list[Network]:
    block = suite.block(name, "sim")
    return [
        Network.of(suite, block, key, case, {"lia": None}, quick, sampled)
        for key, case, sampled in cases(block, quick, "sim")
    ]


def test_every_section_of_the_rfc_has_an_item_in_its_order() -> None:
    found = [item.section for item in folder.open_judge().entries.items.values()]
    assert set(RFC_9743) <= set(found)
    assert set(found) - set(RFC_9743) == {"5.2", "6", "theory"}
    assert found[0] == "5.1.1"
    assert found.index("7.9") < found.index("7.10") < found.index("7.11") < found.index("theory")


def test_every_threshold_has_a_reason() -> None:
    for name, item in folder.open_judge().entries.items.items():
        assert all(len(bound.why) > 5 for bound in item.bounds), name
        assert item.at_most is None or item.why, name
        assert item.control == ("lia" if item.section == "7.10" else "reno")


def test_every_scenario_of_the_folder_is_used_and_every_case_is_accepted() -> None:
    suite = folder.open_judge()
    items = suite.entries.items
    used = {i.scenario or suite.entries.scenario for i in items.values() if i.runs}
    assert used == {f.name for f in folder.JUDGE.glob("*.toml") if "judge" not in f.name}
    for name, item in items.items():
        if item.runs:
            for network in networks(suite, name):
                assert network.scenario.warnings == [], (name, network.label)


def test_items_are_chosen_by_name_and_by_section() -> None:
    suite = folder.open_judge()
    assert list(suite.chosen(("shared", "5.1.2"))) == ["bufferbloat", "shared"]
    with pytest.raises(ScenarioError, match=r"unknown 'shard'.*did you mean shared"):
        suite.chosen(("shard",))


@pytest.mark.parametrize(("rule", "accurate"), [("dctcp", True), ("reno", False)])
def test_a_scalable_rule_has_accurate_ecn_in_each_item(rule: str, accurate: bool) -> None:
    suite = suited(folder.open_judge(), Subject.of(rule))
    for name in ("shared", "ecn"):
        for network in networks(suite, name):
            for scenario in (network.scenario, *(c.scenario for c in network.references.values())):
                assert ('ecn = "accurate"' in scenario.to_folder()[0]) == accurate


def test_l4s_is_asked_beside_both_kinds_of_flows_in_each_queue_that_marks() -> None:
    suite = suited(folder.open_judge(), Subject.of("lia"))
    found = set()
    for network in networks(suite, "l4s", quick=False):
        plain = network.scenario.network()
        (link,), (_, victim) = plain["links"], plain["flows"]
        found.add((link["queue"], victim["algorithm"]))
        for cell in (*network.rules.values(), *network.references.values()):
            assert 'ecn = "accurate"' in cell.scenario.to_folder()[0], "without it dctcp is Reno"
    queues, kinds = ("dualpi2", "fq_codel", "pie", "red"), ("reno", "dctcp")
    assert found == {(queue, kind) for queue in queues for kind in kinds}


def packets(values: dict) -> int:
    found: int = settings(values)["links.bottleneck.queue"]["drop_tail"]["packets"]
    return found


def test_a_buffer_in_bdp_is_packets_of_the_link_unless_a_queue_is_written() -> None:
    # 10 Mbps x 40 ms = 50 000 bytes, 33.3 packets.
    assert packets({"buffer_bdp": 1}) == 33
    # 20 Mbps x 100 ms / 2 = 125 000 bytes, 83.3 packets.
    assert packets({"rate_mbps": 20, "rtt_ms": 100, "buffer_bdp": 0.5}) == 83
    assert packets({"buffer_bdp": 1, "tcp.packet_bytes": 300}) == 167
    assert packets({"rate_mbps": 1, "rtt_ms": 5, "buffer_bdp": 0.1}) == 2, "never less than two"
    assert settings({"rtt_ms": 100})["links.bottleneck.delay_ms"] == 50
    assert settings({"tcp.ecn": True}) == {"tcp.ecn": True}, "nothing else is touched"
    written = {"rate_mbps": 20, "links.bottleneck.queue": {"codel": {}}}
    assert settings(written)["links.bottleneck.queue"] == {"codel": {}}


def test_reference_and_rule_differ_by_what_the_reference_sets() -> None:
    first, *_ = networks(folder.open_judge(), "shared")
    paths = [flow["paths"] for flow in first.scenario.network()["flows"]]
    assert len(paths[0]) == 2
    reference = first.references["reno"].scenario
    others = [flow["paths"] for flow in reference.network()["flows"]]
    assert len(others[0]) == 1
    assert others[1:] == paths[1:]


def test_steps_of_the_delay_double_the_rtt_and_the_queue_is_its_larger_bdp() -> None:
    (one,) = networks(folder.open_judge(), "delay-steps")
    link = one.values["links.bottleneck"]
    text = one.scenario.inputs[link["trace_file"]].decode()
    added = {float(line.split(",")[1]) for line in text.splitlines()[1:]}
    # ACKs return after the link's delay, without the trace.
    assert {2 * link["delay_ms"] + ms for ms in added} == {40.0, 80.0}
    # 10 Mbps x 80 ms = 100 000 bytes, 66.7 packets.
    assert link["queue"] == {"drop_tail": {"packets": 67}}


def test_renos_ratio_at_unequal_rtts_is_that_of_theory() -> None:
    """Rates are 1 / (RTT sqrt(p)): at equal p the ratio of RTTs; by phase it would be 16."""
    rows = run(folder.JUDGE / "unequal.toml", "reno", seeds=10).summary().set_index("flow")
    near, far = rows.loc["near"], rows.loc["far"]
    rtts = far["rtt_ms"] / near["rtt_ms"]
    losses = far["loss_probability"] / near["loss_probability"]
    assert rtts == pytest.approx(3.0, rel=0.05), "60 ms and 180 ms, with 20 ms of queue"
    # A twentieth is what 10 seeds leave open of rates, a tenth of loss probabilities.
    assert near["goodput_mbps"] / far["goodput_mbps"] == pytest.approx(rtts * losses**0.5, rel=0.1)
    assert losses == pytest.approx(1.0, abs=0.2)


def test_rule_and_victim_have_packets_of_different_sizes() -> None:
    cases = networks(folder.open_judge(), "packet-size", quick=False)
    sizes = [[f["packet_bytes"] for f in one.scenario.network()["flows"]] for one in cases]
    assert all(rule != victim for rule, victim in sizes)
    queues = [one.values.get("links.bottleneck.queue", "packets") for one in cases]
    assert {"bytes" in str(queue) for queue in queues} == {True, False}


def test_the_quick_form_has_fewer_cases_and_samples_come_smallest_first() -> None:
    suite = folder.open_judge()
    drawn = networks(suite, "range")
    sample = suite.entries.items["range"].sample
    assert sample is not None
    assert len(drawn) == sample.quick < len(networks(suite, "range", quick=False))
    sizes = [n.sampled["rate_mbps"] * n.sampled["rtt_ms"] * n.sampled["buffer_bdp"] for n in drawn]
    assert sizes == sorted(sizes)
    assert [n.label for n in networks(suite, "range")] == [n.label for n in drawn], "every time"
    assert len(networks(suite, "aqm")) == 2 < len(networks(suite, "aqm", quick=False))


def test_the_box_of_a_search_is_around_the_worst_and_inside_the_first() -> None:
    sample = Sample(3, 2, {"a": "log(1,16)", "b": "lin(0,8)"})
    # Half as wide on the logarithmic scale: a factor of 4, from 4 / 2 to 4 x 2.
    assert around(sample, {"a": 4.0, "b": 4.0}, 0) == {"a": "log(2.0,8.0)", "b": "lin(2.0,6.0)"}
    assert around(sample, {"a": 16.0, "b": 0.5}, 0) == {"a": "log(8.0,16.0)", "b": "lin(0.0,2.5)"}
    assert around(sample, {"a": 4.0, "b": 4.0}, 1)["b"] == "lin(3.0,5.0)"
