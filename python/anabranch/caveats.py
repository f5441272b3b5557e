"""Where a backend runs something else than the scenario says: a line with cause and remedy each."""

from collections import Counter
from collections.abc import Iterator

from anabranch.scenario import Scenario


def caveats(scenario: Scenario, backend: str) -> list[str]:
    """What makes results of this scenario on this backend differ from those of its network.

    Empty for most scenarios, and always on "sim".
    """
    found = {"quic": _returns, "equilibrium": _drop_tail, "fluid": _drop_tail}.get(backend)
    return [f"{scenario.source}: {text}" for text in found(scenario)] if found else []


def _returns(scenario: Scenario) -> Iterator[str]:
    """Flows whose acknowledgements return sooner or later than the scenario says."""
    for i, flow in enumerate(scenario.network()["flows"]):
        delays = [path["return_delay_ms"] for path in flow["paths"]]
        if len({round(delay, 6) for delay in delays}) > 1:  # the clock counts nanoseconds
            each = ", ".join(f"{delay:g}" for delay in delays)
            yield (
                f"flows[{i}].paths: flow {flow['name']!r} has return delays of {each} ms, but over "
                f"QUIC all its acknowledgements return over the first path, in {delays[0]:g} ms: "
                "RTTs and shares are those of another network, until the backend returns "
                "acknowledgements per path (docs/reference/quic.md): give its paths one "
                "return_delay_ms, or run it on sim"
            )


def _drop_tail(scenario: Scenario) -> Iterator[str]:
    """Links of several users, whose shares the equations know only for random losses."""
    network = scenario.network()
    users = Counter[int]()
    for flow in network["flows"]:
        crossed = {link for path in flow["paths"] for link in path["links"]}
        users.update(dict.fromkeys(crossed, flow["count"]))
    full = [
        link["name"]
        for i, link in enumerate(network["links"])
        if link["red"] is None and (link["limit_packets"] or link["limit_bytes"]) and users[i] > 1
    ]
    if full:
        names = f"link {full[0]} is" if len(full) == 1 else f"links {', '.join(full)} are"
        yield (
            f"{names} drop-tail: the equations give all packets there one loss probability, as "
            "RED's curve does; bursts of losses share otherwise, and with quiet hosts "
            "(tcp.host_jitter_us = 0) a path over two such links got a fifth of it "
            "(docs/notebook/theory-fluid.md): use queue.red, or run it on sim"
        )
