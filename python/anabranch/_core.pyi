"""Anabranch's scenario files and simulator, in Rust (crates/model/python).

Rates of links and goodputs are in Mbps; a rule sees packets and seconds; the unit of every other
number is the suffix of its name. Arrays are one-dimensional unless their shape is given.
"""

import os
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anabranch.core_types import Floats, Integers, PlainNetwork, RuleInfo, Served, Tables

class ScenarioError(ValueError):
    """What is wrong with a scenario, in one line: file and line, key, what was expected."""

class Cancelled(Exception):
    """The run was cancelled."""

# ------------------------------------------------------------------ scenarios

class Scenario:
    """A scenario, checked and complete."""

    @staticmethod
    def load(
        path: str | os.PathLike[str],
        set: list[tuple[str, str]] = ...,
        algorithm: str | None = None,
    ) -> Scenario:
        """Read a scenario file.

        Each pair of `set` is a dotted key and a TOML value; text that is not TOML, such as a bare
        word, is a string. A file in which a flow has no algorithm gets `algorithm`. Raises
        `ScenarioError`.
        """
    @staticmethod
    def parse(
        text: str,
        file: str = "<string>",
        set: list[tuple[str, str]] = ...,
        inputs: dict[str, bytes] = ...,
        algorithm: str | None = None,
    ) -> Scenario:
        """Read the text of a scenario.

        `file` is its name in errors. `inputs` are the contents of trace files, by their names in
        the scenario; those that are not among them are looked for beside `file`. A text in which a
        flow has no algorithm gets `algorithm`. Raises `ScenarioError`.
        """
    def with_algorithm(self, spec: str) -> Scenario:
        """The same scenario with another algorithm for the flows without one of their own.

        Raises `ScenarioError`.
        """
    def check_memory(self) -> None:
        """Raise `ScenarioError` if packets could need more than `measure.max_memory_gib`."""
    def check_scheduler(self, backend: str) -> None:
        """Raise `ScenarioError` if the backend of this name does not have its scheduler."""
    def network(self) -> PlainNetwork:
        """Links and flows as plain data."""
    @property
    def name(self) -> str:
        """Empty where the file has none."""
    @property
    def description(self) -> str:
        """Empty where the file has none."""
    @property
    def algorithm(self) -> str | None:
        """What flows without one of their own run; None where every flow has its own."""
    @property
    def seeds(self) -> list[int]:
        """One run for each."""
    @property
    def duration_s(self) -> float:
        """Length of a run, s."""
    @property
    def warmup_s(self) -> float:
        """Start of the measurement window, which ends with the run, s."""
    @property
    def flow_names(self) -> list[str]:
        """In the order of the file."""
    @property
    def link_names(self) -> list[str]:
        """In the order of the file."""
    @property
    def source(self) -> str:
        """The file it was read from, or its name in errors; trace files are beside it."""
    @property
    def text(self) -> str:
        """The scenario as TOML, with the values of `set`."""
    @property
    def tcp(self) -> str:
        """The section `[tcp]` of `text`, without its header."""
    @property
    def original(self) -> str:
        """The text that it was read from, to which `set` was applied."""
    @property
    def set(self) -> list[tuple[str, str]]:
        """What replaced values of the text: dotted keys and TOML values, in the order applied."""
    @property
    def inputs(self) -> dict[str, bytes]:
        """The contents of its trace files, by their names in the scenario."""
    def to_folder(self) -> tuple[str, dict[str, bytes]]:
        """The scenario as TOML and the contents of its trace files, by names for one folder."""
    @property
    def warnings(self) -> list[str]:
        """A line for what is probably not meant, and for what a run can only approximate."""

# ------------------------------------------------------------------ rules

class Path:
    """What a rule may know of one path: packets and seconds."""

    @property
    def window(self) -> float:
        """Congestion window, packets."""
    @property
    def rtt(self) -> float:
        """Smoothed round-trip time, s."""
    @property
    def base_rtt(self) -> float:
        """Smallest round-trip time seen, s."""
    @property
    def round_rtt(self) -> float:
        """Mean round-trip time over the round trip that just ended, s."""
    @property
    def queue_delay(self) -> float:
        """Queueing and transmission delay in the forward direction, s."""
    @property
    def since_loss(self) -> float:
        """Packets acknowledged since the last loss."""
    @property
    def between_losses(self) -> float:
        """Packets acknowledged between the last two losses."""
    @property
    def loss_interval(self) -> float:
        """Smoothed packets between losses; 0 before the first loss."""
    @property
    def peak(self) -> float:
        """Window at the last loss, packets; 0 before the first loss."""
    @property
    def prior_peak(self) -> float:
        """Window at the loss before the last one, packets."""
    @property
    def epoch_window(self) -> float:
        """Window when the present stage of congestion avoidance began, packets; 0 before that."""
    @property
    def age(self) -> float:
        """Time since the present stage of congestion avoidance began, s."""
    @property
    def rounds(self) -> float:
        """Windows acknowledged in that stage: its age in round trips."""
    @property
    def rate(self) -> float:
        """`window / rtt`, packets/s."""

class Law:
    """An algorithm of the table as a law of windows.

    Its methods take the paths of many users as columns: `anabranch.theory.law.States`.
    """

    def __new__(cls, spec: str) -> Law:
        """The law of an algorithm such as "balia:cap=inf". Raises `ScenarioError`."""
    @property
    def name(self) -> str:
        """Its canonical name, with the parameters that differ from their defaults."""
    @property
    def delay_based(self) -> bool:
        """Whether it acts once per round trip, so that it has no increase per acknowledgement."""
    @property
    def fluid(self) -> bool:
        """Whether `evaluate` describes it, so that it has a fluid model."""
    def evaluate(self, states: object) -> tuple[Floats, Floats]:
        """I_r and D_r, an entry per path: packets per acknowledged packet, and packets.

        Raises ValueError where the columns differ in length.
        """
    def evaluate_in(
        self, paths: Sequence[object], count: int | None = None
    ) -> list[tuple[Any, Any]]:
        """I_r and D_r of every path of one user, or of the first `count`, in their numbers.

        `paths` are any objects with the attributes of `Path`, whose values have Python's operators:
        fractions give exact values. Numbers of the rule itself are fractions; the square root is
        the power of one half. Where a number has the methods `maximum` and `minimum` they answer
        for a rule's max and min; else these are comparisons. Raises what an operation raises.
        """
    def end_round_in(
        self, paths: Sequence[object], memory: Sequence[object]
    ) -> tuple[Any, list[Any]]:
        """What a delay-based rule does at the end of a round trip of the first path.

        The change of its window, and the path's memory after it: alpha, equilibrium_rate and
        queue_delay (wVegas). `memory` has objects with these attributes, one for each path; numbers
        are as in `evaluate_in`. Raises what an operation raises.
        """
    def derivatives(self, wrt: str, states: object) -> tuple[Floats, Floats]:
        """The derivatives of I_r and D_r in the column `wrt`; at a kink, those of the branch taken.

        `wrt`: window, rtt, queue_delay or loss_interval. A user with n paths has n * n entries,
        (r, k) row by row; the users follow one another. Raises ValueError for another `wrt`, and
        where the columns differ in length.
        """

def algorithm(spec: str) -> str:
    """The canonical form of an algorithm: that of "max" is "lia". Raises `ScenarioError`."""

def expected_one_of(word: str, known: list[str]) -> str:
    """ "expected one of a, b (did you mean b?)", for a word that is not one of `known`."""

def rules() -> list[RuleInfo]:
    """The table of rules, in its order."""

def schedulers() -> list[str]:
    """The names of the schedulers (`tcp.scheduler`), ordered as in docs/reference/schedulers.md."""

def features() -> list[tuple[str, list[str]]]:
    """Features of scenarios that not every backend has, by name, and the backends that have each:
    the table of docs/reference/limits.md."""

def couplings() -> list[tuple[str, str]]:
    """What `coupling` may be in an algorithm, and what each means; the default first."""

VERSION: str
"""The version of Anabranch."""

MAX_WINDOW: float
"""No congestion window grows beyond this, packets."""

def schema() -> str:
    """The JSON Schema of a scenario file, as text."""

class Library:
    """The controller `name` of a shared library that was built with `anabranch.h`."""

    def __new__(cls, file: str | os.PathLike[str], name: str) -> Library:
        """Loads the library, which stays loaded; ScenarioError: it has no such controller."""
    @property
    def file(self) -> pathlib.Path:
        """The shared library."""
    @property
    def name(self) -> str:
        """The name of the controller."""
    def increase(self, r: int, paths: Sequence[Path]) -> float:
        """Raises `ScenarioError`: a controller has no equation."""
    def decrease(self, r: int, paths: Sequence[Path]) -> float:
        """Raises `ScenarioError`: a controller has no equation."""

# ------------------------------------------------------------------ runs

def columns() -> dict[str, dict[str, tuple[str, str]]]:
    """By table and column of a run: the JSON type of an entry, and its meaning and unit."""

class Session:
    """A run of the simulator that stands still between calls, so that an agent can set windows."""

    def __new__(
        cls, scenario: Scenario, seed: int, values: dict[int, list[float]], weights: bool
    ) -> Session:
        """A run at time 0.

        The flows, by index, have these values at first, one per path: their windows (packets), or
        with `weights` their windows' growth per round trip (packets).
        """
    def set(self, flow: int, values: list[float]) -> None:
        """Set the values of a flow."""
    def advance(self, seconds: float) -> None:
        """Let `seconds` pass, or the rest of the run. Releases the GIL."""
    @property
    def now_s(self) -> float:
        """The time that the run has reached, s."""
    def paths(self) -> Floats:
        """A row per path of each user.

        Index of the flow, window (packets), smoothed RTT (s), and since the start of the run
        packets sent, packets lost, bytes delivered.
        """

class Run:
    """A scenario with one algorithm and one seed, ready to run."""

    def __new__(
        cls,
        scenario: Scenario,
        algorithm: str | None,
        seed: int,
        rule: object | None = None,
        pcap: str | os.PathLike[str] | None = None,
    ) -> Run:
        """A run in which the flows without an algorithm of their own run `algorithm`.

        None: the scenario's choice. With a Python object `rule` they run that, and `algorithm` is
        its name. The packets of each sender are captured in the folder `pcap`. Raises
        `ScenarioError`; `execute` raises OSError where a capture cannot be written.
        """
    @staticmethod
    def over_quic(
        scenario: Scenario,
        algorithm: str | None,
        seed: int,
        rule: object | None = None,
        qlog: str | os.PathLike[str] | None = None,
    ) -> Run:
        """The same over QUIC; each end of each connection is logged in the folder `qlog`.

        Raises `ScenarioError` also for what is not available over QUIC; `execute` raises OSError
        where a file of `qlog` cannot be written.
        """
    def execute(self) -> Tables:
        """Run to the end, without the GIL.

        Raises `Cancelled` soon after `cancel`, and what the rule raises.
        """
    def samples(self) -> Tables | None:
        """The samples since the last call, with empty tables of totals; None: no answer yet.

        A call asks the run for the answer of the next one, which is there within some 20 ms, from
        another thread than that of `execute`. Those after the last answer are in `execute`'s tables
        alone.
        """
    @property
    def progress(self) -> float:
        """The fraction done, 0 to 1."""
    def cancel(self) -> None:
        """Make `execute` raise `Cancelled`, now or when it is called."""

# ------------------------------------------------------------------ models of theory

class Rounds:
    """The controllers of many users, driven by whole round trips instead of packets."""

    def __new__(cls, algorithms: list[str], paths: list[int], initial_window: float) -> Rounds:
        """Controllers in slow start, one per user, with windows of `initial_window` packets.

        `paths` is the number of paths of each user. Raises `ScenarioError`.
        """
    def windows(self) -> Floats:
        """Congestion windows, packets; an entry per path, user by user."""
    def leave(self, paths: Integers) -> None:
        """Cease to send on each path in `paths`, given by its index in `windows()`.

        Its siblings do not count it until its next round trip has ended.
        """
    def end_round(
        self,
        now: float,
        paths: Integers,
        rtt: Floats,
        queue_delay: Floats,
        lost: NDArray[np.bool_],
    ) -> None:
        """End a round trip of each path in `paths`, given by its index in `windows()`, at `now`.

        The packets of its window were acknowledged after `rtt`, of which `queue_delay` was queueing
        and transmission; where `lost`, there was a loss event among them. All times in s.
        """

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
    ) -> RateAdjustment:
        """The parameters of table I of the paper."""
    def kappa_after(
        self, kappa: float, growth: float, mean_packets: float, load: float, falling: int
    ) -> float:
        """Kappa after a round with this growth (L'), mean buffer and load over expected rate.

        `falling`: rounds in a row with a negative slope, this one included.
        """

def share(
    weights: Sequence[float],
    classes: Sequence[tuple[int, float, float, float | None]],
    count: int,
    seed: int,
) -> Served:
    """Serve `count` files by generalised processor sharing, from an empty start, without the GIL.

    `weights` of the queues. A class of files is (queue, load, mean service time in s, shape): sizes
    are Pareto with this shape, exponential for None, all equal for infinity. Raises `ScenarioError`
    for an unstable queue and for numbers out of range.
    """
