"""Alpha-fair utilities of a user's rate."""

from dataclasses import dataclass

import numpy as np

from anabranch.scenario import ScenarioError
from anabranch.theory.array import Array


@dataclass(frozen=True)
class AlphaFair:
    """`U(y) = y^(1 - alpha) / (1 - alpha)`, and `log y` where alpha is 1.

    Mo and Walrand, "Fair end-to-end window-based congestion control", 2000. alpha = 0
    maximises the total rate, 1 is proportional fairness, 2 is the utility of TCP's square-root
    formula, and a large alpha approximates max-min fairness.
    """

    alpha: float = 1.0

    @classmethod
    def parse(cls, text: str) -> "AlphaFair":
        """Read "log" or "alpha=2"; raises `ScenarioError`."""
        if text == "log":
            return cls(1.0)
        name, _, value = text.partition("=")
        try:
            alpha = float(value) if name == "alpha" else -1.0
        except ValueError:
            alpha = -1.0
        if not 0 <= alpha <= LARGEST_ALPHA:
            raise ScenarioError(
                f"utility {text!r}: expected log, or alpha=A with A from 0 to {LARGEST_ALPHA:g}"
            )
        return cls(alpha)

    def value(self, rate: Array) -> Array:
        """U; -inf at a rate of 0 where alpha >= 1."""
        with np.errstate(divide="ignore"):
            if self.alpha == 1:
                return np.asarray(np.log(rate))
            return np.asarray(rate ** (1 - self.alpha) / (1 - self.alpha))

    def slope(self, rate: Array) -> Array:
        """U', the price at which a user has this rate."""
        return np.asarray(rate**-self.alpha)

    def curvature(self, rate: Array) -> Array:
        """-U''."""
        return np.asarray(self.alpha * rate ** (-self.alpha - 1))

    def demand(self, price: Array) -> Array:
        """The rate at which U' is this price; for alpha > 0."""
        return np.asarray(price ** (-1 / self.alpha))

    def __str__(self) -> str:
        return "log" if self.alpha == 1 else f"alpha={self.alpha:g}"


LARGEST_ALPHA = 8.0
"""Beyond it the slopes of rates a hundredfold apart differ by more than a double resolves."""
