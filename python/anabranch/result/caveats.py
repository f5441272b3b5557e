"""Where a backend runs something else than the scenario says: a line with cause and remedy each."""

import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache

from anabranch.scenario import Scenario

_EQUATIONS = [
    "profile",
    "initial_ssthresh_packets",
    "min_ssthresh_packets",
    "increase_per_round",
    "increase_per_ack",
    "min_rto_ms",
    "rto_floor",
    "undo",
    "delayed_acks",
    "quick_acks",
    "recovery",
    "receive_buffer_packets",
    "rmem_max_bytes",
    "wmem_max_bytes",
    "join_handshake",
    "scheduler",
    "kernel_programs",
    "send_buffer_windows",
    "notsent_bytes",
    "host_jitter_us",
]

WITHOUT_EFFECT = {
    "quic": [
        "header_bytes",
        "min_rto_ms",
        "rto_floor",
        "undo",
        "quick_acks",
        "recovery",
        "scheduler",
        "join_handshake",
        "kernel_programs",
        "send_buffer_windows",
        "notsent_bytes",
        "rmem_max_bytes",
        "wmem_max_bytes",
    ],
    "kernel": [
        "undo",
        "host_jitter_us",
        "kernel_programs",
        "send_buffer_windows",
        "join_handshake",
        "increase_per_round",
        "increase_per_ack",
    ],
    "fluid": _EQUATIONS,
    "equilibrium": _EQUATIONS,
}
"""The keys of `[tcp]` that a backend does not read, whatever the others say."""


OF_RULES = ("increase_per_round", "increase_per_ack", "kernel_programs")
"""The keys of `[tcp]` that a controller of a library does not read."""


def caveats(scenario: Scenario, backend: str, libraries: Sequence[str] = ()) -> list[str]:
    """Reasons why results of this scenario on this backend differ from those of its network.

    `libraries`: the names of controllers of libraries (anabranch.h) that run.

    Empty for most scenarios. A key without effect is among it if somebody has written it.
    """
    found = {"quic": _returns, "equilibrium": _drop_tail, "fluid": _drop_tail}.get(backend)
    texts = [*_without_effect(scenario, backend), *(found(scenario) if found else ())]
    texts += _of_rules(scenario, backend, libraries)
    return [f"{scenario.source}: {text}" for text in texts]


def _without_effect(scenario: Scenario, backend: str) -> Iterator[str]:
    """Keys of `[tcp]` that somebody has written, and that change nothing.

    Of a file, those with another value than the profile's: that of a stored result has every key.
    """
    tcp, written = _written(scenario)
    for key in WITHOUT_EFFECT.get(backend, ()):
        if key in written:
            yield f"tcp.{key}: has no effect on {backend}"
    if backend != "sim":
        return
    of_linux = ("kernel_programs", "send_buffer_windows", "notsent_bytes", "wmem_max_bytes")
    found = [key for key in of_linux if key in written]
    if found and not (tcp["scheduler"] == "linux" and _has_several_paths(scenario)):
        for key in found:
            yield (
                f'tcp.{key}: has no effect on sim without scheduler = "linux" and a flow with '
                "several paths"
            )
    if "quick_acks" in written and tcp["quick_acks"] and not tcp["delayed_acks"]:
        yield "tcp.quick_acks: has no effect on sim without delayed_acks = true"


def _has_several_paths(scenario: Scenario) -> bool:
    return any(len(flow["paths"]) > 1 for flow in scenario.network()["flows"])


def _written(scenario: Scenario) -> tuple[dict[str, object], set[str]]:
    """The values of `[tcp]`, and the keys that somebody has written."""
    tcp = tomllib.loads(scenario.tcp)
    defaults = _defaults(tcp["profile"])
    written = {key for key, value in tcp.items() if value != defaults[key]}
    written |= {key.removeprefix("tcp.") for key, _ in scenario.set if key.startswith("tcp.")}
    return tcp, written


def _of_rules(scenario: Scenario, backend: str, libraries: Sequence[str]) -> Iterator[str]:
    """Keys that are written for rules and change nothing of a controller of a library."""
    flows = tomllib.loads(scenario.text)["flows"] if libraries else ()
    for name in libraries:
        rest = f"has no effect on {name}, a controller of a library: it is of rules alone"
        tcp, written = _written(scenario)
        unread = set(WITHOUT_EFFECT.get(backend, ()))
        for key in OF_RULES:
            if key in written - unread and tcp[key]:
                yield f"tcp.{key}: {rest}"
        for i, flow in enumerate(flows):
            workload = flow.get("workload")
            if isinstance(workload, dict) and workload.get("gateway", {}).get("adjust"):
                yield f"flows[{i}].workload.gateway.adjust: {rest}"


@cache
def _defaults(profile: str) -> dict[str, object]:
    """The values of `[tcp]` in a profile; that of `profile` itself is the default one."""
    text = (
        'algorithm = "reno"\nmeasure.duration_s = 1\nlinks.L = { rate_mbps = 1, delay_ms = 1 }\n'
        f'tcp.profile = "{profile}"\nflows = [{{ name = "f", paths = [["L"]] }}]\n'
    )
    return {**tomllib.loads(Scenario.parse(text).tcp), "profile": "rfc"}


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
