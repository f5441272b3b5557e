"""The named quantities of a paper's tables: each a number that one run gives.

A paper's `experiments.toml` names them; nothing there computes. A new quantity is a function with
`@quantity` in a file of this folder, and a file is a line of the import below.
"""

from anabranch.papers.quantities import (
    fairness,
    gateways,
    rates,
    tails,
    timing,
    transfers,
    window_rates,
    windows,
)
from anabranch.papers.quantities.table import QUANTITIES, measure, quantity

__all__ = [
    "QUANTITIES",
    "fairness",
    "gateways",
    "measure",
    "quantity",
    "rates",
    "tails",
    "timing",
    "transfers",
    "window_rates",
    "windows",
]
