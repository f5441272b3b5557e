"""A rule as a law of windows, through the bindings."""

import subprocess
import sys

import numpy as np
import pytest

from anabranch.theory.law import Law, States


def test_phi_of_lia_by_hand():
    # Rates 100 and 100, sum 200; max w/tau^2 is 1000. I = min(1000/200^2, 1/w) = 0.025 for both,
    # D = w/2.
    states = States.of_user([10, 20], [0.1, 0.2])
    assert Law("lia").phi(states) == pytest.approx([0.025 / 5, 0.025 / 10])


@pytest.mark.parametrize("spec", ["reno", "ewtcp", "coupled", "semicoupled", "balia", "rsf-db"])
@pytest.mark.parametrize("wrt", ["window", "rtt", "queue_delay"])
def test_derivatives_are_those_of_differences(spec, wrt):
    law = Law(spec)
    states = States.of_user([10, 23, 5], [0.1, 0.2, 0.07], [0.08, 0.06, 0.055])
    exact = law.phi_derivatives(states, wrt).toarray()
    for k in range(3):
        step = np.zeros(3)
        step[k] = 1e-6
        column = getattr(states, wrt)
        above = law.phi(_with(states, wrt, column + step))
        below = law.phi(_with(states, wrt, column - step))
        assert exact[:, k] == pytest.approx((above - below) / 2e-6, rel=1e-4, abs=1e-7)


def _with(states, field, values):
    columns = vars(states) | {field: values}
    return States(**columns)


def test_users_are_independent():
    one = States.of_user([10, 20], [0.1, 0.2])
    starts = np.array([0, 2, 3, 5])
    both = [np.concatenate([column, column[:1], column]) for column in one.columns()[1:]]
    law = Law("balia")
    all_three = States(starts, *both)
    assert law.phi(all_three)[3:] == pytest.approx(law.phi(one))
    jacobian = law.phi_derivatives(all_three, "window").toarray()
    assert jacobian[3:, 3:] == pytest.approx(law.phi_derivatives(one, "window").toarray())
    assert not jacobian[:3, 3:].any()
    assert not jacobian[2, :2].any()


def test_columns_of_wrong_length_are_errors():
    states = States.of_user([10, 20], [0.1, 0.2])
    with pytest.raises(ValueError, match="columns differ in length"):
        Law("lia").phi(_with(states, "rtt", np.array([0.1])))
    with pytest.raises(ValueError, match="starts must rise from 0"):
        Law("lia").phi(_with(states, "starts", np.array([0, 1])))


SCRIPT = """
import pkgutil
import sys
from importlib import import_module

REFUSED = {"typer", "click", "rich", "matplotlib"}

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in REFUSED:
            raise ModuleNotFoundError(f"{name} is not installed", name=name)

sys.meta_path.insert(0, Refuse())
import anabranch.theory
for module in pkgutil.walk_packages(anabranch.theory.__path__, "anabranch.theory."):
    import_module(module.name)
    print(module.name)
"""


def test_theory_needs_neither_typer_nor_rich_nor_matplotlib() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "anabranch.theory.network" in done.stdout.split()
    assert len(done.stdout.split()) > 20
