"""Anabranch: write a congestion-control rule for several paths once, and see what it does.

>>> import anabranch
>>> result = anabranch.run("scenario.toml", algorithm=["lia", "olia"], seeds=5)
>>> result.summary()
"""

from anabranch._core import Cancelled, Path, ScenarioError
from anabranch.result import Result, jain_index, mean_with_interval
from anabranch.rule import Rule
from anabranch.runner import run
from anabranch.scenario import Scenario, load, rules, schema
from anabranch.sweep import sweep

__all__ = [
    "Cancelled",
    "Path",
    "Result",
    "Rule",
    "Scenario",
    "ScenarioError",
    "jain_index",
    "load",
    "mean_with_interval",
    "rules",
    "run",
    "schema",
    "sweep",
]
