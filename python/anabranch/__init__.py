"""Anabranch: write a congestion-control rule for several paths once, and see what it does.

>>> import anabranch
>>> result = anabranch.run("examples/two_links.toml", algorithm=["lia", "olia"], seeds=2)
>>> list(result.summary()["flow"].unique())
['two-path', 'on the left', 'on the right']
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from anabranch._core import Cancelled as Cancelled
    from anabranch._core import Path as Path
    from anabranch.result import Result as Result
    from anabranch.result import jain_index as jain_index
    from anabranch.result import mean_with_interval as mean_with_interval
    from anabranch.rule import Rule as Rule
    from anabranch.runner import run as run
    from anabranch.scenario import Scenario as Scenario
    from anabranch.scenario import ScenarioError as ScenarioError
    from anabranch.scenario import load as load
    from anabranch.scenario import rules as rules
    from anabranch.scenario import schema as schema
    from anabranch.sweeps.sweep import sweep as sweep
    from anabranch.sweeps.threshold import threshold as threshold

_MODULES = {
    "_core": ["Cancelled", "Path"],
    "result": ["Result", "jain_index", "mean_with_interval"],
    "rule": ["Rule"],
    "runner": ["run"],
    "scenario": ["Scenario", "ScenarioError", "load", "rules", "schema"],
    "sweeps.sweep": ["sweep"],
    "sweeps.threshold": ["threshold"],
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: pandas and SciPy take most of a second to load."""
    if name == "__version__":
        return import_module("anabranch._core").VERSION
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
