"""The values of a sweep: lists, ranges and samples.

The notation is that of `--over KEY=...` and, in Python, of a string in place of a list:

- `5,10,20`: these values, each in TOML; text that is not TOML is a string;
- `lin(5,50,10)`: 10 values from 5 to 50, equally spaced; `log(1,100,9)`: on a logarithmic scale;
- `int(1,8)`: the integers from 1 to 8;
- `lin(5,50)`, `log(1,100)`: an interval, for samples and thresholds; `int(1,8)` is one, too.
"""

import itertools
import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anabranch.scenario import ScenarioError, Toml

Values = Sequence[Any] | str
METHODS = ("lhs", "sobol")
MOST_POINTS = 100_000

_CALL = re.compile(r"(lin|log|int)\((.*)\)")


@dataclass(frozen=True)
class Interval:
    """The values from `low` to `high`, on the scale "lin", "log" or "int" (integers)."""

    low: float
    high: float
    scale: str

    def at(self, share: float) -> float | int:
        """The value at this share of the interval, 0 to 1."""
        if self.scale == "int":
            count = int(self.high - self.low) + 1
            return int(self.low) + min(int(share * count), count - 1)
        if self.scale == "log":
            return _rounded(self.low * (self.high / self.low) ** share)
        return _rounded(self.low + (self.high - self.low) * share)

    def values(self, count: int) -> list[float | int]:
        """Values of a range: `count` of them, equally spaced, both ends included."""
        values = [self.at(i / (count - 1)) for i in range(count)]
        return [int(v) for v in values] if all(float(v).is_integer() for v in values) else values

    def integers(self) -> list[int]:
        """Each integer of the interval."""
        return list(range(int(self.low), int(self.high) + 1))

    def middle(self, low: float, high: float) -> float | int | None:
        """A value between two others, half way on this scale; None between adjacent integers."""
        if self.scale == "int":
            return (int(low) + int(high)) // 2 if high - low > 1 else None
        return _rounded(math.sqrt(low * high) if self.scale == "log" else (low + high) / 2)


Axis = Interval | list[Any]


def axes(over: Mapping[str, Values]) -> dict[str, Axis]:
    """Range or list of each key. Raises `ScenarioError` that names the key."""
    return {key: _axis(key, values) for key, values in over.items()}


def points(
    over: Mapping[str, Values], sample: int | None = None, method: str = "lhs"
) -> list[dict[str, Any]]:
    """The values of each point, by key: every combination of the lists and of the samples.

    `sample`: draw so many points from the box of the intervals, by `method`: "lhs", a Latin
    hypercube, or "sobol", a scrambled Sobol sequence (scipy.stats.qmc). The generator has a fixed
    seed: the same intervals give the same points. Raises `ScenarioError`.

    >>> points({"a": [1, 2], "b": "lin(0,1,3)"})[:2]
    [{'a': 1, 'b': 0.0}, {'a': 1, 'b': 0.5}]
    >>> [point["a"] for point in points({"a": "log(1,100,3)"})]
    [1, 10, 100]
    """
    found = axes(over)
    if sample is None:
        lists = {key: _all_of(key, axis) for key, axis in found.items()}
        drawn: list[dict[str, Any]] = [{}]
    else:
        lists = {key: axis for key, axis in found.items() if isinstance(axis, list)}
        intervals = {key: axis for key, axis in found.items() if isinstance(axis, Interval)}
        drawn = _drawn(intervals, sample, method)
    count = math.prod(map(len, lists.values())) * len(drawn)
    if count > MOST_POINTS:
        raise ScenarioError(f"a sweep of {count} points: expected at most {MOST_POINTS}")
    combinations = itertools.product(*lists.values())
    merged = (
        dict(zip(lists, values, strict=True)) | draw for values in combinations for draw in drawn
    )
    return [{key: point[key] for key in found} for point in merged]


def _all_of(key: str, axis: Axis) -> list[Any]:
    if isinstance(axis, list):
        return axis
    if axis.scale == "int":
        return axis.integers()
    bounds = f"{axis.low:g},{axis.high:g}"
    raise ScenarioError(
        f"{key}: {axis.scale}({bounds}) is an interval: give the number of values as in "
        f"{axis.scale}({bounds},10), or the number of samples (--sample 32)"
    )


def _drawn(intervals: Mapping[str, Interval], sample: int, method: str) -> list[dict[str, Any]]:
    from scipy.stats import qmc

    if method not in METHODS:
        raise ScenarioError(f"method {method!r}: expected {' or '.join(METHODS)}")
    if not 1 <= sample <= MOST_POINTS:
        raise ScenarioError(f"sample = {sample}: expected 1 to {MOST_POINTS}")
    if not intervals:
        raise ScenarioError("samples need an interval, such as lin(5,50), log(1,100) or int(1,8)")
    generator = np.random.default_rng(0)
    if method == "lhs":
        shares = qmc.LatinHypercube(len(intervals), seed=generator).random(sample)
    else:
        if sample & (sample - 1):
            below = 1 << sample.bit_length() - 1
            raise ScenarioError(
                f"sample = {sample}: a Sobol sequence needs a power of 2, {below} or {2 * below}"
            )
        shares = qmc.Sobol(len(intervals), seed=generator).random(sample)
    return [
        {
            key: axis.at(float(share))
            for (key, axis), share in zip(intervals.items(), row, strict=True)
        }
        for row in shares
    ]


def _axis(key: str, values: Values) -> Axis:
    if key in ("algorithm", "seeds"):
        raise ScenarioError(f"{key} is not swept as a value: use --{key}, or {key}= in Python")
    if isinstance(values, str):
        call = _CALL.fullmatch(values.strip())
        found: Axis = _range(key, *call.groups()) if call else _listed(key, values)
    elif isinstance(values, Iterable):
        found = values.tolist() if isinstance(values, np.ndarray) else list(values)
    else:
        raise ScenarioError(
            f"{key} = {values!r}: expected a list of values, or text as lin(5,50,10)"
        )
    if isinstance(found, list):
        if not found:
            raise ScenarioError(f"{key}: no value given, expected at least one")
        if twice := next((v for i, v in enumerate(found) if v in found[:i]), None):
            raise ScenarioError(f"{key}: the value {twice} is there twice")
    return found


def _range(key: str, scale: str, inside: str) -> Axis:
    written = f"{key}: {scale}({inside})"
    parts = inside.split(",")
    try:
        low, high = float(parts[0]), float(parts[1])
        count = int(parts[2]) if len(parts) > 2 else None
    except (ValueError, IndexError):
        raise ScenarioError(f"{written}: expected numbers, as in {scale}(1,100)") from None
    if len(parts) > 3 or (scale == "int" and count is not None):
        raise ScenarioError(f"{written}: too many numbers, expected {scale}(FROM,TO...)")
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ScenarioError(f"{written}: expected two finite numbers, the smaller one first")
    if scale == "log" and low <= 0:
        raise ScenarioError(f"{written}: a logarithmic scale needs numbers above 0")
    if scale == "int" and not (low.is_integer() and high.is_integer()):
        raise ScenarioError(f"{written}: expected integers")
    if count is not None and not 2 <= count <= MOST_POINTS:
        raise ScenarioError(f"{written}: expected 2 to {MOST_POINTS} values")
    interval = Interval(low, high, scale)
    return interval if count is None else interval.values(count)


def _listed(key: str, text: str) -> list[Any]:
    values = [part.strip() for part in _split(text)]
    if "" in values:
        raise ScenarioError(f"{key}={text}: expected values separated by commas, as in 5,10,20")
    return [_value(part) for part in values]


def _split(text: str) -> Iterator[str]:
    """The parts between the commas that are outside of brackets, braces and quotes."""
    part, depth, quote = "", 0, ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        depth += (char in "[{") - (char in "]}") if not quote else 0
        if char == "," and depth == 0 and not quote:
            yield part
            part = ""
        else:
            part += char
    yield part


def _value(text: str) -> Any:
    """A number, a truth value or a string; arrays and tables stay TOML text."""
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return Toml(text)
    return value if isinstance(value, bool | int | float | str) else Toml(text)


def _rounded(value: float) -> float:
    """To 12 significant digits, so that 0.1 + 0.2 is 0.3."""
    return float(f"{value:.12g}")
