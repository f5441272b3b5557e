"""Two rules compared at each state: whose phi is larger, whose Jacobian is more negative."""

import numpy as np

from anabranch.theory.array import Array
from anabranch.theory.guarantees import counterexamples, random_states
from anabranch.theory.guarantees.check import PATHS, SEED, Counterexample
from anabranch.theory.guarantees.conditions import ROUNDING, Test, numbers
from anabranch.theory.guarantees.jacobian import phi_jacobian, symmetric_part
from anabranch.theory.law import Law, States


def phi_at_least(upper: str, lower: str) -> Test:
    """Test that phi of `upper`, the law that is tested, is nowhere below phi of `lower`."""
    other = Law(lower)

    def violation(law: Law, states: States) -> Array:
        shortfall = 1 - law.phi(states) / other.phi(states)
        return np.asarray(random_states.by_user(states, shortfall).max(axis=1) - ROUNDING)

    def why(law: Law, states: States) -> str:
        return (
            f"phi of {law.name} is {numbers(law.phi(states))}, "
            f"of {other.name} {numbers(other.phi(states))}"
        )

    return Test(violation, why)


def jacobian_at_most(lower: str, upper: str) -> Test:
    """Test that `[dPhi/dx]^+` of `lower`, the law that is tested, minus `upper`'s is negative
    semidefinite everywhere.
    """
    other = Law(upper)

    def violation(law: Law, states: States) -> Array:
        rate = random_states.by_user(states, states.rate)
        scale = rate[:, :, None] * rate[:, None, :]  # a congruence: see jacobian.scaled
        mine, theirs = phi_jacobian(law, states) * scale, phi_jacobian(other, states) * scale
        size = np.abs(mine).max(axis=(1, 2)) + np.abs(theirs).max(axis=(1, 2))
        eigenvalues = np.linalg.eigvalsh(symmetric_part(mine - theirs))
        return np.asarray(eigenvalues[:, -1] / size - ROUNDING)

    def why(law: Law, states: States) -> str:
        difference = phi_jacobian(law, states) - phi_jacobian(other, states)
        eigenvalues = np.linalg.eigvalsh(symmetric_part(difference)[0])
        return (
            f"the eigenvalues of [dPhi/dx]^+ of {law.name} minus that of {other.name} "
            f"are {numbers(eigenvalues)}"
        )

    return Test(violation, why)


def compare(
    test: Test, spec: str, rtt_ratio: float = 1.0, users: int = 500, seed: int = SEED
) -> tuple[int, Counterexample | None]:
    """How many states were tried, and one where the order fails."""
    law, tried = Law(spec), 0
    for n in PATHS:
        drawn = random_states.draw(n, users, rtt_ratio, np.random.default_rng([seed, n]))
        number, bad = counterexamples.violators(test, law, drawn)
        tried += number
        if bad:
            example = counterexamples.readable(test, law, bad, rtt_ratio)
            return tried, Counterexample.of(test, law, example)
    return tried, None
