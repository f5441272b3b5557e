"""The Jacobian of Phi in the rates, user by user, and its properties."""

import numpy as np

from anabranch.theory.array import Array
from anabranch.theory.guarantees.random_states import by_user
from anabranch.theory.law import Law, States

SINGULAR = 1e-9
"""A scaled Jacobian is singular if smallest over largest singular value is below this."""


def phi_jacobian(law: Law, states: States) -> Array:
    """dPhi/dx of each user, with the RTTs held: users by paths by paths, s/packet.

    All users have the same number of paths. As `w_k = x_k tau_k`, column k of the derivative in
    the windows is multiplied by `tau_k`.
    """
    users, paths = len(states.starts) - 1, int(states.starts[1])
    sparse = law.phi_derivatives(states, "window").tocoo()
    blocks = np.zeros((users, paths, paths))
    blocks[sparse.row // paths, sparse.row % paths, sparse.col % paths] = sparse.data
    return np.asarray(blocks * by_user(states, states.rtt)[:, None, :])


def symmetric_part(jacobian: Array) -> Array:
    """`[J]^+ = (J + J')/2` of each."""
    return np.asarray((jacobian + jacobian.transpose(0, 2, 1)) / 2)


def scaled(jacobian: Array) -> tuple[Array, Array]:
    """`S J S` with a diagonal S > 0 that makes the diagonal +-1, and S as rows.

    A congruence: it keeps definiteness, and brings paths of very different rates to one size.
    """
    diagonal = np.abs(np.diagonal(jacobian, axis1=1, axis2=2))
    scale = 1 / np.sqrt(np.maximum(diagonal, 1e-300))
    return jacobian * scale[:, :, None] * scale[:, None, :], scale


def largest_eigenvalue(jacobian: Array) -> Array:
    """Largest eigenvalue of the scaled symmetric part: below 0 exactly where the symmetric part is
    negative definite.

    1 where a diagonal entry isn't negative, which already rules that out.
    """
    rising = (np.diagonal(jacobian, axis1=1, axis2=2) >= 0).any(axis=1)
    eigenvalues = np.linalg.eigvalsh(scaled(symmetric_part(jacobian))[0])
    return np.where(rising, np.maximum(1.0, eigenvalues[:, -1]), eigenvalues[:, -1])


def asymmetry(jacobian: Array) -> Array:
    """Largest `|J_rk - J_kr|` over the largest entry."""
    difference = np.abs(jacobian - jacobian.transpose(0, 2, 1)).max(axis=(1, 2))
    return np.asarray(difference / np.abs(jacobian).max(axis=(1, 2)))


def column_sums_of_inverse(jacobian: Array) -> tuple[Array, Array]:
    """`1' D` with `D = J^-1`: the derivative of the total rate in the price of each path.

    Where J is singular, the least solution of `z' J = 1'`, which is the same where it exists; the
    second value is its residual (0 elsewhere).
    """
    matrix, scale = scaled(jacobian)
    v = np.linalg.pinv(matrix.transpose(0, 2, 1), rcond=SINGULAR) @ scale[:, :, None]
    missed = matrix.transpose(0, 2, 1) @ v - scale[:, :, None]
    size = np.abs(scale).max(axis=1)
    return v[:, :, 0] * scale, np.abs(missed[:, :, 0]).max(axis=1) / size


def regular(jacobian: Array) -> Array:
    """Mask of the Jacobians that are numerically regular."""
    singular_values = np.linalg.svd(scaled(jacobian)[0], compute_uv=False)
    return np.asarray(singular_values[:, -1] > SINGULAR * singular_values[:, 0])
