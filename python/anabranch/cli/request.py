"""Work of `run` and `compare`: runs on each backend, the answer, and the files."""

import errno
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.cli import comparison, tables
from anabranch.cli.notes import detail, note, warn
from anabranch.cli.options import ANY, Pictures, algorithms, scenario_of
from anabranch.files import output
from anabranch.formats import records
from anabranch.rule import libraries
from anabranch.scenario import Scenario, ScenarioError
from anabranch.theory.errors import NotConverged

if TYPE_CHECKING:
    from anabranch.comparison.gain import Single
    from anabranch.comparison.measured import Measured
    from anabranch.result import Result
    from anabranch.theory.optimum.optimum import Optimum

# Answers of `run` and `compare`: tables or JSON, with further results that were asked for.


@dataclass(frozen=True)
class Answer:
    """Further results, beside those of the runs."""

    as_json: bool = False
    side_by_side: bool = False
    """A column per algorithm, not a row."""
    best: "list[Optimum] | None" = None
    """The optimum of each interval of the scenario."""
    measured: "dict[str, Measured]" = field(default_factory=dict)
    """Measurements by flow."""

    def print(self, results: "Sequence[Result]", single: "Sequence[Single]" = ()) -> None:
        """Print the results of each backend; `single`: what single paths get on each."""
        more: dict[str, Sequence[Any]] = {}
        if single:
            from anabranch.comparison.gain import gains

            more["gain"] = [gains(*both) for both in zip(results, single, strict=True)]
        if self.measured:
            from anabranch.comparison.measured import beside

            more["measured"] = [beside(result, self.measured) for result in results]
        if self.best is not None:
            from anabranch.theory.optimum.distance import distance

            more["optimum"] = [distance(result, self.best) for result in results]
        if self.as_json:
            self._print_json(results, more)
        else:
            self._print_tables(results, more)

    def _print_json(self, results: "Sequence[Result]", more: dict[str, Sequence[Any]]) -> None:
        """One document, or a list of them: one per backend."""
        found = []
        for i, result in enumerate(results):
            plain = {
                name: each[i].as_dict() if name == "optimum" else records(each[i])
                for name, each in more.items()
            }
            found.append({**result.as_dict(), **plain})
        tables.print_json(found[0] if len(found) == 1 else found)

    def _print_tables(self, results: "Sequence[Result]", more: dict[str, Sequence[Any]]) -> None:
        if self.side_by_side or len(results) > 1:
            comparison.comparison(results, more.get("gain", ()))
        else:
            tables.run(results[0])
        if "measured" in more:
            import pandas as pd

            comparison.measured(pd.concat(more["measured"]))
        if "optimum" in more:
            from anabranch.cli.theory import optimum

            for result, distance in zip(results, more["optimum"], strict=True):
                if len(results) > 1:
                    tables.STDOUT.print(f"\non {result.backend}:")
                optimum.show_distance(distance)


TOLERATED = (ScenarioError, NotConverged)
"""The errors by which an algorithm may fail without ending a comparison."""

# pandas, Matplotlib and theory are imported where they are used, because they are slow to load.


@dataclass(frozen=True)
class Request:
    """The options of `run` and `compare`."""

    command: str
    file: Path
    algorithm: str | None
    seeds: Any
    settings: list[str] | None
    on: Sequence[str]
    jobs: int | None
    out: Path | None
    qlog: Path | None
    pcap: Path | None
    force: bool
    pictures: Pictures
    as_json: bool
    optimum: bool
    gain: bool = False
    measured: Sequence[str] = ()
    measured_from: Sequence[str] = ()

    def carry_out(self) -> "Sequence[Result]":
        """Run, answer, write: in this order, so that a full disk does not cost the answer."""
        from anabranch.comparison.gain import over_single_paths
        from anabranch.runner import known_backend
        from anabranch.runner.asked import stand_in

        for backend in self.on:
            known_backend(backend)
        chosen = algorithms(self.algorithm) if self.algorithm is not None else None
        scenario = scenario_of(self.file, self.settings, stand_in(chosen))
        answer = self._answer(scenario)
        shown = self._warn(scenario, chosen)
        results, single = [], []
        # Output directories are opened first, so that one that cannot be written fails early.
        with (
            output(
                self.out, self.force, self._needed(scenario, chosen) if self.out else 0
            ) as stage,
            output(self.qlog, self.force) as events,
            output(self.pcap, self.force) as packets,
        ):
            for backend in self.on:
                results.append(self._run(scenario, chosen, backend, events, packets))
                for warning in results[-1].warnings:
                    if warning not in shown:
                        warn(warning)
                        shown.append(warning)
                if self.gain:
                    with tables.progress(f"{self.command}, single paths") as progress:
                        alone = over_single_paths(
                            scenario, self.seeds, backend, self.jobs, progress
                        )
                    single.append(alone)
            answer.print(results, single)
            kept = self._write(results, stage) if stage else []
        if self.out:
            fewest = min((result.seeds for result in results), key=len)
            say_where(self.out, kept, fewest)
        if self.qlog:
            note(f"Qlog files are in {self.qlog}")
        if self.pcap:
            note(f"Pcapng files are in {self.pcap}")
        return results

    def _answer(self, scenario: Scenario) -> Answer:
        """Warnings and measurements before the runs, which may take long."""
        from anabranch.comparison.measured import measurements

        measured = measurements(self.measured, self.measured_from, scenario, note)
        best = optima(self.file, self.settings) if self.optimum else None
        return Answer(self.as_json, self.command == "compare", best, measured)

    def _warn(self, scenario: Scenario, chosen: Sequence[Any] | None) -> list[str]:
        """Print what is known to be wrong before a run."""
        from anabranch.result.caveats import caveats

        foreign = libraries(chosen or ())
        known = [line for on in self.on for line in caveats(scenario, on, foreign)]
        known = [*scenario.warnings, *dict.fromkeys(known)]
        for warning in known:
            warn(warning)
        return known

    def _needed(self, scenario: Scenario, chosen: Sequence[Any] | None) -> int:
        """About the least bytes that the tables take."""
        from anabranch.result.manifest import needed_bytes
        from anabranch.runner import BACKENDS
        from anabranch.runner.asked import seeds_of

        runs = len(chosen or [""]) * len(seeds_of(self.seeds, scenario.seeds))
        return needed_bytes(scenario, runs) * sum(BACKENDS[on].random for on in self.on)

    def _run(
        self,
        scenario: Scenario,
        chosen: Sequence[Any] | None,
        on: str,
        events: Path | None,
        packets: Path | None,
    ) -> "Result":
        from anabranch.runner import BACKENDS, run

        only = len(self.on) == 1  # which refuses a log that it does not have
        kind = BACKENDS[on].log

        def folder(logs: Path | None) -> Path | None:
            return logs if only or logs is None else logs / on

        label = f"{self.command} on {on}" if len(self.on) > 1 else self.command
        with tables.progress(label) as progress:
            result = run(
                scenario,
                chosen,
                self.seeds,
                on=on,
                jobs=self.jobs,
                qlog=folder(events) if kind or only else None,
                pcap=folder(packets) if kind == "pcap" or only else None,
                progress=progress,
                tolerate=TOLERATED if self.command == "compare" else (),
            )
        detail(f"{len(result.algorithms) * len(result.seeds)} runs on {on}")
        return result

    def _write(self, results: "Sequence[Result]", stage: Path) -> list[int]:
        """A directory for the only result, else one for each backend in it; the seeds kept."""
        if len(results) == 1:
            return write(results[0], stage, self.pictures)
        kept = []
        for result in results:
            (stage / result.backend).mkdir()
            kept.append(write(result, stage / result.backend, self.pictures))
        return min(kept, key=len)


def write(result: "Result", stage: Path, pictures: Pictures) -> list[int]:
    """Write the seeds, or the first half, quarter, ... of them for which the disk has room.

    Returns those that were written. Raises OSError where there is no room for one.
    """
    from anabranch.figures import result as figures

    kept = result
    while True:
        try:
            with tables.progress("write"):
                kept.write(stage, ["anabranch", *sys.argv[1:]])
                figures.write(kept, stage, **vars(pictures))
        except OSError as error:
            half = len(kept.seeds) // 2
            if error.errno != errno.ENOSPC or half == 0:
                raise
            for file in stage.iterdir():
                file.unlink()
            kept = result.of_seeds(kept.seeds[:half])
        else:
            return kept.seeds


def say_where(out: Path, kept: list[int], seeds: list[int]) -> None:
    """Print where the results are. Raises OSError where some seeds had no room."""
    if kept == seeds:
        note(f"Tables and figures are in {out}")
        return
    some = ", ".join(map(str, kept))
    text = f"{os.strerror(errno.ENOSPC)}: of {len(seeds)} seeds it has {some}"
    raise OSError(errno.ENOSPC, text, str(out))


def optima(file: Path, settings: list[str] | None) -> "list[Optimum]":
    """The optimum of each interval of a scenario."""
    from anabranch.theory.optimum import optimum

    return optimum.optima(scenario_of(file, settings, ANY))
