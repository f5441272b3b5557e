"""Small matrices of rational functions."""

from collections.abc import Sequence

from sympy.polys.fields import FracElement

Matrix = Sequence[Sequence[FracElement]]


def determinant(matrix: Matrix) -> FracElement:
    """Expansion along the first row."""
    if len(matrix) == 1:
        return matrix[0][0]
    terms = [
        (-1) ** k * entry * determinant(_without(matrix, 0, k))
        for k, entry in enumerate(matrix[0])
        if entry != 0
    ]
    return sum(terms, matrix[0][0].field.zero)


def adjugate(matrix: Matrix) -> tuple[Matrix, FracElement]:
    """The inverse times the determinant, and the determinant."""
    n = len(matrix)
    if n == 1:
        return [[matrix[0][0].field.one]], matrix[0][0]
    minors = [[determinant(_without(matrix, k, r)) for k in range(n)] for r in range(n)]
    signed = [[(-1) ** (r + k) * minors[r][k] for k in range(n)] for r in range(n)]
    return signed, determinant(matrix)


def total(matrix: Matrix) -> FracElement:
    """The sum of all entries."""
    return sum((entry for row in matrix for entry in row), matrix[0][0].field.zero)


def _without(matrix: Matrix, row: int, column: int) -> Matrix:
    return [
        [entry for k, entry in enumerate(entries) if k != column]
        for r, entries in enumerate(matrix)
        if r != row
    ]
