"""The systems of Newton steps: users' blocks are eliminated, whatever the blocks are."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from anabranch.theory.fluid import elimination
from anabranch.theory.fluid.elimination import Elimination


def drawn(seed: int, near: float) -> tuple[sparse.csr_array, np.ndarray]:
    """A matrix of 40 users of 1 to 4 paths and 6 links, and the first path of each user.

    Blocks of every third user are of rank one, and the identity times `near`.
    """
    dice = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(dice.integers(1, 5, 40))]).astype(np.int64)
    paths, links = int(starts[-1]), 6
    matrix = dice.uniform(-1, 1, (paths + links, paths + links))
    matrix[:paths, :paths] = 0
    for user, (begin, end) in enumerate(pairwise(starts)):
        size = end - begin
        block = dice.uniform(-1, 1, (size, size)) + 2 * np.eye(size)
        if user % 3 == 0:
            block = np.ones((size, size)) + near * np.eye(size)
        matrix[begin:end, begin:end] = block
    matrix[paths:, paths:] += 5 * np.eye(links)
    return sparse.csr_array(matrix), starts


@pytest.mark.parametrize("dense", [0, 3000])
@pytest.mark.parametrize("near", [1.0, 1e-9])
@pytest.mark.parametrize("seed", range(5))
def test_a_solution_solves_the_whole_system(
    monkeypatch: pytest.MonkeyPatch, seed: int, near: float, dense: int
) -> None:
    monkeypatch.setattr(elimination, "DENSE_LINKS", dense)
    matrix, starts = drawn(seed, near)
    right = matrix @ np.random.default_rng(seed).uniform(-1, 1, matrix.shape[0])
    solution = Elimination(matrix, starts).solve(right)
    assert matrix @ solution == pytest.approx(right, abs=1e-12)


def test_a_singular_block_is_refused() -> None:
    matrix, starts = drawn(0, 0.0)
    with pytest.raises(RuntimeError, match="block is singular"):
        Elimination(matrix, starts)
