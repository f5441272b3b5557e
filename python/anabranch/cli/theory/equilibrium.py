"""`anabranch theory equilibrium` and `packets`."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli import tables
from anabranch.cli.notes import note, warn
from anabranch.cli.options import (
    ANY,
    File,
    Force,
    Json,
    Record,
    Set,
    only_names,
    out_option,
    scenario_of,
)
from anabranch.cli.tables import MOST_ROWS
from anabranch.files import output

if TYPE_CHECKING:
    from anabranch.theory.fluid.against_packets import Comparison
    from anabranch.theory.fluid.equilibrium import Equilibrium

# Theory and Matplotlib are imported where they are used, because they are slow to load.


def equilibrium(
    file: File,
    algorithm: Annotated[
        str | None,
        typer.Option(
            "--algorithm",
            "-a",
            metavar="A",
            help="The algorithm of flows without one of their own. Default: the scenario's.",
        ),
    ] = None,
    set_: Set = None,
    as_json: Json = False,
) -> None:
    """Find the equilibrium of a scenario: windows and queues that do not change.

    All its flows are present.

    Exits with 1 if no equilibrium is found, with the residual.

    Examples:

        anabranch theory equilibrium examples/two_links.toml

        anabranch theory equilibrium examples/two_links.toml --algorithm olia --json

        anabranch theory equilibrium examples/two_links.toml --set links.left.rate_mbps=30
    """
    from anabranch.result.caveats import caveats
    from anabranch.theory.fluid.equilibrium import equilibrium
    from anabranch.theory.known import check, check_buffer
    from anabranch.theory.network import Network

    only_names(algorithm or ANY)
    scenario = scenario_of(file, set_, algorithm and ANY)
    for warning in caveats(scenario, "equilibrium"):
        warn(warning)
    check(scenario, "equilibrium")
    network = Network.of(scenario, algorithm)
    with tables.progress("theory equilibrium"):
        found = equilibrium(network)
    check_buffer(scenario, "equilibrium", network, found.window)
    tables.answer(found, as_json, show_equilibrium)


def packets(
    quick: Annotated[bool, typer.Option("--quick", help="Three scenarios, shorter runs.")] = False,
    out: Annotated[Path | None, out_option("Write tables (Parquet) and figure to DIR.")] = None,
    force: Force = False,
    record: Record = None,
    as_json: Json = False,
) -> None:
    """Theory meets packets: compare the simulator's shares with the fluid equilibrium's.

    Every loss-based rule in twelve generated scenarios (2 to 6 links, 2 to 20 flows, RTTs of 10 to
    300 ms, low loss). Exits with 1 if a scenario is outside its band.

    Examples:

        anabranch theory packets --quick

        anabranch theory packets --out results/packets --record packets.csv
    """
    from anabranch.figures import packets as figure
    from anabranch.theory.fluid import against_packets

    with output(out, force) as stage:
        with tables.progress("anabranch theory packets") as progress:
            found = against_packets.compare(quick, progress)
        bands = {rule: against_packets.band(rule)[1] for rule in found.rules}
        if stage:
            against_packets.write(found, stage)
            figure.write(found.flows, bands, stage)
    if record:
        record.write_text(against_packets.record(found), encoding="utf-8")
    tables.answer(found, as_json, show_packets)
    if out:
        note(f"Tables and figure are in {out}")
    if found.failed:
        raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    """Add these commands to `anabranch theory`."""
    app.command("equilibrium")(equilibrium)
    app.command("packets")(packets)


def show_equilibrium(found: "Equilibrium") -> None:
    """A line for each flow's first user, then one for each link."""
    network = found.network
    tables.STDOUT.print(
        f"{network.scenario}: residual {found.residual:.0e} after {found.steps} steps\n"
    )
    flows = tables.new_table(
        "flow", "rule", "users", "via", "goodput (Mbps)", "window", "RTT (ms)", "loss"
    )
    flows.complete = "--json has"
    via = network.links_of_paths()
    users = Counter(network.flows)  # in the order of the flows
    flows.leave_out("flow", len(users) - MOST_ROWS)
    for flow in list(users)[:MOST_ROWS]:
        user = network.flows.index(flow)
        for number, r in enumerate(range(network.starts[user], network.starts[user + 1])):
            flows.add_row(
                *(
                    (flow, network.algorithms[user], str(users[flow]))
                    if number == 0
                    else ("", "", "")
                ),
                "+".join(via[r]),
                f"{found.goodput_mbps[r]:.3f}",
                f"{found.window[r]:.1f}",
                f"{1e3 * found.rtt[r]:.1f}",
                f"{found.path_loss[r]:.5f}",
            )
    links = tables.new_table("link", "utilization", "loss", "queue (packets)")
    links.complete = flows.complete
    links.leave_out("link", len(network.links) - MOST_ROWS)
    for number, link in enumerate(network.links[:MOST_ROWS]):
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


def show_packets(comparison: "Comparison") -> None:
    """Rules by scenarios."""
    table = comparison.table()
    tables.STDOUT.print(
        "Worst (median) deviation of a flow's share from the fluid equilibrium's, in % of it.\n"
        "A star: outside the band. ∞: one of infinitely many equilibria.\n"
    )
    from anabranch.theory.fluid.against_packets import band

    wide = tables.new_table("rule", *(str(number) for number in table.columns), "band")
    for rule, row in table.iterrows():
        median, worst = band(str(rule))
        wide.add_row(str(rule), *row, f"{100 * worst:.0f} ({100 * median:.0f})")
    tables.STDOUT.print(wide)
    tables.STDOUT.print(f"\n{comparison.summary}")
    for line in comparison.reasons():
        tables.STDOUT.print(line)
