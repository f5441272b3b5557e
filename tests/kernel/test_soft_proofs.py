"""Proofs of soft.h: what they prove, that they find errors, and that they execute what runs."""

import os
import random
import shutil
from pathlib import Path

import pytest
import z3

import built
import claims
import exact
import soft
from bpf import Program
from claims import A, B
from decide import PROVED, REFUTED, check
from ir import Module
from mutants import MUTANTS, Mutant
from terms import exactly, value

NAMES = [one.name for one in soft.FUNCTIONS]
QUICK = ["soft_div", "soft_less", "soft_max", "soft_to_fixed"]
QUICK_MUTANTS = ["soft_less", "soft_max"]
TIMEOUT_S = 300.0
FAR_APART = "exponents 64 apart"

pytestmark = pytest.mark.skipif(
    not (shutil.which("clang") and shutil.which("cc"))
    and "ANABRANCH_REQUIRE_KERNEL" not in os.environ,
    reason="clang or cc is not installed",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("soft")


@pytest.fixture(scope="module")
def program(folder: Path) -> Program:
    return Program(built.bpf(built.SOFT, folder))


@pytest.fixture(scope="module")
def rust(folder: Path) -> Module:
    return Module(built.ir(folder))


def words(count: int, seed: int) -> list[int]:
    """Zero, extremes, and normal numbers of any exponent, many of them near each other."""
    draw = random.Random(seed)

    def word() -> int:
        e = draw.choice([draw.randrange(1 << 16), 32700 + draw.randrange(80), 0, 0xFFFF])
        m = 1 << 31 | draw.choice([draw.getrandbits(31), 0, (1 << 31) - 1, draw.getrandbits(3)])
        return draw.choice([0, exact.SIGN]) | e << 32 | m

    return [0, exact.LARGEST, *(word() for _ in range(count))]


def evaluated(term: z3.BitVecRef, a: int, b: int) -> int:
    """A term at these arguments; its products and quotients are computed from inside out."""
    at = [(A, z3.BitVecVal(a, 64)), (B, z3.BitVecVal(b, 64))]
    formula = z3.substitute(z3.BitVec("r", 64) == term, *at)
    solver = z3.Solver()
    solver.add(formula, *exactly(formula))
    assert solver.check() == z3.sat
    return int(solver.model().eval(z3.BitVec("r", 64)).as_long())


@pytest.mark.parametrize("name", NAMES)
def test_the_executed_instructions_compute_what_the_compiled_c_does_and_the_exact_result(
    name: str, program: Program, folder: Path
):
    call, term = built.native(built.SOFT, folder), value(program.run(name, [A, B]))
    numbers = words(6, 1)
    if name == "soft_scaled":
        pairs = [(a >> 7, b & 0xFF) for a, b in zip(numbers, numbers[::-1], strict=True)]
    else:
        pairs = [*zip(numbers, numbers[::-1], strict=True), (numbers[5], numbers[5])]
    for a, b in pairs:
        mask = 0xFFFF_FFFF if name in ("soft_less", "soft_at_least") else (1 << 64) - 1
        expected = exact.result(name, a, b)
        assert call(name, a, b) == expected, (hex(a), hex(b))
        assert evaluated(term, a, b) & mask == expected, (hex(a), hex(b))


@pytest.mark.parametrize("name", QUICK)
def test_a_function_is_exact_but_for_its_rounding_for_all_inputs(name: str, program: Program):
    functions = [one for one in soft.FUNCTIONS if one.name == name]
    verdicts = list(soft.prove(functions, program, None, TIMEOUT_S))
    assert len(verdicts) >= 2
    assert {one.result for one in verdicts} == {PROVED}, verdicts


def test_a_sum_is_the_nearest_number_of_numbers_that_are_far_apart(program: Program):
    paths = program.run("soft_add", [A, B])
    some = [one for one in claims.sums() if one.name in ("b = 0", FAR_APART)]
    assert len(some) == 2
    assert check("soft_add", soft.NEAREST, paths, some, TIMEOUT_S).result == PROVED


@pytest.mark.parametrize("name", ["soft_mul", "soft_div", "soft_less", "soft_min"])
def test_c_and_rust_are_equal_for_all_inputs(name: str, program: Program, rust: Module):
    (function,) = (one for one in soft.FUNCTIONS if one.name == name)
    paths, there = program.run(name, [A, B]), rust.run(name, [A, B])
    verdicts = list(soft.equal(function, paths, there, TIMEOUT_S))
    assert [one.result for one in verdicts] == [PROVED, PROVED]


@pytest.mark.parametrize(
    "mutant",
    {one.function: one for one in MUTANTS if one.function in QUICK_MUTANTS}.values(),
    ids=str,
)
def test_an_error_is_refuted_with_an_input_at_which_the_code_is_wrong(
    mutant: Mutant, tmp_path: Path
):
    found = soft.refute(mutant, tmp_path, TIMEOUT_S)
    assert found.verdict.result == REFUTED
    assert found.got != found.expected


def test_a_division_by_zero_is_found(tmp_path: Path):
    guard = "\tif (!b)\n\t\treturn sign | SOFT_LARGEST;\n\tshift"
    mutant = Mutant("soft_div", "no check of the divisor", guard, "\tshift")
    verdict = soft.refute(mutant, tmp_path, TIMEOUT_S, run=False).verdict
    assert (verdict.property, verdict.result) == (soft.DEFINED, REFUTED)
    assert verdict.counterexample
    assert verdict.counterexample[1] == 0


def test_a_difference_between_c_and_rust_is_found(program: Program, rust: Module):
    (function,) = (one for one in soft.FUNCTIONS if one.name == "soft_max")
    paths, there = program.run("soft_max", [A, B]), rust.run("soft_min", [A, B])
    equal, _ = soft.equal(function, paths, there, TIMEOUT_S)
    assert equal.result == REFUTED


@pytest.mark.slow
def test_every_claim_of_every_function_is_proved(program: Program, rust: Module):
    verdicts = list(soft.prove(soft.FUNCTIONS, program, rust, TIMEOUT_S))
    assert [one for one in verdicts if one.result != PROVED] == []


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_every_error_is_refuted(mutant: Mutant, tmp_path: Path):
    assert soft.refute(mutant, tmp_path, TIMEOUT_S).confirmed
