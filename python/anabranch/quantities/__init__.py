"""The quantities in a paper's tables: functions from one run to a number.

A paper's `experiments.toml` refers to them by name. A new quantity is a function with `@quantity`
in a file of this folder; a new file needs a line in the import below.
"""

from anabranch.quantities import congestion, fairness, rates, tails, windows
from anabranch.quantities.table import QUANTITIES, measure, quantity

__all__ = [
    "QUANTITIES",
    "congestion",
    "fairness",
    "measure",
    "quantity",
    "rates",
    "tails",
    "windows",
]
