"""A number of a result, and a condition on it, as text: `flows.two-path.goodput_mbps >= 5`."""

import math
import operator
import re
from dataclasses import dataclass

from anabranch.result import Result
from anabranch.scenario import Scenario, ScenarioError

TOTALS = ("total_goodput_mbps", "jain_index")
FLOWS = ("goodput_mbps", "loss_probability", "rtt_ms")
LINKS = ("throughput_mbps", "utilization", "loss_probability", "queue_packets")

_COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_CONDITION = re.compile(r"(.+?)\s*(<=|>=|<|>)\s*([^<>=]+)")


@dataclass(frozen=True)
class Metric:
    """A column of `Result.totals`, or of a flow or link in `summary` or `link_summary`."""

    table: str
    """"totals", "flows" or "links"."""
    name: str
    """Name of the flow or link."""
    column: str

    def of(self, result: Result) -> tuple[float, float]:
        """Mean of the metric over the seeds of a result of one case, and half its 95 % interval.

        NaN where it has none: a single trajectory, or a backend that computes without seeds.
        """
        if self.table == "totals":
            row = result.totals().iloc[0]
        else:
            flows = self.table == "flows"
            rows = result.summary() if flows else result.link_summary()
            row = rows.set_index("flow" if flows else "link").loc[self.name]
        half = math.nan if result.is_one_trajectory() else float(row[f"{self.column}_ci95"])
        return float(row[self.column]), half


@dataclass(frozen=True)
class Condition:
    """A comparison of a metric with a number."""

    text: str
    metric: Metric
    compare: str
    bound: float

    def holds(self, value: float) -> bool:
        """Whether it holds for this value of the metric."""
        return bool(_COMPARE[self.compare](value, self.bound))


def condition(text: str, scenario: Scenario) -> Condition:
    """Read a condition. Raises `ScenarioError` that says what was expected."""
    found = _CONDITION.fullmatch(text.strip())
    if not found:
        raise ScenarioError(
            f"until {text!r}: expected METRIC, one of < <= > >=, and a number, as in "
            "'total_goodput_mbps >= 15'"
        )
    metric, compare, bound = found.groups()
    try:
        number = float(bound)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ScenarioError(f"until {text!r}: expected a number, got {bound!r}")
    return Condition(text.strip(), _metric(metric, scenario), compare, number)


def _metric(text: str, scenario: Scenario) -> Metric:
    table, _, rest = text.partition(".")
    name, _, column = rest.rpartition(".")
    if text in TOTALS:
        return Metric("totals", "", text)
    named = {"flows": (scenario.flow_names, FLOWS), "links": (scenario.link_names, LINKS)}
    if table not in named:
        raise ScenarioError(
            f"metric {text!r}: expected {', '.join(TOTALS)}, flows.NAME.COLUMN or links.NAME.COLUMN"
        )
    names, columns = named[table]
    if name not in names:
        raise ScenarioError(f"metric {text!r}: no {table[:-1]} {name!r}: expected {_or(names)}")
    if column not in columns:
        raise ScenarioError(f"metric {text!r}: no column {column!r}: expected {_or(columns)}")
    return Metric(table, name, column)


def _or(names: list[str] | tuple[str, ...]) -> str:
    return f"one of {', '.join(names)}" if len(names) > 1 else names[0]
