"""Linear systems of a Newton step: users' blocks are eliminated, which leaves one of the links.

A user's windows depend on one another and on the marks of links, never on windows of other users:
the matrix is `[[A, B], [C, E]]`, and A has a small block for each user. The Schur complement
`E - C A^-1 B` has a row for each link, however many users there are.
"""

import warnings
from collections.abc import Callable

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import splu

from anabranch.theory.array import Array
from anabranch.theory.law import blocks

DENSE_LINKS = 3000
"""Links up to which their system is dense: routes over several links fill it."""
MOST_REFINEMENTS = 6
ACCURATE = 1e-13
"""Residual of a solution, over the right side, below which it is not refined."""


class Elimination:
    """Factors of a matrix of paths and links.

    Where a rule leaves a user's split open its block is nearly singular, so solutions are refined
    with the whole matrix. Raises `RuntimeError` where a block or the complement is singular.
    """

    def __init__(self, matrix: sparse.csr_array, starts: Array) -> None:
        self._matrix, paths = matrix, int(starts[-1])
        self._paths = paths
        upper, lower = matrix[:paths], matrix[paths:]
        self._inverse = _inverse(sparse.csr_array(upper[:, :paths]), starts)
        self._lower = sparse.csr_array(lower[:, :paths])
        self._by_link = sparse.csr_array(self._inverse @ upper[:, paths:])
        self._solve_links = _solver(lower[:, paths:] - self._lower @ self._by_link)

    def solve(self, right: Array) -> Array:
        """The solution for a right side."""
        solution = self._once(right)
        left = right - self._matrix @ solution
        size = float(np.abs(left).max(initial=0.0))
        enough = ACCURATE * float(np.abs(right).max(initial=0.0))
        for _ in range(MOST_REFINEMENTS):
            if size <= enough:
                break
            better = solution + self._once(left)
            left = right - self._matrix @ better
            before, size = size, float(np.abs(left).max(initial=0.0))
            if not size < before:
                break
            solution = better
        return solution

    def _once(self, right: Array) -> Array:
        of_paths = self._inverse @ right[: self._paths]
        of_links = self._solve_links(right[self._paths :] - self._lower @ of_paths)
        return np.concatenate([of_paths - self._by_link @ of_links, of_links])


def _inverse(matrix: sparse.csr_array, starts: Array) -> sparse.csr_array:
    """The inverse of a matrix with a block for each user."""
    sizes = np.diff(starts)
    first = np.concatenate([[0], np.cumsum(sizes**2)])
    found = matrix.tocoo()
    user = np.repeat(np.arange(len(sizes)), sizes)[found.row]
    place = (found.row - starts[user]) * sizes[user] + found.col - starts[user]
    values = np.zeros(first[-1])
    values[first[user] + place] = found.data
    for size in np.unique(sizes).tolist():
        of_size = first[:-1][sizes == size][:, None] + np.arange(size**2)
        try:
            inverse = np.linalg.inv(values[of_size].reshape(-1, size, size))
        except np.linalg.LinAlgError:
            raise RuntimeError("a user's block is singular") from None
        values[of_size] = inverse.reshape(-1, size**2)
    return blocks(starts, values)


def _solver(matrix: sparse.csr_array) -> Callable[[Array], Array]:
    """The solution of the links' system as a function of its right side."""
    if matrix.shape[0] > DENSE_LINKS:
        sparse_factors = splu(sparse.csc_array(matrix))
        return lambda right: np.asarray(sparse_factors.solve(right))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", linalg.LinAlgWarning)
        factors = linalg.lu_factor(matrix.toarray(), check_finite=False)
    return lambda right: np.asarray(linalg.lu_solve(factors, right, check_finite=False))
