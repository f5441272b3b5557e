"""Answers of `run` and `compare`: tables or JSON, with further results that were asked for."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anabranch.cli import tables
from anabranch.cli.runs import comparison
from anabranch.formats import records

if TYPE_CHECKING:
    from anabranch.comparison.gain import Single
    from anabranch.comparison.measured import Measured
    from anabranch.result import Result
    from anabranch.theory.optimum.optimum import Optimum


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
            from anabranch.cli.theory import optimum_tables

            for result, distance in zip(results, more["optimum"], strict=True):
                if len(results) > 1:
                    tables.STDOUT.print(f"\non {result.backend}:")
                optimum_tables.distance(distance)
