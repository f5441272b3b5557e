"""A conjunction of polynomial relations over positive reals: simplified, as SMT-LIB, at numbers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sympy import Matrix
from sympy.polys.rings import PolyElement

from anabranch.theory.guarantees.proofs.symbol import (
    AT_LEAST,
    POSITIVE,
    UNEQUAL,
    Atom,
    one_sign,
)


@dataclass(frozen=True)
class Product:
    """A product of polynomials in a relation to 0; without factors it is 1."""

    factors: tuple[PolyElement, ...]
    relation: str


@dataclass(frozen=True)
class Formula:
    """A conjunction that is to be decided: a state at which a condition is violated."""

    products: Sequence[Product]
    ones: Mapping[str, int]
    """Variables that are 1 without loss of generality."""
    never: bool
    """Whether simplification alone refutes it."""

    @property
    def variables(self) -> list[str]:
        """The names of the variables in use, in order."""
        found: dict[str, None] = {}
        for product in self.products:
            for factor in product.factors:
                names = [str(symbol) for symbol in factor.ring.symbols]
                used = {i for powers in factor for i, power in enumerate(powers) if power}
                found |= dict.fromkeys(names[i] for i in sorted(used))
        return list(found)

    def smt(self) -> str:
        """The text for a solver, in SMT-LIB 2.6."""
        lines = ["(set-logic QF_NRA)"]
        for name in self.variables:
            lines += [f"(declare-const {name} Real)", f"(assert (> {name} 0))"]
        for product in self.products:
            terms = [_term(factor) for factor in product.factors]
            whole = terms[0] if len(terms) == 1 else f"(* {' '.join(terms)})"
            lines.append(f"(assert ({product.relation} {whole} 0))")
        return "\n".join([*lines, "(check-sat)", ""])


def formula(atoms: Iterable[Atom]) -> Formula:
    """The conjunction, with factors of a known sign removed and units chosen."""
    products: dict[Product, None] = {}
    for one in atoms:
        for product in _simplified(one):
            if product.factors:
                products[product] = None
            elif product.relation == "false":
                return Formula([], {}, never=True)
    polynomials = [factor for product in products for factor in product.factors]
    ones = _units(polynomials)
    if ones:
        kept = [
            Product(tuple(_with_ones(f, ones) for f in product.factors), product.relation)
            for product in products
        ]
        inner = formula(Atom(_multiplied(product.factors), product.relation) for product in kept)
        return Formula(inner.products, {**ones, **inner.ones}, inner.never)
    return Formula(list(products), {}, never=False)


def _simplified(one: Atom) -> Iterator[Product]:
    """The atom as products without factors whose coefficients all have one sign."""
    if one.polynomial == 0:
        yield Product((), "false" if one.relation in (POSITIVE, UNEQUAL) else "true")
        return
    constant, factors = one.polynomial.factor_list()
    sign, kept = (1 if constant > 0 else -1), []
    for factor, power in factors:
        known = one_sign(factor)
        if known:
            sign *= known**power
        elif power % 2 and one.relation in (POSITIVE, AT_LEAST):
            kept.append(factor)
        elif one.relation == POSITIVE:
            yield Product((factor,), UNEQUAL)
        elif one.relation == AT_LEAST:
            kept += [factor, factor]
        else:
            kept.append(factor)
    if not kept:
        yield Product(
            (), "true" if Atom(one.polynomial, one.relation).holds(Fraction(sign)) else "false"
        )
        return
    if sign < 0:
        kept[0] = -kept[0]
    yield Product(tuple(kept), one.relation)


def _multiplied(factors: Sequence[PolyElement]) -> PolyElement:
    total = factors[0].ring.one
    for factor in factors:
        total *= factor
    return total


def _with_ones(polynomial: PolyElement, ones: Mapping[str, int]) -> PolyElement:
    ring = polynomial.ring
    for symbol, generator in zip(ring.symbols, ring.gens, strict=True):
        if str(symbol) in ones:
            polynomial = polynomial.subs(generator, 1)
    return polynomial


def _units(polynomials: Sequence[PolyElement]) -> dict[str, int]:
    """Variables that may be 1: each polynomial is homogeneous in some weights of the variables.

    Multiplying each variable by c to the power of its weight multiplies a polynomial by a power of
    c, so that a solution can be scaled until a variable of weight other than 0 is 1.
    """
    if not polynomials:
        return {}
    rows, ring = [], polynomials[0].ring
    for polynomial in polynomials:
        first, *others = list(polynomial)
        rows += [[a - b for a, b in zip(powers, first, strict=True)] for powers in others]
    used = [i for i in range(ring.ngens) if any(p[i] for poly in polynomials for p in poly)]
    rows = [[row[i] for i in used] for row in rows]
    if not rows or not used:
        return {str(ring.symbols[i]): 1 for i in used}
    weights = Matrix(rows).nullspace()
    if not weights:
        return {}
    pivots = Matrix([list(weight) for weight in weights]).rref()[1]
    return {str(ring.symbols[used[i]]): 1 for i in pivots}


def value(polynomial: PolyElement, at: Mapping[str, Fraction]) -> Fraction:
    """The exact value at numbers."""
    numbers = [at.get(str(symbol), Fraction(1)) for symbol in polynomial.ring.symbols]
    total = Fraction(0)
    for powers, coefficient in polynomial.items():
        term = Fraction(int(coefficient.numerator), int(coefficient.denominator))
        for number, power in zip(numbers, powers, strict=True):
            if power:
                term *= number**power
        total += term
    return total


def satisfied(atoms: Iterable[Atom], at: Mapping[str, Fraction]) -> bool:
    """Whether all hold at these numbers, exactly."""
    return all(one.holds(value(one.polynomial, at)) for one in atoms)


def _term(polynomial: PolyElement) -> str:
    """A polynomial with whole coefficients, as SMT-LIB."""
    _, whole = polynomial.clear_denoms()
    terms = [_monomial(int(c), powers, whole) for powers, c in whole.terms()]
    return terms[0] if len(terms) == 1 else f"(+ {' '.join(terms)})"


def _monomial(coefficient: int, powers: Sequence[int], polynomial: PolyElement) -> str:
    names = [
        str(symbol)
        for symbol, power in zip(polynomial.ring.symbols, powers, strict=True)
        for _ in range(power)
    ]
    number = str(coefficient) if coefficient >= 0 else f"(- {-coefficient})"
    if not names:
        return number
    parts = names if coefficient == 1 else [number, *names]
    return parts[0] if len(parts) == 1 else f"(* {' '.join(parts)})"
