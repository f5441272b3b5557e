"""Scenarios from network topologies: GraphML and GML, as in the Internet Topology Zoo."""

import html
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice, pairwise
from math import asin, cos, nan, radians, sin, sqrt
from pathlib import Path
from typing import Any

from anabranch.scenario import Scenario, ScenarioError, expected_one_of, named

# GML (Himsolt 1997): lists of keys with numbers, strings or lists.


TOKEN = re.compile(
    r'\s*(?:#[^\n]*\n\s*)*(?:"(?P<text>[^"]*)"|(?P<mark>[\[\]])|(?P<word>[^\s"\[\]]+))'
)

List = dict[str, list[Any]]
"""The values of each key, which may occur several times."""


def parsed(text: str) -> List:
    """The outermost list. Raises ValueError with the line."""
    return _list(_tokens(text), None)


def last(values: List) -> dict[str, Any]:
    """The last value of each key."""
    return {key: each[-1] for key, each in values.items()}


def _tokens(text: str) -> Iterator[tuple[int, str, Any]]:
    """Line, kind and value of each token."""
    place, rest, line = 0, len(text.rstrip()), 1
    while place < rest:
        match = TOKEN.match(text, place)
        if not match:
            raise ValueError(f"line {line}: expected a key or a value")
        line += text.count("\n", place, match.end())
        place = match.end()
        if match["text"] is not None:
            yield line, "value", html.unescape(match["text"])
        elif match["mark"]:
            yield line, match["mark"], None
        else:
            yield line, "word", str(match["word"])


def _list(tokens: Iterator[tuple[int, str, Any]], begun: int | None) -> List:
    found: List = {}
    for line, kind, key in tokens:
        if kind == "]" and begun is not None:
            return found
        if kind != "word":
            raise ValueError(f"line {line}: expected a key, found {key or kind!r}")
        line, kind, value = next(tokens, (line, "end", None))
        if kind == "[":
            value = _list(tokens, line)
        elif kind == "word":
            value = _number(str(value), line)
        elif kind != "value":
            raise ValueError(f"line {line}: {key} has no value")
        found.setdefault(key, []).append(value)
    if begun is not None:
        raise ValueError(f"line {begun}: the list has no end")
    return found


def _number(text: str, line: int) -> float | int:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"line {line}: expected a number or a string, found {text!r}") from None


# The rate of a link by the attributes that the Internet Topology Zoo gives an edge.


OC1_MBPS = 51.84
"""SONET's STS-1 (ANSI T1.105); SDH's STM-1 is three of it (ITU-T G.707)."""

DIGITAL_MBPS = {
    **{"T1": 1.544, "DS1": 1.544, "T3": 44.736, "DS3": 44.736},
    **{"E1": 2.048, "E3": 34.368, "E4": 139.264},
}
"""Rates of the plesiochronous hierarchies (ITU-T G.702)."""

PREFIX_MBPS = {"K": 1e-3, "M": 1.0, "G": 1e3, "T": 1e6}

SONET = re.compile(r"(?<![A-Za-z])(OC|STM)[-\s]?(\d+)", re.IGNORECASE)
DIGITAL = re.compile(rf"(?<!\w)({'|'.join(DIGITAL_MBPS)})(?!\w)")
PLAIN = re.compile(
    r"(?<![\w.])(\d+(?:\.\d+)?)\s*-?([KMGT])"
    r"(?:b|bps|bit|bits|bit/s|bits/s|b/s|bp/s|E|bE|igE|ig|igabit|igabit Ethernet| Ethernet)?(?!\w)",
    re.IGNORECASE,
)
ETHERNET = re.compile(
    r"(?<![\w.])(GigE|GbE|GE|Gigabit Ethernet|Fast ?Ethernet)(?!\w)", re.IGNORECASE
)
TIMES = re.compile(r"(?<!\w)(\w+)\s*(?:[*×]|\bx)\s*(?=[A-Za-z\d])", re.IGNORECASE)
RANGE = re.compile(r"(?<![A-Za-z\d-])\d+(?:\.\d+)?\s*[KMGT]?\w{0,3}\s*-\s*\d", re.IGNORECASE)
BOUND = re.compile(r"^\s*(<|up to)", re.IGNORECASE)

LABELS = ("LinkLabel", "LinkType", "label", "bandwidth", "capacity")
"""Attributes whose text may name a rate, the first that does counts."""


@dataclass(frozen=True)
class Rate:
    """A rate, and what a reader must know of it; "" where nothing."""

    mbps: float
    remark: str = ""


def of_edge(edge: Mapping[str, Any]) -> Rate | None:
    """The rate of an edge; None where it has none, or several. Raises ValueError.

    `rate_mbps`, else `LinkSpeedRaw` (bit/s), else `LinkSpeed` with `LinkSpeedUnits`, else what the
    label says.
    """
    label = next((str(edge[name]) for name in LABELS if edge.get(name)), "")
    bound = f"the label says {label!r}, an upper bound" if BOUND.match(label) else ""
    if "rate_mbps" in edge:
        return Rate(float(edge["rate_mbps"]))
    if edge.get("LinkSpeedRaw"):
        return Rate(float(edge["LinkSpeedRaw"]) / 1e6, bound)
    units = str(edge.get("LinkSpeedUnits", ""))[:1].upper()
    if edge.get("LinkSpeed") and units in PREFIX_MBPS:
        return Rate(float(edge["LinkSpeed"]) * PREFIX_MBPS[units], bound)
    for name in LABELS:
        text = str(edge.get(name) or "")
        if (mbps := in_text(text)) is not None:
            return Rate(mbps, bound or f"by the label {text!r}")
    return None


def in_text(text: str) -> float | None:
    """The rate that a text names, Mbps; None where it names none, several or a range.

    >>> in_text("OC-192c"), in_text("< 2.5 Gbps"), in_text("10GE"), in_text("2 x STM-16")
    (9953.28, 2500.0, 10000.0, 4976.64)
    >>> in_text("10-20Gbps"), in_text("N*10Gbit/s"), in_text("DWDM")
    (None, None, None)
    """
    if RANGE.search(text):
        return None
    count = 1
    if times := TIMES.search(text):
        if not times[1].isdigit():
            return None
        count, text = int(times[1]), text[: times.start()] + text[times.end() :]
    found = {OC1_MBPS * int(n) * (3 if k.upper() == "STM" else 1) for k, n in SONET.findall(text)}
    rest = SONET.sub(" ", text)
    found |= {DIGITAL_MBPS[name] for name in DIGITAL.findall(rest)}
    found |= {float(n) * PREFIX_MBPS[unit.upper()] for n, unit in PLAIN.findall(rest)}
    rest = PLAIN.sub(" ", rest)
    found |= {100.0 if name[0] in "fF" else 1000.0 for name in ETHERNET.findall(rest)}
    return round(count * found.pop(), 6) if len(found) == 1 else None


EARTH_KM = 6371.0
FIBRE_KM_PER_MS = 200.0
"""Light in a fibre: two thirds of its speed in a vacuum."""
PICOSECONDS_PER_MS = 10**9
SMALLEST_QUEUE = 100

Nodes = list[str]


@dataclass(frozen=True)
class Defaults:
    """Values of a link that says nothing else; None: it must."""

    rate_mbps: float | None = None
    delay_ms: float | None = None


def scenario_from(
    file: str | os.PathLike[str],
    source: str,
    target: str,
    paths: int = 2,
    *,
    shared: bool = False,
    defaults: Defaults = Defaults(),
) -> str:
    """Text of a scenario: one user, and `paths` paths from `source` to `target`.

    The paths are those with the smallest sum of delays of which no two have a link in common; with
    `shared` the shortest ones, whatever they share. Nodes are named by label or id. A link has the
    rate that `link_rates.of_edge` finds, and the delay of `delay_ms`, or of light in a fibre
    between the nodes' `Latitude` and `Longitude`. Only the links of the paths need a rate; edges
    without a delay are in no path. Comments in the text say what was not in the file.

    Needs the extra "topology". Raises `ScenarioError`.
    """
    topology = _Topology.read(Path(file), defaults)
    ends = topology.node(source), topology.node(target)
    if ends[0] == ends[1]:
        raise ScenarioError(f"{file}: {source} and {target} are the same node")
    find = topology.shortest if shared else topology.disjoint
    text = topology.written(find(*ends, paths))
    named(Scenario.parse(text, str(file)))
    return text


@dataclass(frozen=True)
class _Link:
    """A link with what is to be said of it."""

    rate: Rate | None
    delay_ms: float
    delay_remark: str

    @property
    def mbps(self) -> float:
        """The rate; NaN where it has none."""
        return self.rate.mbps if self.rate else nan


@dataclass(frozen=True)
class _Topology:
    file: Path
    graph: Any
    """A `networkx.DiGraph`; each edge has what a link has."""
    defaults: Defaults
    left_out: dict[tuple[str, str], ScenarioError] = field(default_factory=dict)
    """The edges that no path may have, and what they lack."""

    @staticmethod
    def read(file: Path, defaults: Defaults) -> "_Topology":
        try:
            import networkx
        except ImportError:
            message = "NetworkX is not installed: pip install 'anabranch[topology]'"
            raise ScenarioError(message) from None
        if file.suffix.lower() == ".gml":
            graph = _from_gml(file)
        else:
            with file.open("rb") as stream:
                try:
                    graph = networkx.read_graphml(stream)
                except Exception as error:  # of the XML parser, of NetworkX, of a value's type
                    raise ScenarioError(f"{file}: not GraphML: {error}") from None
        if not graph.is_directed():
            graph = graph.to_directed()
        return _Topology(file, graph, defaults)

    def label(self, node: str) -> str:
        """Name of a node."""
        return str(self.graph.nodes[node].get("label", node))

    def node(self, name: str) -> str:
        """The node with this label or id. Raises `ScenarioError`."""
        if name in self.graph:
            return name
        named = [node for node in self.graph if self.label(node) == name]
        if not named:
            known = sorted({self.label(node) for node in self.graph})
            raise ScenarioError(f"{self.file}: no node {name!r}: {expected_one_of(name, known)}")
        if len(named) > 1:
            ids = ", ".join(named)
            raise ScenarioError(f"{self.file}: nodes {ids} have the label {name!r}: give an id")
        return str(named[0])

    # ------------------------------------------------------------------ links

    def link(self, a: str, b: str) -> "_Link":
        """Attributes of a link; of parallel ones it is the fastest."""
        links = [self._link(a, b, edge) for edge in self._edges(a, b)]
        known = [link for link in links if link.rate]
        if not known:
            labels = _labels(self._edges(a, b))
            raise self._fault(
                a,
                b,
                f"has neither rate_mbps, LinkSpeedRaw (bit/s) nor a label{labels} with one rate: "
                "give --rate-mbps",
            )
        return max(known, key=lambda link: (link.mbps, -link.delay_ms))

    def delay_ms(self, a: str, b: str) -> float:
        """The delay of a link, ms; its rate is needed only where parallel ones differ."""
        delays = [self._delay_ms(a, b, edge)[0] for edge in self._edges(a, b)]
        return delays[0] if len(set(delays)) == 1 else self.link(a, b).delay_ms

    def _edges(self, a: str, b: str) -> list[Mapping[str, Any]]:
        between = self.graph[a][b]
        return list(between.values()) if self.graph.is_multigraph() else [between]

    def _link(self, a: str, b: str, edge: Mapping[str, Any]) -> "_Link":
        try:
            rate = of_edge(edge)
        except (TypeError, ValueError) as error:
            raise self._fault(a, b, f"has a rate that is no number: {error}") from None
        if rate is None and self.defaults.rate_mbps is not None:
            rate = Rate(self.defaults.rate_mbps, "given by --rate-mbps")
        delay_ms, remark = self._delay_ms(a, b, edge)
        return _Link(rate, delay_ms, remark)

    def _delay_ms(self, a: str, b: str, edge: Mapping[str, Any]) -> tuple[float, str]:
        """The delay, and where it is from if that is not the file."""
        if "delay_ms" in edge:
            return self._number(a, b, "delay_ms", edge), ""
        places = [self._place(node) for node in (a, b)]
        if places[0] is not None and places[1] is not None:
            km = great_circle_km(places[0], places[1])
            return km / FIBRE_KM_PER_MS, f"light in {km:.0f} km of fibre along the great circle"
        lost = self.label(a if places[0] is None else b)
        if self.defaults.delay_ms is not None:
            remark = f"made up by --delay-ms: node {lost!r} has no Latitude and Longitude"
            return self.defaults.delay_ms, remark
        raise self._fault(
            a, b, f"has no delay_ms, and node {lost!r} no Latitude and Longitude: give --delay-ms"
        )

    def _place(self, node: str) -> tuple[float, float] | None:
        data = self.graph.nodes[node]
        if data.get("Latitude") is None or data.get("Longitude") is None:
            return None
        try:
            return float(data["Latitude"]), float(data["Longitude"])
        except ValueError:
            raise ScenarioError(
                f"{self.file}: node {self.label(node)!r}: Latitude and Longitude must be numbers"
            ) from None

    def _number(self, a: str, b: str, key: str, edge: Mapping[str, Any]) -> float:
        try:
            return float(edge[key])
        except ValueError:
            raise self._fault(a, b, f"{key} = {edge[key]!r}: expected a number") from None

    def _fault(self, a: str, b: str, what: str) -> ScenarioError:
        return ScenarioError(f"{self.file}: edge {self.label(a)!r} - {self.label(b)!r} {what}")

    # ------------------------------------------------------------------ paths

    def shortest(self, source: str, target: str, count: int) -> list[Nodes]:
        """The `count` paths with the smallest delays. Raises `ScenarioError` if there are fewer."""
        import networkx

        weighted = self._weighted()
        try:
            paths = networkx.shortest_simple_paths(weighted, source, target, weight="weight")
            found: list[Nodes] = list(islice(paths, count))
        except networkx.NetworkXNoPath:
            found = []
        return self._enough(found, source, target, count, "paths")

    def disjoint(self, source: str, target: str, count: int) -> list[Nodes]:
        """As many paths, none over another's links, with the smallest sum of delays.

        A flow of as many units at the lowest cost, where a link carries one (Suurballe 1974).
        """
        import networkx

        weighted = self._weighted()
        networkx.set_edge_attributes(weighted, 1, "capacity")
        possible = networkx.maximum_flow_value(weighted, source, target)
        if possible < count:
            self._enough([[]] * possible, source, target, count, "paths without a common link")
        weighted.nodes[source]["demand"] = -count
        weighted.nodes[target]["demand"] = count
        flow = networkx.min_cost_flow(weighted)
        used = networkx.DiGraph([(a, b) for a in flow for b, units in flow[a].items() if units])
        found = []
        for _ in range(count):
            path = networkx.shortest_path(used, source, target)
            used.remove_edges_from(pairwise(path))
            found.append(path)
        return sorted(found, key=self._length)

    def _weighted(self) -> Any:
        """The graph without parallel links, with delays in ps: flows need integers.

        Without edges whose delay is not known.
        """
        import networkx

        weighted = networkx.DiGraph()
        weighted.add_nodes_from(self.graph)
        for a, b in dict.fromkeys((a, b) for a, b, *_ in self.graph.edges if a != b):
            try:
                delay_ms = self.delay_ms(a, b)
            except ScenarioError as error:
                self.left_out[a, b] = error
            else:
                weighted.add_edge(a, b, weight=round(delay_ms * PICOSECONDS_PER_MS))
        return weighted

    def _length(self, path: Nodes) -> float:
        return sum(self.delay_ms(a, b) for a, b in pairwise(path))

    def _enough(
        self, found: list[Nodes], source: str, target: str, count: int, what: str
    ) -> list[Nodes]:
        if len(found) == count:
            return found
        if self.left_out:
            raise next(iter(self.left_out.values()))
        ends = f"from {self.label(source)!r} to {self.label(target)!r}"
        lack = f"{self.file}: {len(found)} {what} {ends}, not {count}"
        remedy = f"give --paths {len(found)}" if found else "give other nodes"
        if "common" in what:
            remedy += ", or --shared for paths that share links"
        raise ScenarioError(f"{lack}: {remedy}")

    # ------------------------------------------------------------------ text

    def written(self, paths: list[Nodes]) -> str:
        """The text of a scenario with one user."""
        names = self._names(hop for path in paths for hop in pairwise(path))
        longest_ms = 2 * max(map(self._length, paths))
        ends = f"{self.label(paths[0][0])} to {self.label(paths[0][-1])}"
        lines = [
            f"# Paths of {self.file.name}; links are one-way, and ACKs return over a pure delay.",
            "# Queues hold a bandwidth-delay product of the longest path.",
            *self._remarks(),
            "",
            f"name = {_text(f'{ends} in {self.file.stem}')}",
            'algorithm = "lia"',
            "seeds = [1]",
            "",
            "[measure]",
            "duration_s = 30",
            "warmup_s = 5",
        ]
        for (a, b), name in names.items():
            link = self.link(a, b)
            product = link.mbps * 1e6 * longest_ms * 1e-3 / (1500 * 8)
            rate_remark = link.rate.remark if link.rate else ""
            lines += [
                "",
                f"[links.{_text(name)}]",
                f"rate_mbps = {link.mbps:.12g}{_comment(rate_remark)}",
                f"delay_ms = {link.delay_ms:.6g}{_comment(link.delay_remark)}",
                f"queue.drop_tail = {{ packets = {max(SMALLEST_QUEUE, round(product))} }}",
            ]
        routes = [", ".join(_text(names[hop]) for hop in pairwise(path)) for path in paths]
        lines += ["", "[[flows]]", f"name = {_text(ends)}", "paths = ["]
        lines += [f"    [{route}]," for route in routes]
        return "\n".join([*lines, "]", ""])

    def _remarks(self) -> list[str]:
        count = len({frozenset(ends) for ends in self.left_out})
        noun = "edge" if count == 1 else "edges"
        return [f"# In no path, for they have no delay: {count} {noun}."] if count else []

    def _names(self, hops: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """A name for each link: its ends' labels, with their ids where labels are not unique."""
        labels = [self.label(node) for node in self.graph]

        def name(node: str) -> str:
            label = self.label(node)
            return label if labels.count(label) == 1 else f"{label} ({node})"

        return {(a, b): f"{name(a)}-{name(b)}" for a, b in dict.fromkeys(hops)}


def great_circle_km(a: tuple[float, float], b: tuple[float, float]) -> float:
    """The distance of two places, given by latitude and longitude in degrees (haversine).

    >>> round(great_circle_km((0, 0), (0, 90))) # a quarter of the equator
    10008
    """
    (north_a, east_a), (north_b, east_b) = (tuple(map(radians, place)) for place in (a, b))
    half = sin((north_b - north_a) / 2) ** 2
    half += cos(north_a) * cos(north_b) * sin((east_b - east_a) / 2) ** 2
    return 2 * EARTH_KM * asin(sqrt(half))


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _comment(text: str) -> str:
    return f"  # {' '.join(text.split())}" if text else ""


def _labels(edges: Iterable[Mapping[str, Any]]) -> str:
    """The labels that name no rate, or several."""
    texts = [str(edge[name]) for edge in edges for name in LABELS if edge.get(name)]
    return f" ({', '.join(map(repr, dict.fromkeys(texts)))})" if texts else ""


def _from_gml(file: Path) -> Any:
    """A multigraph of NetworkX, whose own reader refuses parallel edges and equal labels."""
    import networkx

    try:
        (outer,) = parsed(file.read_text(encoding="utf-8", errors="replace"))["graph"]
        directed = bool(last(outer).get("directed", 0))
        graph = networkx.MultiDiGraph() if directed else networkx.MultiGraph()
        for node in map(last, outer.get("node", ())):
            graph.add_node(str(node.pop("id")), **node)
        for edge in map(last, outer.get("edge", ())):
            ends = str(edge.pop("source")), str(edge.pop("target"))
            edge.pop("key", None)
            graph.add_edge(*ends, **edge)
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ScenarioError(f"{file}: not GML: {error}") from None
    return graph
