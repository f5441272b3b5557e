"""Anabranch's scenario files and simulator, in Rust (crates/python)."""

import os
from collections.abc import Sequence
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

class ScenarioError(ValueError):
    """What is wrong with a scenario, in one line: file and line, key, what was expected."""

class Cancelled(Exception):
    """The run was cancelled."""

class Scenario:
    """A scenario, checked and complete."""

    @staticmethod
    def load(path: str | os.PathLike[str], overrides: list[tuple[str, str]] = ...) -> Scenario: ...
    @staticmethod
    def parse(
        text: str, file: str = "<string>", overrides: list[tuple[str, str]] = ...
    ) -> Scenario: ...
    def with_algorithm(self, spec: str) -> Scenario: ...
    def network(self) -> dict[str, Any]: ...
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def algorithm(self) -> str | None: ...
    @property
    def seeds(self) -> list[int]: ...
    @property
    def duration_s(self) -> float: ...
    @property
    def warmup_s(self) -> float: ...
    @property
    def flow_names(self) -> list[str]: ...
    @property
    def link_names(self) -> list[str]: ...
    @property
    def source(self) -> str: ...
    @property
    def text(self) -> str: ...

class Path:
    """What a rule may know of one path: packets and seconds."""

    @property
    def window(self) -> float: ...
    @property
    def rtt(self) -> float: ...
    @property
    def base_rtt(self) -> float: ...
    @property
    def round_rtt(self) -> float: ...
    @property
    def queue_delay(self) -> float: ...
    @property
    def since_loss(self) -> float: ...
    @property
    def between_losses(self) -> float: ...
    @property
    def loss_interval(self) -> float: ...
    @property
    def peak(self) -> float: ...
    @property
    def prior_peak(self) -> float: ...
    @property
    def epoch_window(self) -> float: ...
    @property
    def age(self) -> float: ...
    @property
    def rate(self) -> float: ...

class Run:
    """A scenario with one algorithm and one seed, ready to run."""

    def __new__(
        cls, scenario: Scenario, algorithm: str | None, seed: int, rule: object | None = None
    ) -> Run: ...
    def execute(self) -> dict[str, dict[str, Any]]: ...
    @property
    def progress(self) -> float: ...
    def cancel(self) -> None: ...

class Rounds:
    """The controllers of many users, told of whole round trips instead of packets."""

    def __new__(cls, algorithms: list[str], paths: list[int], initial_window: float) -> Rounds: ...
    def windows(self) -> NDArray[np.float64]: ...
    def end_round(
        self,
        now: float,
        paths: NDArray[np.int64],
        rtt: NDArray[np.float64],
        queue_delay: NDArray[np.float64],
        lost: NDArray[np.bool_],
    ) -> None: ...

class RateAdjustment:
    """What decides kappa of an aggregate connection after a round of samples (I-TCP)."""

    def __new__(
        cls,
        *,
        epsilon: float,
        gamma: float,
        max_kappa: float,
        max_queue_packets: float,
        low_threshold: float,
        high_threshold: float,
        guard: bool,
    ) -> RateAdjustment: ...
    def kappa_after(
        self, kappa: float, growth: float, mean_packets: float, load: float, falling: int
    ) -> float: ...

def share(
    weights: Sequence[float],
    classes: Sequence[tuple[int, float, float, float | None]],
    count: int,
    seed: int,
) -> dict[str, Any]: ...

class Law:
    """An algorithm of the table as a law of windows."""

    def __new__(cls, spec: str) -> Law: ...
    @property
    def name(self) -> str: ...
    @property
    def delay_based(self) -> bool: ...
    @property
    def fluid(self) -> bool:
        """Whether `evaluate` describes it, so that it has a fluid model."""
    def evaluate(self, states: object) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    def derivatives(
        self, wrt: str, states: object
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...

def algorithm(spec: str) -> str: ...

class Parameter(TypedDict):
    """A parameter of a rule."""

    name: str
    default: float
    min: float
    max: float
    """May be infinite."""
    choices: list[float]
    """The only allowed values; empty where every value from `min` to `max` is allowed."""
    unit: str
    """Empty for a pure number."""
    meaning: str

class RuleInfo(TypedDict):
    """What the table of rules says about one of them."""

    name: str
    aliases: list[str]
    summary: str
    source: str
    parameters: list[Parameter]
    delay_based: bool
    """It acts once per round trip and has no increase per acknowledged packet."""
    fluid: bool
    """Its increase and decrease at a state describe it, so that it has a fluid model."""
    reno_on_one_path: bool
    """With its defaults it is NewReno over one path."""
    equilibrium_by_loss: bool
    """Windows and RTTs alone give the loss probability of its equilibrium."""
    weight: str | None
    """The parameter that is a connection's weight and may change during a connection."""
    variant_of: str | None
    """The rule that this one is another reading of."""
    studied_as: str
    """The specification that a study of all rules runs."""
    linux_name: str
    """Its name in Linux, if it is there."""

def rules() -> list[RuleInfo]:
    """The table of rules, in its order."""

MAX_WINDOW: float
"""No congestion window grows beyond this, packets."""

def schema() -> str: ...
