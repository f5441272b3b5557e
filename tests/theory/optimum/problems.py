"""Networks whose optimum is known or sought, shared by the tests of theory/optimum."""

import numpy as np
from hypothesis import strategies as st
from scipy import sparse

from anabranch.theory.optimum.maximise import Problem

TWO_LINKS = """
name = "two links"
algorithm = "lia"
[measure]
duration_s = 60
[tcp]
packet_bytes = 1000
header_bytes = 0
[links.top]
rate_mbps = 6
delay_ms = 20
[links.bottom]
rate_mbps = 9
delay_ms = 20
[[flows]]
name = "both"
paths = [["top"], ["bottom"]]
[[flows]]
name = "above"
paths = [["top"]]
[[flows]]
name = "below"
paths = [["bottom"]]
"""


def problem(
    capacity: list[float], paths: list[list[int]], users: list[int], floor: float = 0
) -> Problem:
    """Paths as lists of links; users as numbers of paths."""
    routes = np.zeros((len(capacity), len(paths)))
    for path, crossed in enumerate(paths):
        routes[crossed, path] = 1
    sums = np.repeat(np.eye(len(users)), users, axis=1)
    return Problem(
        capacity=np.array(capacity, dtype=float),
        routes=sparse.csr_array(routes),
        sums=sparse.csr_array(sums),
        weight=np.ones(len(users)),
        floor=np.full(len(paths), float(floor)),
        links=[f"link {i}" for i in range(len(capacity))],
        users=[f"flow {i}" for i in range(len(users))],
    )


@st.composite
def networks(draw):
    """Up to 6 links and 6 users with up to 3 paths of up to 3 links."""
    links = draw(st.integers(1, 6))
    capacity = draw(st.lists(st.floats(0.5, 100), min_size=links, max_size=links))
    path = st.lists(st.integers(0, links - 1), min_size=1, max_size=3, unique=True)
    users = draw(st.lists(st.integers(1, 3), min_size=1, max_size=6))
    paths = [draw(path) for _ in range(sum(users))]
    return problem(capacity, paths, users, draw(st.sampled_from([0, 0.01])))
