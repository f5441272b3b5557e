"""Environments of Gymnasium and PettingZoo in which agents set windows (docs/reference/agents.md).

Needs the extra "gym": pip install 'anabranch[gym]'.
"""

from anabranch.scenario import ScenarioError

try:
    import gymnasium as _gymnasium  # noqa: F401
    import pettingzoo as _pettingzoo  # noqa: F401
except ImportError:
    raise ScenarioError("Gymnasium is not installed: pip install 'anabranch[gym]'") from None

from anabranch.gym.several import FlowsEnv
from anabranch.gym.single import FlowEnv
from anabranch.gym.steered import COLUMNS, power

__all__ = ["COLUMNS", "FlowEnv", "FlowsEnv", "power"]
