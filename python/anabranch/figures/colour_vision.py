"""The difference of two colours for full colour vision and without one kind of cone."""

import numpy as np
from matplotlib.colors import to_rgb

DEFICIENCIES = {
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
"""Parts of linear RGB that are seen: G. M. Machado, M. M. Oliveira and L. A. F. Fernandes, "A
Physiologically-based Model for Simulation of Color Vision Deficiency", IEEE Transactions on
Visualization and Computer Graphics 15(6), 2009; the matrices of severity 1.0."""

XYZ = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
"""From linear RGB, IEC 61966-2-1 (sRGB), with the white point D65."""


APART = 15.0
"""The least `apart` of two colours of figures: at a glance they are not confused."""


def apart(one: np.ndarray, other: np.ndarray) -> float:
    """The CIE 1976 difference of two colours as `seen`: the least over all kinds of vision."""
    return float(np.linalg.norm(one - other, axis=1).min())


def seen(colour: str) -> np.ndarray:
    """CIE 1976 L*a*b*: a row for full vision, then one for each of `DEFICIENCIES`."""
    encoded = np.array(to_rgb(colour))
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    visions = [np.eye(3), *map(np.array, DEFICIENCIES.values())]
    return np.array([_lab(np.clip(vision @ linear, 0, 1)) for vision in visions])


def _lab(linear: np.ndarray) -> np.ndarray:
    to_xyz = np.array(XYZ)
    relative = to_xyz @ linear / to_xyz.sum(axis=1)
    edge = 6 / 29
    x, y, z = np.where(relative > edge**3, np.cbrt(relative), relative / (3 * edge**2) + 4 / 29)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])
