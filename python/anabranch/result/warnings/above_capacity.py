"""Goodputs that no link can carry: never right, whatever the scenario."""

from collections.abc import Iterator

from pandas import DataFrame

from anabranch.scenario import Scenario

TOLERANCE = 0.01
"""Relative excess that is not reported."""

SHIFT_S = 1.0
"""Seconds at the link's rate that are not reported either: packets that were on their way behind
the link when the warm-up ended."""


def above_capacity(scenario: Scenario, paths: DataFrame, links: DataFrame) -> Iterator[str]:
    """A line per link over which its paths had more goodput than its rate in the window."""
    network = scenario.network()
    keys = [key for key in ("algorithm", "seed") if key in links]
    window_s = scenario.duration_s - scenario.warmup_s
    for index, link in enumerate(network["links"]):
        over = {
            (flow["name"], number)
            for flow in network["flows"]
            for number, path in enumerate(flow["paths"])
            if index in path["links"]
        }
        crosses = [pair in over for pair in zip(paths["flow"], paths["path"], strict=True)]
        goodput = paths[crosses].groupby(keys, sort=False)["goodput_mbps"].sum()
        row = links[links["link"] == link["name"]].set_index(keys)
        # The mean rate of the window, where the link transmitted anything in it.
        rate = (row["throughput_mbps"] / row["utilization"]).fillna(row["rate_mbps"])
        most = rate * (1 + TOLERANCE + SHIFT_S / window_s)
        excess = (goodput / most).dropna()
        if not excess.empty and excess.max() > 1:
            worst = excess.idxmax()
            yield (
                f"{scenario.source}: internal error: the paths over link {link['name']} have a "
                f"goodput of {goodput[worst]:.4g} Mbps, more than its {rate[worst]:.4g} Mbps: "
                "report it with the scenario, and use no number of this run"
            )
