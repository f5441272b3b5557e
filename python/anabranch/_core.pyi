"""Anabranch's scenario files and simulator, in Rust (crates/python)."""

import os
from collections.abc import Sequence
from typing import Any

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
    def evaluate(
        self,
        starts: NDArray[np.int64],
        window: NDArray[np.float64],
        rtt: NDArray[np.float64],
        base_rtt: NDArray[np.float64],
        queue_delay: NDArray[np.float64],
        loss_interval: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    def derivatives(
        self,
        wrt: str,
        starts: NDArray[np.int64],
        window: NDArray[np.float64],
        rtt: NDArray[np.float64],
        base_rtt: NDArray[np.float64],
        queue_delay: NDArray[np.float64],
        loss_interval: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...

def algorithm(spec: str) -> str: ...
def rules() -> list[dict[str, Any]]: ...
def schema() -> str: ...
