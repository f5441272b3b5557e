"""Scenarios of the paths of a network: which paths, their rates and delays, and faults by name."""

from pathlib import Path

import pytest

from anabranch.extras.topology import Defaults, in_text, scenario_from
from anabranch.scenario import Scenario, ScenarioError
from conftest import Anabranch

RING = Path(__file__).with_name("ring.graphml")
# A degree of the equator, 6371 km * pi / 180 = 111.195 km, at 200 km/ms.
DEGREE_MS = 0.555975


def routes(text: str) -> list[list[str]]:
    """The links of each path."""
    network = Scenario.parse(text).network()
    (flow,) = network["flows"]
    return [[network["links"][i]["name"] for i in path["links"]] for path in flow["paths"]]


def test_disjoint_paths_have_the_smallest_sum_of_delays() -> None:
    text = scenario_from(RING, "A", "D")
    assert routes(text) == [["A-B", "B-C", "C-D"], ["A-E", "E-F", "F-D"]]
    links = {link["name"]: link for link in Scenario.parse(text).network()["links"]}
    assert links["A-B"]["rate_mbps"] == 10  # LinkSpeedRaw, bit/s
    assert links["A-E"]["rate_mbps"] == 20  # rate_mbps
    assert links["A-B"]["delay_ms"] == pytest.approx(DEGREE_MS, rel=1e-5)
    assert links["E-F"]["delay_ms"] == pytest.approx(3 * DEGREE_MS, rel=1e-5)


def test_the_shortest_path_is_given_up_where_it_blocks_the_only_pair(tmp_path: Path) -> None:
    # A trap: the shortest path A B F D uses B-F, and leaves A-E-F and B-C-D without an end.
    faster = tmp_path / "trap.graphml"
    faster.write_text(RING.read_text().replace('<data key="d6">0.5', '<data key="d6">0.01'))
    assert routes(scenario_from(faster, "A", "D", 1)) == [["A-B", "B-F", "F-D"]]
    assert routes(scenario_from(faster, "A", "D", 2)) == [
        ["A-B", "B-C", "C-D"],
        ["A-E", "E-F", "F-D"],
    ]


def test_shared_paths_are_the_shortest() -> None:
    # 3 degrees; 2 degrees and 0.5 ms, which is less than a degree; and 5.
    assert routes(scenario_from(RING, "A", "D", 3, shared=True)) == [
        ["A-B", "B-F", "F-D"],
        ["A-B", "B-C", "C-D"],
        ["A-E", "E-F", "F-D"],
    ]


def test_a_node_may_be_named_by_its_id() -> None:
    assert scenario_from(RING, "0", "3") == scenario_from(RING, "A", "D")


def edited(tmp_path: Path, old: str, new: str) -> Path:
    """The network with a text replaced."""
    text = RING.read_text()
    assert old in text
    file = tmp_path / "edited.graphml"
    file.write_text(text.replace(old, new))
    return file


def test_what_links_lack_is_given(tmp_path: Path) -> None:
    joined = '<edge source="0" target="6" /><edge source="6" target="3" /></graph>'
    file = edited(tmp_path, "</graph>", joined)
    with pytest.raises(ScenarioError, match=r"node 'Nowhere' no Latitude .* give --delay-ms"):
        scenario_from(file, "A", "D", 3)
    delay = Defaults(delay_ms=40)
    with pytest.raises(ScenarioError, match=r"edge 'A' - 'Nowhere' has neither .* --rate-mbps"):
        scenario_from(file, "A", "D", 3, defaults=delay)
    # Only the links of the paths need a rate.
    assert len(routes(scenario_from(file, "A", "D", 2, defaults=delay))) == 2
    text = scenario_from(file, "A", "D", 3, defaults=Defaults(rate_mbps=5, delay_ms=40))
    assert routes(text)[2] == ["A-Nowhere", "Nowhere-D"]


@pytest.mark.parametrize(
    ("ends", "paths", "message"),
    [
        (("A", "d"), 2, "ring.graphml: no node 'd': expected one of A, B"),
        (("A", "Twin"), 2, "nodes 7, 8 have the label 'Twin': give an id"),
        (("A", "A"), 2, "A and A are the same node"),
        (("A", "Nowhere"), 1, "0 paths without a common link from 'A' to 'Nowhere', not 1"),
        (("A", "D"), 3, "2 paths without a common link from 'A' to 'D', not 3: give --paths 2"),
    ],
)
def test_a_fault_is_named(ends: tuple[str, str], paths: int, message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        scenario_from(RING, *ends, paths)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("<graphml", "<graph", "not GraphML"),
        ('"d4">10000000', '"d4">fast', "not GraphML"),
        (">20<", ">-20<", "rate_mbps"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    old: str, new: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ScenarioError) as error:
        scenario_from(edited(tmp_path, old, new), "A", "D")
    assert "edited.graphml" in str(error.value)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_the_command_writes_a_scenario_that_runs(tmp_path: Path, anabranch: Anabranch) -> None:
    file = tmp_path / "ring.toml"
    done = anabranch("init", file, "--topology", RING, "--from", "A", "--to", "D")
    assert done.returncode == 0, done.stderr
    done = anabranch("run", file, "--set", "measure.duration_s=6")
    assert done.returncode == 0, done.stderr
    assert "A to D" in done.stdout
    done = anabranch("init", file, "--topology", RING, "--from", "A", "--force")
    assert "give the ends of the paths: --from, --to" in done.stderr


ZOO = """Creator "Topology Zoo Toolset"
graph [
  directed 0
  label "Like the Zoo's"
  node [
    id 0
    label "West"
    Longitude -120.0
    Latitude 40.0
  ]
  node [ id 1 label "East" Longitude -75.0 Latitude 40.0 ]
  node [ id 2 label "Bor&#229;s" Longitude -95.0 Latitude 45.0 ]
  node [ id 3 label "None" Internal 0 ]
  edge [ source 0 target 2 LinkType "OC-192" LinkLabel "OC-192c" LinkNote "c" ]
  edge [ source 2 target 1 LinkSpeed "10" LinkLabel "10 Gbps" LinkSpeedUnits "G" ]
  edge [ source 0 target 1 LinkLabel "< 2.5 Gbps" LinkSpeedRaw 2500000000.0 ]
  edge [ source 0 target 1 LinkLabel "155 Mbps" ]
  edge [ source 1 target 3 LinkLabel "10-20Gbps" ]
]
"""


def test_gml_of_the_zoo_is_read_with_parallel_edges_and_labels(tmp_path: Path) -> None:
    file = tmp_path / "zoo.gml"
    file.write_text(ZOO)
    text = scenario_from(file, "West", "East")
    assert routes(text) == [["West-East"], ["West-Borås", "Borås-East"]]
    links = {link["name"]: link for link in Scenario.parse(text).network()["links"]}
    # The fastest of the parallel edges; OC-192 is 192 * 51.84.
    assert links["West-East"]["rate_mbps"] == 2500
    assert links["West-Borås"]["rate_mbps"] == 9953.28
    assert links["Borås-East"]["rate_mbps"] == 10_000
    # Haversine of 45 degrees of longitude at 40 north: 2 asin(cos 40 sin 22.5) = 0.59506 rad, that
    # is 3791.0 km or 18.955 ms.
    assert links["West-East"]["delay_ms"] == pytest.approx(18.955, abs=1e-3)
    total = links["West-Borås"]["delay_ms"] + links["Borås-East"]["delay_ms"]
    assert total == pytest.approx(19.201, abs=1e-3)
    assert "2500  # the label says '< 2.5 Gbps', an upper bound" in text
    assert "9953.28  # by the label 'OC-192c'" in text
    assert "# In no path, for they have no delay: 1 edge." in text


def test_what_is_made_up_is_marked_and_what_is_ambiguous_refused(tmp_path: Path) -> None:
    file = tmp_path / "zoo.gml"
    file.write_text(ZOO)
    with pytest.raises(ScenarioError, match="node 'None' no Latitude and Longitude: give --delay"):
        scenario_from(file, "West", "None", 1)
    with pytest.raises(ScenarioError, match=r"nor a label \('10-20Gbps'\) with one rate"):
        scenario_from(file, "West", "None", 1, defaults=Defaults(delay_ms=5))
    text = scenario_from(file, "West", "None", 1, defaults=Defaults(15_000, 5))
    assert "rate_mbps = 15000  # given by --rate-mbps" in text
    assert "delay_ms = 5  # made up by --delay-ms: node 'None' has no Latitude" in text


@pytest.mark.parametrize(
    ("label", "mbps"),
    [
        ("OC-3", 155.52),
        ("OC768", 39_813.12),
        ("OC-192 (Future)", 9953.28),
        ("STM-16", 2488.32),
        ("STM64", 9953.28),
        ("T1", 1.544),
        ("DS3", 44.736),
        ("E1", 2.048),
        ("E3", 34.368),
        ("155 Mbps", 155),
        ("2.5Gb/s", 2500),
        ("1Gbit/s", 1000),
        ("512Kbps", 0.512),
        ("10GE", 10_000),
        ("10 GigE", 10_000),
        ("1G Ethernet", 1000),
        ("GigE", 1000),
        ("Gigabit Ethernet", 1000),
        ("Fast Ethernet", 100),
        ("Dark Fiber (1Gbps)", 1000),
        ("KreoNet2  10Gbit/s", 10_000),
        ("8*GbE", 8000),
        ("2 x 10G", 20_000),
        ("100GbE", 100_000),
        ("10-20Gbps", None),
        ("300M-1Gb/s", None),
        ("CANARIE N*10Gbit/s", None),
        ("Managed Fiber (10Gbps, 100Mbps)", None),
        ("WANPHY", None),
        ("DWDM", None),
        ("Fiber 12", None),
        ("", None),
    ],
)
def test_labels_of_the_zoo_name_rates(label: str, mbps: float | None) -> None:
    assert in_text(label) == mbps


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("graph [", "line 1: the list has no end"),
        ("graph [\n  node [ id ]\n]", "line 2: id has no value"),
        ("graph [ node [ label x ] ]", "expected a number or a string, found 'x'"),
        ("nothing 1", "not GML"),
        ("graph [ node [ label 1 ] ]", "not GML: 'id'"),
        ('graph "', "not GML"),
    ],
)
def test_a_fault_of_gml_is_one_line(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.gml"
    file.write_text(text)
    with pytest.raises(ScenarioError) as error:
        scenario_from(file, "A", "B")
    assert message in str(error.value)
    assert "\n" not in str(error.value)
