"""The paths of a loop-free function that is executed for every input at once, in z3's terms.

Products and quotients of two variables are uninterpreted functions, with what is known of them, so
that a solver does not have to multiply. `exactly` gives them their meaning.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import z3

WORD = z3.BitVecSort(64)
PRODUCT = z3.Function("product", WORD, WORD, WORD)
"""The product of two numbers below 2^32."""
QUOTIENT = z3.Function("quotient", WORD, WORD, WORD)
"""The quotient of two unsigned integers, rounded down; the divisor is not 0."""


@dataclass(frozen=True)
class Duty:
    """Condition that must hold where a path reaches an instruction."""

    says: str
    condition: z3.BoolRef
    holds: z3.BoolRef


@dataclass
class Path:
    """One way through a function."""

    conditions: list[z3.BoolRef] = field(default_factory=list)
    duties: list[Duty] = field(default_factory=list)
    value: z3.BitVecRef | None = None
    """Return value of the function."""

    def copy(self) -> "Path":
        return Path(list(self.conditions), list(self.duties))

    @property
    def condition(self) -> z3.BoolRef:
        """When the function takes this path."""
        return z3.And(self.conditions) if self.conditions else z3.BoolVal(True)

    def must(self, says: str, holds: z3.BoolRef) -> None:
        """Note a duty of the instruction that the path has reached."""
        if not z3.is_true(z3.simplify(holds)):
            self.duties.append(Duty(says, self.condition, holds))

    def branches(self, condition: z3.BoolRef) -> Iterator[tuple[bool, "Path"]]:
        """The path where the condition holds, and where it does not; those that there may be."""
        condition = z3.simplify(condition)
        opposite = z3.simplify(z3.Not(condition))
        for taken, assumed, refuted in (
            (True, condition, opposite),
            (False, opposite, condition),
        ):
            if z3.is_false(assumed) or any(refuted.eq(known) for known in self.conditions):
                continue
            path = self.copy()
            if not (z3.is_true(assumed) or any(assumed.eq(known) for known in self.conditions)):
                path.conditions.append(assumed)
            yield taken, path


def value(paths: Iterable[Path]) -> z3.BitVecRef:
    """The result as one term. A path without one gives 0: a duty says that there is none."""
    term = None
    for path in paths:
        if path.value is not None:
            term = path.value if term is None else z3.If(path.condition, path.value, term)
    assert term is not None
    return term


def duties(paths: Iterable[Path]) -> list[Duty]:
    """The duties of all paths, each once."""
    found: dict[tuple[str, int, int], Duty] = {}
    for path in paths:
        for one in path.duties:
            found.setdefault((one.says, one.condition.get_id(), one.holds.get_id()), one)
    return list(found.values())


def multiply(path: Path, a: z3.BitVecRef, b: z3.BitVecRef) -> z3.BitVecRef:
    """The product of two words; of two variables the exact one, which a duty says fits."""
    a, b = z3.simplify(a), z3.simplify(b)
    if z3.is_bv_value(a) or z3.is_bv_value(b):
        return a * b
    limit = z3.BitVecVal(1 << 32, 64)
    path.must("both factors are below 2^32", z3.And(z3.ULT(a, limit), z3.ULT(b, limit)))
    return product(a, b)


def divide(path: Path, a: z3.BitVecRef, b: z3.BitVecRef) -> z3.BitVecRef:
    """The unsigned quotient of two words, with the duty that the divisor is not 0."""
    a, b = z3.simplify(a), z3.simplify(b)
    path.must("the divisor is not 0", b != 0)
    return z3.UDiv(a, b) if z3.is_bv_value(b) else QUOTIENT(a, b)


def product(a: z3.BitVecRef, b: z3.BitVecRef) -> z3.BitVecRef:
    """The exact product of two words below 2^32."""
    a, b = z3.simplify(a), z3.simplify(b)
    return PRODUCT(a, b) if a.get_id() < b.get_id() else PRODUCT(b, a)


def facts(formula: z3.BoolRef) -> list[z3.BoolRef]:
    """Facts about the products and quotients in a formula, true of any integers."""
    known, products = [], list(_applications(formula, PRODUCT))
    for n, d, q in _applications(formula, QUOTIENT):
        # Euclid: n = q d + remainder, and q d <= n does not wrap.
        back = PRODUCT(q, d)
        known += [z3.ULE(back, n), z3.ULT(n - back, d)]
        products.append((q, d, back))
        # q >= c where n >= c d, for c = 2^31 and 2^32.
        low = z3.ULT(d, 1 << 32)
        known.append(z3.Implies(low, z3.UGE(q, 1 << 31) == z3.UGE(n, d << 31)))
        known.append(z3.Implies(low, z3.UGE(q, 1 << 32) == z3.UGE(n, d << 32)))
    for a, b, p in products:
        known.append(p == PRODUCT(b, a))
        small = z3.And(z3.ULT(a, 1 << 32), z3.ULT(b, 1 << 32))
        large = z3.And(z3.UGE(a, 1 << 31), z3.UGE(b, 1 << 31))
        known.append(z3.Implies(small, z3.ULE(p, ((1 << 32) - 1) ** 2)))
        known.append(z3.Implies(z3.And(small, large), z3.UGE(p, 1 << 62)))
    return known


def exactly(formula: z3.BoolRef) -> list[z3.BoolRef]:
    """The meaning of the products and quotients in a formula."""
    products = [p == a * b for a, b, p in _applications(formula, PRODUCT)]
    return products + [q == z3.UDiv(n, d) for n, d, q in _applications(formula, QUOTIENT)]


def _applications(
    formula: z3.ExprRef, function: z3.FuncDeclRef
) -> Iterator[tuple[z3.BitVecRef, z3.BitVecRef, z3.BitVecRef]]:
    seen: set[int] = set()
    waiting = [formula]
    while waiting:
        term = waiting.pop()
        if term.get_id() in seen:
            continue
        seen.add(term.get_id())
        waiting += term.children()
        if z3.is_app(term) and term.decl().eq(function):
            yield term.arg(0), term.arg(1), term
