"""A page per rule: equation, picture, guarantees, counterexamples, weaknesses, source."""

import csv
import re
from pathlib import Path
from typing import Any

import rule_figures
from tables import cell

import anabranch
from anabranch.theory.guarantees.proofs.queries import REQUIREMENTS


def write(root: Path, folder: Path, quick: bool) -> None:
    """Write `rules/NAME.md` for every rule, and the list of them, `rule-pages.md`.

    `quick` draws the picture of the first rule alone, which every page then shows.
    """
    rules = anabranch.rules()
    (folder / "rules").mkdir()
    result = rule_figures.measured([rule["name"] for rule in rules])
    proofs = _Proofs(root / "docs/records/proofs.csv")
    picture = ""
    for rule in rules:
        name = rule["name"]
        if not (quick and picture):
            picture = rule_figures.figure(result, name)
        (folder / "rules" / f"{name}.svg").write_text(picture)
        (folder / "rules" / f"{name}.md").write_text(_page(root, rule, proofs, result))
    links = "\n".join(f"- [{it['name']}](rules/{it['name']}.md): {it['summary']}" for it in rules)
    names = "\n".join(f"rules/{rule['name']}.md" for rule in rules)
    (folder / "rule-pages.md").write_text(
        "# A page per rule\n\nEach page has the rule's equation, its behaviour in one network, "
        "what is proved of it, and where it is weak. [The rules](rules.md) compares all of them in "
        "tables; [Which rule, carrier and scheduler should I take?](../how-to/which-rule.md) "
        f"helps to choose.\n\n{links}\n\n```{{toctree}}\n:hidden:\n\n{names}\n```\n"
    )


def _page(root: Path, rule: dict[str, Any], proofs: "_Proofs", result: anabranch.Result) -> str:
    name = rule["name"]
    file = f"crates/model/control/src/rules/{name.replace('-', '_')}.rs"
    title, equation = _documentation((root / file).read_text())
    wide, narrow, beside_wide, beside_narrow = rule_figures.goodput(result, name)
    scenario = (Path(__file__).parent / "golden.toml").read_text().split("\n\n", 1)[1].rstrip()
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
        _weaknesses(rule),
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
    program = "vegas_k" if rule["name"] == "vegas" else rule["name"].replace("-", "_")
    if (root / f"crates/kernel/kernel/bpf/rules/{program}.h").exists():
        return (
            f"`anabranch-kernel load {program}` ([Use a rule on your server or router]"
            "(../../how-to/kernel.md))."
        )
    own = rule["name"] in ("reno", "cubic")
    return "Linux has it; uncoupled." if own else "there is no program for it."


def _weaknesses(rule: dict[str, Any]) -> str:
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
    if rule["name"] in ("reno", "cubic", "dctcp", "ewtcp", "vegas", "bbr", "bbr3"):
        found.append("It does not couple paths: on a shared link each path counts as a connection.")
    else:
        found.append(
            "As every rule that couples its paths it uses less of a path with random loss than "
            "uncoupled Reno ([Where a second path harms](../../notebook/harm.md))."
        )
    if rule["variant_of"]:
        found.append(f"It is another reading of {rule['variant_of']}, kept for comparison.")
    return "\n".join(f"- {it}" for it in found)


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
                "The proofs cover rules whose increase is a function of windows, RTTs and losses. "
                "This one has a memory of its own, so nothing is proved of it."
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
