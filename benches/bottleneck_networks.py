"""Random networks whose shared bottlenecks are known, for `shared_bottlenecks.py`.

A user sends over two or three paths. Each has an access link of its own; its bottleneck is shared
with other paths or not. In half of the networks every path also crosses a common link that is no
bottleneck: its rate is three times the sum of all bottlenecks' rates, and its own traffic is
limited to one third of that. Bottlenecks carry short files that arrive at random and long
transfers.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

AQM = {
    name: f"queue.{name.lower().replace('-', '_')} = {{}}" for name in ("CoDel", "FQ-CoDel", "PIE")
}
QUEUES = ("drop-tail 0.5 BDP", "drop-tail 1 BDP", "drop-tail 2 BDP", "RED")
# Long transfers per bottleneck, and short files as a share of its rate.
LOADS = {"light": (0, 0.1), "medium": (1, 0.3), "heavy": (3, 0.5)}
GAPS = (1, 2, 5)
# For each path the lowest path with the same bottleneck.
GROUPS = {2: ((0, 0), (0, 1)), 3: ((0, 0, 0), (0, 0, 2), (0, 1, 2))}


@dataclass(frozen=True)
class Network:
    """A scenario and what is known of it."""

    seed: int
    text: str
    truth: tuple[int, ...]
    """For each path the lowest path with the same bottleneck."""

    def pairs(self) -> list[tuple[int, int, bool]]:
        """Every pair of paths, and whether they share a bottleneck."""
        n = len(self.truth)
        return [(i, j, self.truth[i] == self.truth[j]) for j in range(n) for i in range(j)]


def steady(
    seed: int,
    *,
    pauses: bool = False,
    profile: str = "rfc",
    queue: str | None = None,
    two_way: bool = False,
) -> Network:
    """A network that does not change; with `pauses` the user sends and pauses in turn.

    `queue` is that of every bottleneck, instead of a random one. With `two_way` each bottleneck has
    a link of the same or a smaller rate for the way back, with a long upload and short ones in it,
    and acknowledgements return over it.
    """
    dice = random.Random(seed)
    n = dice.choice((2, 2, 3))
    truth = dice.choice(GROUPS[n])
    load, gap, drawn = dice.choice(list(LOADS)), dice.choice(GAPS), dice.choice(QUEUES)
    queue = queue or drawn
    lossy, common, before = dice.random() < 0.25, dice.random() < 0.5, dice.random() < 0.5
    shortest = dice.uniform(15, 50)
    rtts = [shortest * (1 + (gap - 1) * r / (n - 1)) for r in range(n)]
    dice.shuffle(rtts)
    rates = {group: dice.uniform(8, 24) for group in sorted(set(truth))}
    total = sum(rates.values())
    parts = []
    for group, rate in rates.items():
        members = [rtt for rtt, of in zip(rtts, truth, strict=True) if of == group]
        parts += [
            link(f"bottleneck{group}", rate, 2, _queue(queue, rate, sum(members) / len(members))),
            link(f"edge{group}", 1000, dice.uniform(5, 40)),
        ]
        back = [f"up{group}"] if two_way else []
        route = path([f"edge{group}", f"bottleneck{group}"], back)
        transfers, files = LOADS[load]
        parts.append(_files(f"files{group}", route, files * rate, dice.choice((20e3, 60e3))))
        if transfers:
            algorithm = dice.choice(("reno", "cubic"))
            parts.append(_transfers(f"long{group}", route, transfers, algorithm))
        if two_way:
            parts += _way_back(group, rate, members, random.Random(f"{seed} up {group}"))
    if common:
        parts += [link("common", 3 * total, 1), link("edge", total, 10)]
        parts.append(_files("files", path(["edge", "common"]), 0.6 * total, 60e3))
    paths = []
    for r, rtt in enumerate(rtts):
        loss = dice.choice((0.001, 0.005, 0.01)) if lossy and r == 0 else 0
        parts.append(link(f"access{r}", 200, max(0.1, rtt / 2 - 3), loss=loss))
        links = [f"access{r}", *(["common"] if common else []), f"bottleneck{truth[r]}"]
        back = [f"up{truth[r]}"] if two_way else []
        paths.append(path(links if before else links[::-1], back))
    workload = ""
    if pauses:
        on_s, off_s = dice.uniform(1, 5), dice.uniform(1, 5)
        workload = f"workload.on_off = {{ on_s = {on_s:.1f}, off_s = {off_s:.1f} }}"
    text = scenario(60, [*parts, user(paths, workload)], profile)
    return Network(seed, text, truth)


def scenario(duration_s: float, parts: list[str], profile: str = "rfc") -> str:
    """A scenario of these links and flows."""
    head = f"""
        name = "random"
        algorithm = "lia"
        seeds = [1]
        tcp.profile = "{profile}"
        [measure]
        duration_s = {duration_s}
        warmup_s = 20
        sample_ms = 50
    """
    return "\n".join([head, *parts])


def link(name: str, rate_mbps: float, delay_ms: float, queue: str = "", *, loss: float = 0) -> str:
    """A link; without a queue, drop-tail of 100 ms."""
    loss_line = f"loss.bernoulli = {{ probability = {loss} }}" if loss else ""
    return f"""
        [links.{name}]
        rate_mbps = {rate_mbps:.2f}
        delay_ms = {delay_ms:.3f}
        {queue}
        {loss_line}
    """


def path(links: list[str], back: Sequence[str] = ()) -> str:
    """A path as in a scenario."""
    return f"{{ links = {links}, back = {list(back)} }}" if back else f"{links}"


def _way_back(group: int, rate: float, rtts: list[float], dice: random.Random) -> list[str]:
    """The link against a bottleneck, and the uploads on it."""
    up = rate * dice.choice((0.25, 0.5, 1))
    upload = path([f"up{group}"], [f"bottleneck{group}"])
    return [
        link(f"up{group}", up, 2, _queue("drop-tail 1 BDP", up, sum(rtts) / len(rtts))),
        _transfers(f"upload{group}", upload, 1, "cubic"),
        _files(f"uploads{group}", upload, 0.1 * up, 20e3),
    ]


def _queue(kind: str, rate_mbps: float, rtt_ms: float) -> str:
    if kind == "RED":
        return "queue.red = {}"
    if kind in AQM:
        return AQM[kind]
    packets = float(kind.split()[1]) * rate_mbps * rtt_ms / 12
    return f"queue.drop_tail = {{ packets = {max(5, round(packets))} }}"


def _files(name: str, route: str, mbps: float, mean_bytes: float) -> str:
    rate, size = mbps * 1e6 / 8 / mean_bytes, f"mean_bytes = {mean_bytes}, shape = 1.5"
    return f"""
        [[flows]]
        name = "{name}"
        paths = [{route}]
        algorithm = "cubic"
        workload.poisson = {{ rate_per_s = {rate:.3f}, size.pareto = {{ {size} }} }}
    """


def _transfers(name: str, route: str, count: int, algorithm: str) -> str:
    return f"""
        [[flows]]
        name = "{name}"
        count = {count}
        paths = [{route}]
        algorithm = "{algorithm}"
        start_spread_s = 3
    """


def user(paths: list[str], workload: str = "") -> str:
    """The user whose paths are observed."""
    return f"""
        [[flows]]
        name = "user"
        paths = [{", ".join(paths)}]
        {workload}
    """
