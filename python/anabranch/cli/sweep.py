"""`anabranch sweep FILE`, `sweep status`, `sweep gc`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from anabranch.cli import tables
from anabranch.cli.notes import App, can_resume, note, warn
from anabranch.cli.options import File, Jobs, Json, Set, algorithms, overrides, scenario_of
from anabranch.cli.run import ON, Names, Seeds
from anabranch.cli.tables import MARK_MEANS, MOST_ROWS, STDOUT, mean_with_half, new_table
from anabranch.files import size
from anabranch.formats import first
from anabranch.rule import libraries
from anabranch.scenario import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Executor

    from pandas import DataFrame

    from anabranch.result import Result
    from anabranch.sweeps.threshold import Thresholds
    from anabranch.sweeps.upkeep import Status

# Sweeps as tables on the terminal.


def show_sweep(result: "Result") -> None:
    """Per case: goodput of each flow, total and fairness."""
    totals = result.marked(result.totals()).to_dict(orient="records")
    flows, there = first(result.marked(result.summary()), "flow", MOST_ROWS)
    names = list(flows["flow"].unique())
    by_case = dict(iter(flows.groupby(result.cases, sort=False)))
    columns = [f"{name}{_own_rule(flows, name)} (Mbps)" for name in names]
    heads = [*columns, "total (Mbps)", "Jain's index"]
    table = new_table(*result.cases, *heads, keys=len(result.cases))
    for row in totals[:MOST_ROWS]:
        case = [row[key] for key in result.cases]
        of_flow = by_case[tuple(case)].set_index("flow").to_dict(orient="index")
        table.add_row(
            *(f"{value:g}" if isinstance(value, float) else str(value) for value in case),
            *(mean_with_half(of_flow[name], "goodput_mbps", 3) for name in names),
            mean_with_half(row, "total_goodput_mbps", 2),
            mean_with_half(row, "jain_index", 4),
        )
    table.leave_out("case", len(totals) - MOST_ROWS)
    table.leave_out("flow", there - len(names))
    STDOUT.print(table)
    if any(row["one_trajectory"] for row in totals):
        STDOUT.print(f"\n{MARK_MEANS.strip()[1:-1]}, without an interval")
    _failures(result.failures)


def _own_rule(flows: "DataFrame", name: str) -> str:
    """The rule of a flow that names its own, the same in every case; else nothing."""
    rows = flows[flows["flow"] == name]
    same = rows["rule"].nunique() == 1 and (rows["rule"] != rows["algorithm"]).any()
    return f", {rows['rule'].iloc[0]}" if same else ""


def show_thresholds(found: "Thresholds") -> None:
    """Per case, where the condition holds and where it does not."""
    cases = list(found.table.columns)[:-6]
    heads = ["holds at", "fails at", "width", "metric", "metric where it fails", "seeds"]
    table = new_table(*cases, *heads, keys=len(cases))
    for row in found.table.to_dict(orient="records"):
        numbers = ("holds_at", "fails_at", "width", "metric_holds", "metric_fails")
        table.add_row(
            *(str(row[case]) for case in cases),
            *(f"{row[n]:.6g}" for n in numbers),
            "decide" if row["decided"] else "do not decide",
        )
    STDOUT.print(f"{found.key}, {found.until}; the metric is assumed to be monotone\n")
    STDOUT.print(table)
    _failures(found.failures)


def show_status(found: "Status") -> None:
    """The counts, then what to do."""
    rows = {
        "points": found.points,
        "done": found.done,
        "failed": found.failed,
        "damaged": found.damaged,
        "missing": found.missing,
        "other entries": found.others,
        "leftovers": found.leftovers,
    }
    table = new_table("", "")
    table.show_header = False
    for name, count in rows.items():
        table.add_row(name, str(count))
    table.add_row("size", size(found.bytes))
    STDOUT.print(table)
    for reason, count in found.reasons.items():
        STDOUT.print(f"failed, {count}: {reason}", soft_wrap=True)
    if not found.this_version:
        STDOUT.print("Defined by another version or build of Anabranch: the sweep would run anew.")
    if found.others or found.leftovers:
        STDOUT.print("`anabranch sweep gc` removes other entries and leftovers.")


def _failures(failures: "Mapping[str, str]") -> None:
    for point, reason in list(failures.items())[:MOST_ROWS]:
        STDOUT.print(f"\nfailed: {point}: {reason}", soft_wrap=True)


FAILED = 1
"""Exit code when a point has failed."""

Store = Annotated[Path, typer.Argument(metavar="STORE", help="The --out of a sweep.")]


class _RunByDefault(TyperGroup):
    """`sweep FILE ...` is `sweep run FILE ...`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands:
            args = ["run", *args]
        return super().parse_args(ctx, args)


def register(app: typer.Typer) -> None:
    """Add these commands."""
    group = App(
        cls=_RunByDefault,
        no_args_is_help=True,
        help="Run a scenario over many values: `sweep FILE --over KEY=...`.",
    )
    group.command("run")(sweep_command)
    group.command("status")(status_command)
    group.command("gc")(gc_command)
    app.add_typer(group, name="sweep")


def sweep_command(
    file: File,
    over: Annotated[
        list[str] | None,
        typer.Option(
            "--over",
            metavar="KEY=VALUES",
            help="A key and its values: 5,10,20; lin(5,50,10) for 10 values, log(1,100,9), "
            "int(1,8); or an interval for --sample and --until: lin(5,50), log(1,100). Repeatable.",
        ),
    ] = None,
    algorithm: Names = None,
    seeds: Seeds = None,
    set_: Set = None,
    sample: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Draw N points from the intervals of all keys."),
    ] = None,
    method: Annotated[
        str,
        typer.Option(metavar="METHOD", help="lhs, a Latin hypercube, or sobol, a Sobol sequence."),
    ] = "lhs",
    until: Annotated[
        str | None,
        typer.Option(
            metavar="CONDITION",
            help="Bisect the one interval for the value at which CONDITION begins to hold, such as "
            "'flows.two-path.goodput_mbps >= 5'. The metric must be monotone.",
        ),
    ] = None,
    halvings: Annotated[
        int, typer.Option(min=1, max=60, metavar="N", help="Halvings of the interval by --until.")
    ] = 7,
    on: Annotated[str, ON] = "sim",
    out: Annotated[
        str | None,
        typer.Option(
            metavar="STORE",
            help="Store each point in this directory when it is done, and the tables (Parquet). "
            "The same command resumes a sweep that was stopped.",
        ),
    ] = None,
    with_samples: Annotated[
        bool, typer.Option("--with-samples", help="Keep the tables over time, too.")
    ] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Run failed points again.")] = False,
    jobs: Jobs = None,
    dask: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Run on this Dask cluster, as tcp://host:8786."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run a scenario over many values, each point once; `sweep status`, `sweep gc` for its store.

    Several --over give every combination. A point that fails is listed with the reason; the others
    go on, and the exit code is 1. With --json: as `anabranch schema result` describes, or the
    thresholds of --until.

    Examples:

        anabranch sweep examples/two_links.toml --over 'links.left.rate_mbps=log(1,100,9)'

        anabranch sweep examples/two_links.toml -a lia,olia --over links.left.rate_mbps=5,10 --over
        'flows.two-path.count=int(1,4)' --out rates

        anabranch sweep examples/two_links.toml --over 'links.left.rate_mbps=log(1,100)' --over
        'links.left.delay_ms=lin(5,50)' --sample 64 --method sobol --out box

        anabranch sweep examples/two_links.toml --over 'links.left.rate_mbps=lin(5,50)' --until
        'total_goodput_mbps >= 25'

        anabranch sweep status rates
    """
    from anabranch.result.caveats import caveats
    from anabranch.runner.asked import stand_in
    from anabranch.sweeps.sweep import sweep
    from anabranch.sweeps.threshold import Thresholds, threshold

    values = _values(over)
    if until is not None and (sample is not None or with_samples):
        raise ScenarioError("--until has neither --sample nor --with-samples")
    chosen = algorithms(algorithm) if algorithm is not None else None
    scenario = scenario_of(file, set_, stand_in(chosen))
    for warning in [*scenario.warnings, *caveats(scenario, on, libraries(chosen or ()))]:
        warn(warning)
    source = scenario_of(file, None, stand_in(chosen)) if str(file) == "-" else file
    if out:
        can_resume(f"{out} has the points that are done; run the same command to resume")
    found: Result | Thresholds
    with _executor(dask, jobs) as (executor, at_a_time), tables.progress("sweep") as progress:
        where: dict[str, Any] = {"on": on, "out": out, "retry": retry, "progress": progress}
        where |= {"set": overrides(set_), "jobs": at_a_time, "executor": executor}
        if until is None:
            drawn: dict[str, Any] = {"sample": sample, "method": method}
            found = sweep(
                source, values, chosen, seeds, with_samples=with_samples, **drawn, **where
            )
        else:
            found = threshold(source, values, until, chosen, seeds, halvings=halvings, **where)
    tables.answer(found, as_json, show_sweep if until is None else show_thresholds)
    if out:
        note(f"Points and tables are in {out}")
    if found.failures:
        note(f"anabranch: {len(found.failures)} failed")
        raise typer.Exit(FAILED)


def status_command(store: Store, as_json: Json = False) -> None:
    """Say how many points of a sweep are done, missing, failed or damaged, and the size.

    Example:

        anabranch sweep status rates
    """
    from anabranch.sweeps.upkeep import status

    tables.answer(status(store), as_json, show_status)


def gc_command(
    store: Store,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be removed.")
    ] = False,
) -> None:
    """Remove what the sweep as last defined does not need: other entries, leftovers of kills.

    Entries of the previous version of Anabranch are removed once the sweep has run with this one.

    Example:

        anabranch sweep gc rates --dry-run
    """
    from anabranch.sweeps.upkeep import gc

    removed = gc(store, dry_run)
    verb = "would remove" if dry_run else "removed"
    print(
        f"{store}: {verb} {removed.entries} entries and {removed.leftovers} leftovers, "
        f"{size(removed.bytes)}"
    )


@contextmanager
def _executor(dask: str | None, jobs: int | None) -> Iterator[tuple["Executor | None", int | None]]:
    """The cluster's executor and the points at a time; none: threads."""
    if dask is None:
        yield None, jobs
        return
    from anabranch.extras import cluster

    with cluster.dask(dask) as (executor, at_a_time):
        yield executor, jobs or at_a_time


def _values(over: list[str] | None) -> dict[str, str]:
    """Dotted keys to the text of their values. Raises `ScenarioError`."""
    values: dict[str, str] = {}
    for each in over or []:
        key, equals, text = each.partition("=")
        if not equals or not key or not text:
            raise ScenarioError(
                f"--over {each}: expected KEY=VALUES, as in links.left.rate_mbps=5,10,20"
            )
        if key in values:
            raise ScenarioError(f"--over {key}: given twice, expected all values in one")
        values[key] = text
    return values
