"""Effects of jitter of the hosts on results at drop-tail queues.

    .venv/bin/python benches/host_jitter.py [seeds]

Prints a line per case and jitter, in packet times of the slowest bottleneck: 0, 1, 2, 5 and 10.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anabranch
from anabranch.experiments.quantities import measure
from anabranch.result import Result

ROOT = Path(__file__).parent.parent
PACKET_TIMES = [0, 1, 2, 5, 10]
PHASES = {"exact": 95.0, "sooner by 1 ms": 94.0, "later by 3 ms": 98.0}

Values = Mapping[str, Any]


def drop_tail(packets: int, *links: str) -> dict[str, Any]:
    """Overrides that give these links a drop-tail queue."""
    return {f"links.{link}.queue": {"drop_tail": {"packets": packets}} for link in links}


def show(
    name: str,
    scenario: str,
    algorithms: list[str],
    seeds: int,
    packet_us: float,
    overrides: Values,
    quantities: Mapping[str, Callable[[Result], float]],
) -> None:
    """Runs a case with each jitter and prints the mean of each quantity, per algorithm."""
    print(name)
    for times in PACKET_TIMES:
        values = {**overrides, "tcp.host_jitter_us": times * packet_us}
        for algorithm in algorithms:
            result = anabranch.run(ROOT / scenario, [algorithm], seeds, set=values, jobs=1)
            numbers = (f"{label} {value(result):.3g}" for label, value in quantities.items())
            print(f"  {times:2} packet times, {algorithm:12} {', '.join(numbers)}", flush=True)


def goodput(flow: str) -> Callable[[Result], float]:
    """Goodput of a user of a flow, Mbps."""
    return lambda result: measure("user_goodput_mbps", result, flow=flow)


def convergence(result: Result) -> float:
    """Table IV: time until the multipath flow has taken its second path again, s."""
    return measure(
        "convergence_s", result, flow="multipath", path=1, after_s=80, average_from_s=160
    )


def window_rate(path: int, from_s: float, to_s: float) -> Callable[[Result], float]:
    """Rate of flow 2 on a path of wVegas' figure 1(a), Mbps."""
    return lambda result: measure(
        "window_rate_mbps",
        result,
        packet_bytes=1000,
        flow="flow2",
        path=path,
        from_s=from_s,
        to_s=to_s,
    )


def main(seeds: str = "5") -> None:
    """Prints every case."""
    rules = ["ewtcp", "semicoupled", "lia", "balia", "coupled"]
    balia, balia_queues = "papers/balia", drop_tail(50, "L1", "L2")
    show(
        "10 two-path and 10 single-path users, 100 Mbps, drop-tail 1250 (equilibrium 6.8)",
        "crates/sim/benches/two_links.toml",
        ["lia"],
        1,
        120,
        {
            **drop_tail(1250, "first", "second"),
            "measure.duration_s": 400,
            "measure.warmup_s": 50,
        },
        {"one path": goodput("one_path"), "two paths": goodput("two_paths")},
    )
    show(
        "two_against_one, drop-tail 80",
        "examples/two_against_one.toml",
        ["reno", "lia"],
        2 * int(seeds),
        600,
        {**drop_tail(80, "bottleneck"), "measure.duration_s": 40},
        {"share": lambda result: measure("goodput_share", result, flow="two paths")},
    )
    show(
        "Balia, table III, drop-tail 50",
        f"{balia}/scenario_sharing.toml",
        rules,
        int(seeds),
        800,
        balia_queues,
        {"multipath": goodput("multipath"), "single-path": goodput("singlepath")},
    )
    show(
        "Balia, table IV, drop-tail 50",
        f"{balia}/scenario_recovery.toml",
        rules,
        int(seeds),
        4000,
        balia_queues,
        {"convergence s": convergence},
    )
    for phase, delay_ms in PHASES.items():
        paths = (0, 1) if phase != "exact" else ()
        show(
            f"wVegas, figure 1(a), {phase}",
            "papers/wvegas/scenario_fig1a.toml",
            ["lia"],
            1,
            1405,
            {f"flows[1].paths[{path}].return_delay_ms": delay_ms for path in paths},
            {
                "2-1, 100 to 200 s": window_rate(0, 100, 200),
                "2-2, 100 to 200 s": window_rate(1, 100, 200),
                "2-1, 200 to 300 s": window_rate(0, 200, 300),
                "2-2, 200 to 300 s": window_rate(1, 200, 300),
            },
        )
    show(
        "RSF, own_lia: one two-path and one single-path user, drop-tail 42",
        "papers/rsf/scenario_shared.toml",
        ["lia", "olia", "balia"],
        int(seeds),
        600,
        {},
        {"share": lambda result: measure("goodput_share", result, flow="twopath")},
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
