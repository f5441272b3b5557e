"""The network of a diagnosis as a scenario, and what another rule, buffer or scheduler would do."""

import re

from anabranch.diagnose import expect
from anabranch.diagnose.answer import Diagnosis
from anabranch.diagnose.case import Case
from anabranch.diagnose.connection import Path
from anabranch.diagnose.rows import loss
from anabranch.runner import run
from anabranch.scenario import Scenario, ScenarioError, rules

PACKET_BYTES = 1500
LEAST_QUEUE = 10
"""Packets; below it no RTT shows a queue."""
LARGE_BYTES = 64 << 20
"""Buffers that limit nothing."""
SCHEDULER = "min-rtt"
"""An ideal scheduler: data goes to the fastest path with room."""


def scenario_text(found: Diagnosis) -> str:
    """A scenario file with a link per path: rate, delay from the least RTT, largest queue, loss.

    Raises `ScenarioError` where a path has no RTT or no rate.
    """
    case = Case(found.evidence, found.connection)
    rule = _rule(found)
    lines = [
        "# Written by `anabranch diagnose --scenario`: what is known of a connection.",
        "# Rates are those that were seen, alone or together, unless --link says them.",
        'name = "Diagnosed"',
        f'algorithm = "{rule}"',
        "seeds = [1, 2, 3]",
        "",
        "[measure]",
        "duration_s = 40",
        "warmup_s = 10",
        "",
        "[tcp]",
        'profile = "linux"',
    ]
    if (largest := found.evidence.peer.buffer_limit("tcp_rmem")) is not None:
        lines.append(f"rmem_max_bytes = {largest}")
    if (largest := found.evidence.here.buffer_limit("tcp_wmem")) is not None:
        lines.append(f"wmem_max_bytes = {largest}")
    names = [_name(path, i) for i, path in enumerate(case.paths)]
    for name, path in zip(names, case.paths, strict=True):
        lines += ["", f"[links.{name}]", *_link(case, path)]
    paths = ", ".join(f'["{name}"]' for name in names)
    lines += ["", "[[flows]]", 'name = "diagnosed"', f"paths = [{paths}]", ""]
    return "\n".join(lines)


def _rule(found: Diagnosis) -> str:
    known = {name for rule in rules() for name in (rule["name"], *rule["aliases"])}
    name = found.connection.paths[0].last.rule
    return name if name in known else "cubic"


def _name(path: Path, number: int) -> str:
    name = re.sub(r"[^A-Za-z0-9_-]", "-", path.device or "")
    return name or f"path{number}"


def _link(case: Case, path: Path) -> list[str]:
    least = max((m.number("minrtt") for m in path.moments), default=0.0)
    rate = expect.link_mbps(case, path)
    if least <= 0 or rate <= 0:
        raise ScenarioError(
            f"{path.name}: its RTT or rate is not known: take `ss -tinmM` twice, and --link"
        )
    queue_ms = max((m.queue_ms or 0.0 for m in path.moments), default=0.0)
    packets = max(LEAST_QUEUE, round(queue_ms * rate * 125 / PACKET_BYTES))
    lines = [f"rate_mbps = {rate:.4g}", f"delay_ms = {least / 2:.4g}"]
    lines.append(f"queue.drop_tail = {{ packets = {packets} }}")
    if share := _lost_share(case, path):
        lines.append(f"loss.bernoulli = {{ probability = {share:.3g} }}")
    return lines


def _lost_share(case: Case, path: Path) -> float:
    """Share of packets that the link loses where no queue stands, otherwise 0."""
    share = path.retransmitted_share or 0.0
    answer = loss(case)
    return share if getattr(answer, "path", None) is path and share < 0.5 else 0.0


def _settings(change: str) -> tuple[str | None, list[tuple[str, str]]]:
    """The rule and the keys of a change: `buffers`, `scheduler`, or a rule."""
    if change == "buffers":
        size = str(LARGE_BYTES)
        return None, [("tcp.rmem_max_bytes", size), ("tcp.wmem_max_bytes", size)]
    if change == "scheduler":
        return None, [("tcp.scheduler", f'"{SCHEDULER}"')]
    return change, []


def what_if(found: Diagnosis, change: str) -> dict[str, float]:
    """Mean goodput, Mbps, of the network in the simulator, as it is and with a change."""
    text, name = scenario_text(found), "the diagnosed network"
    rule, keys = _settings(change)
    now = run(Scenario.parse(text, name)).summary()["goodput_mbps"].mean()
    changed = run(Scenario.parse(text, name, keys), rule).summary()["goodput_mbps"].mean()
    return {"simulated_now_mbps": float(now), "simulated_then_mbps": float(changed)}
