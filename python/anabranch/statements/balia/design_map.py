"""The design space of Balia's family (12): measures over beta, eta and norm; the Pareto front."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from anabranch.runner import Progress
from anabranch.theory.array import Array
from anabranch.theory.guarantees.performance import Measures, Sharing, sharing
from anabranch.theory.law import Law

NORMS = ("1", "2", "inf")
BETAS = np.linspace(0, 1, 41) ** 2
"""Closer together near 0, where they matter most."""
ETAS = np.linspace(0, 2, 41)

MEMBERS: dict[str, list[tuple[str, float, float]]] = {
    "coupled": [(norm, 0.0, 0.0) for norm in NORMS],
    "semicoupled": [("1", 1.0, 0.0)],
    "lia": [("inf", 1.0, 0.0)],
    "generalized": [("inf", 0.2, 0.5)],
}
"""The rules that the family contains at equal RTTs (Balia, IV-B): norm, beta, eta."""

OTHERS = ("ewtcp", "balia", "balia:cap=inf")
"""Rules outside the family whose phi is a function of the rates."""


@dataclass(frozen=True)
class Map:
    """The measures over norms by betas by etas, and of the named rules."""

    measures: dict[str, Array]
    """Measures of the designs, by the names of `Measures`' fields."""
    front: Array
    """Mask of the Pareto front: no design is as good in all three measures and better in one."""
    rules: dict[str, Measures]

    def as_dict(self) -> dict[str, Any]:
        return {
            "norms": list(NORMS),
            "betas": BETAS.tolist(),
            "etas": ETAS.tolist(),
            "measures": {name: values.tolist() for name, values in self.measures.items()},
            "pareto_front": self.front.tolist(),
            "rules": {name: asdict(measures) for name, measures in self.rules.items()},
        }


def design_map(progress: Progress | None = None) -> Map:
    """Measure every design of the grid and every named rule in the network of figure 2."""
    cells: list[Measures] = []
    for i, norm in enumerate(NORMS):
        for j, beta in enumerate(BETAS):
            if progress:
                progress((i + j / len(BETAS)) / len(NORMS))
            # The equilibrium depends on phi, which has no eta.
            at = sharing(_spec(norm, beta, 0.0))
            for eta in ETAS:
                law = Law(_spec(norm, beta, eta))
                cells.append(Measures.of(Sharing(law, at.multipath, at.reno)))
    shape = (len(NORMS), len(BETAS), len(ETAS))
    measures = {
        name: np.array([getattr(cell, name) for cell in cells]).reshape(shape)
        for name in Measures.__dataclass_fields__
    }
    rules = {name: Measures.of(sharing(name)) for name in (*MEMBERS, *OTHERS)}
    return Map(measures, _front(measures), rules)


def gains(measures: dict[str, Array]) -> tuple[Array, Array, Array]:
    """The measures, signed so that more is better."""
    return (
        measures["friendliness"],
        measures["responsiveness_per_s"],
        -measures["oscillation"],
    )


def _front(measures: dict[str, Array]) -> Array:
    points = np.stack([values.ravel() for values in gains(measures)], axis=1)
    points = np.round(points, 9)  # the same design under three norms is no better than itself
    beaten = np.array(
        [((points >= point).all(axis=1) & (points > point).any(axis=1)).any() for point in points]
    )
    return np.asarray(~beaten.reshape(measures["friendliness"].shape))


def _spec(norm: str, beta: float, eta: float) -> str:
    return f"generalized:beta={beta:.6g}:eta={eta:.6g}:norm={norm}"
