"""Proves the arithmetic of soft.h for all inputs, from the BPF instructions that the kernel loads.

    python crates/kernel/proofs/soft.py                   # every function
    python crates/kernel/proofs/soft.py --only soft_mul   # one of them
    python crates/kernel/proofs/soft.py --mutants         # errors that it must find

Needs clang, rustc, and of Anabranch's extra `prove` z3; pyelftools. Exit code 1 if something is not
proved, or with --mutants an error is not found.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path as File

import z3

import built
import claims
from bpf import Program
from claims import A, B, Case, valid
from decide import PROVED, REFUTED, Verdict, check, check_duties
from exact import result
from ir import Module
from mutants import MUTANTS, Mutant
from terms import Path, value

TIMEOUT_S = 300.0
"""Time for one case; what is not decided then is unknown."""

NEAREST = "nearest, ties away from zero, saturated"
WITHIN = "relative error at most 2^-32"
TRUNCATED = "rounded towards zero, saturated"
ORDERED = "the order of the values"
AS_SUM = "soft_add of a and -b"
COMMUTES = "soft_add of b and a"
DEFINED = "no division by 0, no shift too far"
EQUAL = "equal to Rust"
NO_PANIC = "Rust: no overflow, no division by 0"

Cases = Callable[[], Iterable[Case]]


@dataclass(frozen=True)
class Function:
    """A function of soft.h, and what is claimed of its results."""

    name: str
    claims: tuple[tuple[str, Cases], ...]
    rust: str | None = None
    """The operation of `Soft` that it is, if there is one."""

    @property
    def domain(self) -> z3.BoolRef:
        """The arguments of which its claims are."""
        if self.name == "soft_of":
            return z3.BoolVal(True)
        if self.name == "soft_scaled":
            return claims.exponent_in_range()
        return z3.And(valid(A), valid(B))

    @property
    def is_flag(self) -> bool:
        """Whether it returns a word of 32 bits."""
        return self.name in ("soft_less", "soft_at_least")


def _rounds(cases: Callable[[Callable[..., z3.BoolRef]], Iterator[Case]]) -> tuple:
    return (
        (NEAREST, partial(cases, claims.rounded)),
        (WITHIN, partial(cases, claims.within)),
    )


def _compares(name: str) -> Function:
    return Function(name, ((ORDERED, partial(claims.orders, name)),), name)


FUNCTIONS = (
    Function("soft_scaled", _rounds(claims.scaled)),
    Function("soft_mul", _rounds(claims.products), "soft_mul"),
    Function("soft_div", _rounds(claims.quotients), "soft_div"),
    Function("soft_add", ((NEAREST, claims.sums),), "soft_add"),
    Function("soft_sub", (), "soft_sub"),
    *map(_compares, ("soft_less", "soft_at_least", "soft_max", "soft_min")),
    Function("soft_to_fixed", ((TRUNCATED, claims.fixed),)),
)


def prove(
    functions: Iterable[Function], program: Program, rust: Module | None, timeout_s: float
) -> Iterator[Verdict]:
    """Every property of each function; equality with Rust where its IR is given."""
    for one in functions:
        paths = program.run(one.name, [A, B])
        yield check_duties(one.name, DEFINED, paths, one.domain, timeout_s)
        for says, cases in one.claims:
            yield check(one.name, says, paths, cases(), timeout_s)
        if one.name == "soft_add":
            anything = [Path(value=A)]
            yield check(one.name, WITHIN, anything, [claims.nearest_is_within()], timeout_s)
        yield from _as_sum(one, program, timeout_s)
        if rust is None:
            continue
        if one.name == "soft_scaled":
            of = program.run(one.name, [A, z3.BitVecVal(0, 64)])
            yield from equal(Function("soft_of", ()), of, rust.run("soft_of", [A]), timeout_s)
        elif one.rust:
            there = rust.run(one.rust, [A, B])
            yield from equal(one, paths, there, timeout_s)
            yield from _as_sum(one, rust, timeout_s)


def _as_sum(one: Function, side: Program | Module, timeout_s: float) -> Iterator[Verdict]:
    """A sum commutes, a difference is a sum: other claims then need a sum with |a| >= |b| only."""
    others = {
        "soft_add": (COMMUTES, [B, A]),
        "soft_sub": (AS_SUM, [A, z3.If(B == 0, B, B ^ (1 << 63))]),
    }
    if one.name in others:
        says, arguments = others[one.name]
        total = value(side.run("soft_add", arguments))
        case = Case("", one.domain, claim=lambda r: r == total)
        of = "Rust: " if isinstance(side, Module) else ""
        yield check(one.name, of + says, side.run(one.name, [A, B]), [case], timeout_s)


def equal(
    one: Function, paths: Sequence[Path], there: Sequence[Path], timeout_s: float
) -> Iterator[Verdict]:
    """The results are those of `Soft`, which does not panic."""
    top, other = (31 if one.is_flag else 63), value(there)

    def same(r: z3.BitVecRef) -> z3.BoolRef:
        return z3.Extract(top, 0, r) == z3.Extract(top, 0, other)

    cases: Iterable[Case] = [Case("", one.domain, claim=same)]
    if one.name == "soft_add":
        cases = (replace(case, claim=same) for case in claims.sums())
    if one.name != "soft_sub":
        yield check(one.name, EQUAL, paths, cases, timeout_s)
    yield check_duties(one.name, NO_PANIC, there, one.domain, timeout_s)


@dataclass(frozen=True)
class Found:
    """Verdict of the proofs on an error in soft.h, and this machine's result with it."""

    mutant: Mutant
    verdict: Verdict
    expected: int
    got: int

    @property
    def confirmed(self) -> bool:
        """Whether the code with the error gives another result than the exact one."""
        return self.verdict.result == REFUTED and self.expected != self.got


def refute(mutant: Mutant, directory: File, timeout_s: float, run: bool = True) -> Found:
    """Prove the function of the mutant until a claim fails; run the counterexample."""
    source = directory / "soft.h"
    source.write_text(mutant.of(built.SOFT.read_text()))
    program = Program(built.bpf(source, directory))
    (function,) = (one for one in FUNCTIONS if one.name == mutant.function)
    verdicts = prove([function], program, None, timeout_s)
    verdict = next((one for one in verdicts if one.result != PROVED), None)
    if verdict is None or verdict.counterexample is None or not run:
        return Found(mutant, verdict or Verdict(mutant.function, "all"), 0, 0)
    a, b = verdict.counterexample
    call = built.native(source, directory)
    return Found(mutant, verdict, result(mutant.function, a, b), call(mutant.function, a, b))


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [one.name for one in FUNCTIONS]
    parser.add_argument("--only", action="append", choices=names, help="this function; repeatable")
    parser.add_argument("--object", type=File, help="a compiled program instead of soft.h")
    parser.add_argument("--mutants", action="store_true", help="errors in soft.h instead")
    parser.add_argument("--timeout-s", type=float, default=TIMEOUT_S, help="time for one case")
    parser.add_argument("--json", action="store_true", help="a JSON document per line")
    arguments = parser.parse_args()
    chosen = arguments.only or names
    try:
        with tempfile.TemporaryDirectory() as folder:
            run = _mutants if arguments.mutants else _proofs
            return 0 if run(arguments, chosen, File(folder)) else 1
    except built.Missing as error:
        print(f"{error}: install it (Debian: clang; https://rustup.rs)", file=sys.stderr)
        return 2


def _proofs(arguments: argparse.Namespace, chosen: Sequence[str], folder: File) -> bool:
    program = Program(arguments.object or built.bpf(built.SOFT, folder))
    functions = [one for one in FUNCTIONS if one.name in chosen]
    proved = True
    for one in prove(functions, program, Module(built.ir(folder)), arguments.timeout_s):
        proved = proved and one.result == PROVED
        row = f"{one.function:14} {one.property:40} {one.result:8} {one.seconds:6.1f} s"
        if one.counterexample:
            row += "  a = {:#x}, b = {:#x}".format(*one.counterexample)
        print(json.dumps(one.as_dict()) if arguments.json else row, flush=True)
    return proved


def _mutants(arguments: argparse.Namespace, chosen: Sequence[str], folder: File) -> bool:
    found = True
    for mutant in MUTANTS:
        if mutant.function not in chosen:
            continue
        one = refute(mutant, folder, arguments.timeout_s)
        found = found and one.confirmed
        row = {**one.verdict.as_dict(), "error": mutant.says, "confirmed": one.confirmed}
        row |= {"expected": one.expected, "got": one.got}
        text = f"{mutant.function:14} {mutant.says}: {one.verdict.result}"
        if one.verdict.counterexample:
            a, b = one.verdict.counterexample
            text += f"\n    a = {a:#x}, b = {b:#x}: {one.got:#x} instead of {one.expected:#x}"
        print(json.dumps(row) if arguments.json else text, flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
