"""A page per rule: equation, picture, guarantees, counterexamples, weaknesses, source."""

import csv
import io
import re
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from tables import cell

import anabranch
from anabranch.figures.compact import compact
from anabranch.figures.style import SHEET, style
from anabranch.theory.guarantees.proofs.queries import REQUIREMENTS

SCENARIO = Path(__file__).parent / "golden.toml"
GREY = "#8a8a8a"


def write(root: Path, folder: Path, quick: bool) -> None:
    """Write `rules/NAME.md` for every rule, and the list of them, `rule-pages.md`.

    `quick` draws the picture of the first rule alone, which every page then shows.
    """
    rules = anabranch.rules()
    (folder / "rules").mkdir()
    result = anabranch.run(SCENARIO, [rule["name"] for rule in rules])
    proofs = _Proofs(root / "docs/records/proofs.csv")
    with (root / "docs/records/judge.csv").open(newline="", encoding="utf-8") as file:
        judged = list(csv.DictReader(file))
    picture = ""
    for rule in rules:
        name = rule["name"]
        if not (quick and picture):
            picture = _figure(result, name)
        (folder / "rules" / f"{name}.svg").write_text(picture)
        (folder / "rules" / f"{name}.md").write_text(_page(root, rule, proofs, judged, result))
    links = "\n".join(f"- [{it['name']}](rules/{it['name']}.md): {it['summary']}" for it in rules)
    names = "\n".join(f"rules/{rule['name']}.md" for rule in rules)
    (folder / "rule-pages.md").write_text(
        "# A page per rule\n\nEach page has the rule's equation, its behaviour in one network, "
        "what is proved of it, and where it is weak. [The rules](rules.md) compares all of them in "
        "tables; [Which rule, carrier and scheduler should I take?](../how-to/which-rule.md) "
        f"helps to choose.\n\n{links}\n\n```{{toctree}}\n:hidden:\n\n{names}\n```\n"
    )


def _page(
    root: Path,
    rule: dict[str, Any],
    proofs: "_Proofs",
    judged: list[dict[str, str]],
    result: anabranch.Result,
) -> str:
    name = rule["name"]
    file = f"crates/model/control/src/rules/{name.replace('-', '_')}.rs"
    title, equation = _documentation((root / file).read_text())
    wide, narrow, beside_wide, beside_narrow = _goodput(result, name)
    scenario = SCENARIO.read_text().split("\n\n", 1)[1].rstrip()
    kernel = _kernel(root, rule)
    sections = [
        f"# {name}",
        f"{title} {rule['summary']}.",
        f"Source: {rule['source']}.",
        "## Equation",
        "`I_r` is the increase of the window of path r, in packets, for each packet acknowledged; "
        "`D_r` is its decrease at a loss. `w` is a window in packets, `tau` an RTT in seconds, "
        "`x = w/tau` a rate, `p` a loss probability.",
        equation,
        "## Picture",
        f"```{{figure}} {name}.svg\n:alt: Windows over time and goodput with {name}\n\n"
        f"One user with two paths that runs {name} over links of 10 and 5 Mbps, beside a user of "
        "Reno with one path on each link. Left: its windows, first seed. Right: goodput, mean of "
        "two seeds.\n```",
        f"The user with two paths has {wide:.1f} Mbps over the wide link and {narrow:.1f} Mbps "
        f"over the narrow one, {wide + narrow:.1f} Mbps in total. The users with one path have "
        f"{beside_wide:.1f} and {beside_narrow:.1f} Mbps. An equal split of each link between its "
        "two connections would give about 4.8 and 2.4 Mbps to each. The figure is made, and these "
        "numbers are computed, when the site is built:",
        f"```toml\n{scenario}\n```",
        "## Guarantees and counterexamples",
        proofs.section(name),
        "## Known weaknesses",
        _weaknesses(rule, judged),
        "## Parameters",
        _parameters(rule),
        "## Where it runs",
        f"- Simulator and QUIC: `--algorithm {name}`.\n- Equations (`--on fluid`, "
        f"`--on equilibrium`): {'yes' if rule['fluid'] else 'no, the rule has no fluid model'}."
        f"\n- Linux kernel: {kernel}",
        f"Code: [{file}](../../../{file}). The same text runs in the simulator, over QUIC and in "
        "the theory.",
    ]
    return "\n\n".join(sections) + "\n"


def _documentation(source: str) -> tuple[str, str]:
    """The first sentence of a module, and the documentation of its rule, as Markdown."""
    title = re.search(r"^//! (.*)$", source, re.M)
    lines: list[str] = []
    for line in source.splitlines():
        if line.startswith("///"):
            lines.append(line[4:])
        elif lines:
            break
    text = re.sub(r"\[(`\w+`)\]\([\w:]+\)", r"\1", "\n".join(lines))
    return (title[1] if title else ""), text


def _kernel(root: Path, rule: dict[str, Any]) -> str:
    program = rule["linux_name"]
    if (root / f"crates/kernel/kernel/bpf/rules/{program}.h").exists():
        return (
            f"`anabranch-kernel load {program}` ([Use a rule on your server or router]"
            "(../../how-to/kernel.md))."
        )
    return (
        "there is no program of it; some kernels have a rule of that name "
        "(`sysctl net.ipv4.tcp_available_congestion_control`)."
    )


def _weaknesses(rule: dict[str, Any], judged: list[dict[str, str]]) -> str:
    found = []
    if rule["caution"]:
        found.append(f"Expect much less goodput than from other rules: {rule['caution']}.")
    if rule["leaves_capacity"]:
        found.append(f"It does not fill clean paths: {rule['leaves_capacity']}.")
    if rule["keeps_overshoot"]:
        found.append(
            "An overshoot of slow start lasts for minutes: without losses a window shrinks by at "
            "most one packet per round trip. Set `tcp.initial_ssthresh_packets`."
        )
    found += [
        f"It fails {row['section']}, {row['item']}: {why.split(': ', 1)[1]}."
        for row in judged
        for why in row["failures"].split(" | ")
        if why.startswith(f"{rule['studied_as']}: ")
    ]
    if rule["variant_of"]:
        found.append(f"It is another reading of {rule['variant_of']}, kept for comparison.")
    head = (
        "What the rule says of itself, and the items of RFC 9743 that it fails in quick networks "
        "([the record](../records-rules.md#judge) has all items):\n\n"
    )
    return head + ("\n".join(f"- {it}" for it in found) or "None.")


def _parameters(rule: dict[str, Any]) -> str:
    rows = []
    for it in rule["parameters"]:
        allowed = ", ".join(map(str, it["choices"])) or f"{it['min']} to {it['max']}"
        cells = [f"`{it['name']}`", str(it["default"]), allowed, it["unit"], cell(it["meaning"])]
        rows.append(f"| {' | '.join(cells)} |")
    head = "| parameter | default | allowed | unit | meaning |\n|---|---|---|---|---|\n"
    shared = (
        "Every rule also takes `coupling`, such as `coupling=shared`: it chooses which paths the "
        "rule couples ([the detector](../rules.md#coupling))."
    )
    return (head + "\n".join(rows) + f"\n\n{shared}") if rows else f"None of its own. {shared}"


def _goodput(result: anabranch.Result, rule: str) -> tuple[float, float, float, float]:
    """Mbps over the wide and the narrow link of the user with two paths, and of the others."""
    paths = result.paths[(result.paths["algorithm"] == rule)]
    paths = paths[paths["flow"] == "two paths"].groupby("path")["goodput_mbps"].mean()
    flows = result.flows[result.flows["algorithm"] == rule].groupby("flow")["goodput_mbps"].mean()
    return paths[0], paths[1], flows["on wide"], flows["on narrow"]


def _figure(result: anabranch.Result, rule: str) -> str:
    """An SVG: windows of the user with two paths, and the goodput of all three users."""
    colour = style(rule)[0]
    samples = result.path_samples
    samples = samples[(samples["algorithm"] == rule) & (samples["flow"] == "two paths")]
    samples = samples[samples["seed"] == result.seeds[0]]
    wide, narrow, beside_wide, beside_narrow = _goodput(result, rule)
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


class _Proofs:
    """The verdicts of the record of `anabranch theory prove --all`."""

    def __init__(self, record: Path) -> None:
        self.rows: dict[str, list[dict[str, str]]] = {}
        with record.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                self.rows.setdefault(row["rule"], []).append(row)

    def section(self, rule: str) -> str:
        """The verdicts of a rule and its smallest counterexamples."""
        if rule not in self.rows:
            return (
                "The record of proofs does not have this rule. It covers rules whose increase is a "
                "function of windows, RTTs and losses: `anabranch theory prove RULE`."
            )
        text = (
            "Proved or refuted for all rates over two and three paths, by two solvers "
            "([how](../records-papers.md#proofs)). phi is the loss probability at which a "
            "path's window is stationary. C1 gives an equilibrium; with C2 and C3 it is the only "
            "one, and stable (theorems 3.2 and 3.3 of the Balia paper). *best* and *harm* are "
            "goals 1 and 2 of RFC 6356. *2:* and *3:* are numbers of paths.\n\n"
            "| | requirement | equal RTTs | any RTTs |\n|---|---|---|---|\n"
        )
        for row in self.rows[rule]:
            name = row["requirement"]
            cells = name, cell(REQUIREMENTS[name][0]), row["equal RTTs"], row["any RTTs"]
            text += f"| {' | '.join(cells)} |\n"
        found = [
            f"- {row['requirement']}, {row['counterexample']}"
            for row in self.rows[rule]
            if row["counterexample"]
        ]
        if found:
            text += "\nCounterexamples, with the fewest paths:\n\n" + "\n".join(found)
        return text
