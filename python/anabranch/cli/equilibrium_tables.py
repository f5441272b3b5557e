"""Equilibria and theory meets packets on the terminal."""

from anabranch.cli import tables
from anabranch.theory.fluid.against_packets import Comparison, band
from anabranch.theory.fluid.equilibrium import Equilibrium


def show_equilibrium(found: Equilibrium) -> None:
    """A line for each flow's first user, then one for each link."""
    network = found.network
    tables.STDOUT.print(
        f"{network.scenario}: residual {found.residual:.0e} after {found.steps} steps\n"
    )
    flows = tables.new_table(
        "flow", "rule", "users", "path", "goodput (Mbps)", "window", "RTT (ms)", "loss"
    )
    for flow in dict.fromkeys(network.flows):
        user = network.flows.index(flow)
        for number, r in enumerate(range(network.starts[user], network.starts[user + 1])):
            flows.add_row(
                *(
                    (flow, network.algorithms[user], str(network.flows.count(flow)))
                    if number == 0
                    else ("", "", "")
                ),
                str(number),
                f"{found.goodput_mbps[r]:.3f}",
                f"{found.window[r]:.1f}",
                f"{1e3 * found.rtt[r]:.1f}",
                f"{found.path_loss[r]:.5f}",
            )
    links = tables.new_table("link", "utilization", "loss", "queue (packets)")
    for number, link in enumerate(network.links):
        links.add_row(
            link,
            f"{found.utilization[number]:.3f}",
            f"{found.loss[number]:.5f}",
            f"{found.waiting[number]:.1f}",
        )
    tables.STDOUT.print(flows, "", links, sep="\n")
    if not found.isolated:
        tables.STDOUT.print(
            "\nThis is one of infinitely many equilibria: the rules do not determine how traffic "
            "is split among paths of equal price."
        )


def show_packets(comparison: Comparison) -> None:
    """Rules by scenarios."""
    table = comparison.table()
    tables.STDOUT.print(
        "Worst (median) deviation of a flow's share from the fluid equilibrium's, in % of it.\n"
        "A star: outside the band. ∞: one of infinitely many equilibria.\n"
    )
    wide = tables.new_table("rule", *(str(number) for number in table.columns), "band")
    for rule, row in table.iterrows():
        median, worst = band(str(rule))
        wide.add_row(str(rule), *row, f"{100 * worst:.0f} ({100 * median:.0f})")
    tables.STDOUT.print(wide)
    tables.STDOUT.print(f"\n{comparison.summary}")
    for line in comparison.reasons():
        tables.STDOUT.print(line)
