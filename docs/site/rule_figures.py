"""The picture of each rule: one network, windows over time and shares."""

import io
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

import anabranch
from anabranch.figures.compact import compact
from anabranch.figures.style import SHEET, style

SCENARIO = Path(__file__).parent / "golden.toml"
GREY, LIGHT = "#8a8a8a", "#c8c8c8"


def measured(rules: list[str]) -> anabranch.Result:
    """The network with every rule for the user with two paths."""
    return anabranch.run(SCENARIO, rules)


def goodput(result: anabranch.Result, rule: str) -> tuple[float, float, float, float]:
    """Mbps over the wide and the narrow link of the user with two paths, and of the others."""
    paths = result.paths[(result.paths["algorithm"] == rule)]
    paths = paths[paths["flow"] == "two paths"].groupby("path")["goodput_mbps"].mean()
    flows = result.flows[result.flows["algorithm"] == rule].groupby("flow")["goodput_mbps"].mean()
    return paths[0], paths[1], flows["on wide"], flows["on narrow"]


def figure(result: anabranch.Result, rule: str) -> str:
    """An SVG: windows of the user with two paths, and the goodput of all three users."""
    colour = style(rule)[0]
    samples = result.path_samples
    samples = samples[(samples["algorithm"] == rule) & (samples["flow"] == "two paths")]
    samples = samples[samples["seed"] == result.seeds[0]]
    wide, narrow, beside_wide, beside_narrow = goodput(result, rule)
    with matplotlib.rc_context({**SHEET, "svg.hashsalt": "anabranch"}):
        drawn = Figure(figsize=(7.2, 2.5))
        left, right = drawn.subplots(1, 2, width_ratios=[3, 2])
        for path, dash, label in ((0, "-", "wide, 10 Mbps"), (1, "--", "narrow, 5 Mbps")):
            line = samples[samples["path"] == path]
            left.plot(line["time_s"], line["window_packets"], dash, color=colour, label=label, lw=1)
        left.set(xlabel="time (s)", ylabel="window (packets)", ylim=(0, None))
        left.legend(loc="upper right", fontsize="small")
        names = ["two paths", "one, on wide", "one, on narrow"]
        right.barh(names, [wide, beside_wide, 0], color=[colour, GREY, GREY])
        right.barh(names, [narrow, 0, beside_narrow], left=[wide, 0, 0], color=[colour, GREY, GREY],
                   alpha=0.55)  # fmt: skip
        right.invert_yaxis()
        right.grid(axis="y", visible=False)
        right.set_xlabel("goodput (Mbps); light: over narrow")
        file = io.StringIO()
        drawn.savefig(file, format="svg", metadata={"Date": None})
    return compact(file.getvalue())
