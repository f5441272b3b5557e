"""Claims on each function of soft.h, as formulas over its arguments and its result.

Each specification has exactly one result that satisfies it, and is about exact values: sums,
products and comparisons of the mantissas and powers of 2, in as many bits as they take.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import z3

from exact import BIAS, LARGEST
from terms import product

Word = z3.BitVecRef
A, B = z3.BitVecs("a b", 64)
EXPONENT = 40
"""Bits in which exponents are added exactly."""


@dataclass(frozen=True)
class Case:
    """A part of the domain, or all of it."""

    name: str
    assumed: z3.BoolRef
    replaced: tuple[tuple[Word, Word], ...] = ()
    """Arguments of this kind, in variables that have only such values."""
    claim: Callable[[Word], z3.BoolRef] | None = None
    """Claim about the result in this case."""


def valid(x: Word) -> z3.BoolRef:
    """Zero, or normal: bit 31 set, bits 48 to 62 clear."""
    normal = z3.And(z3.Extract(31, 31, x) == 1, z3.Extract(62, 48, x) == 0)
    return z3.Or(x == 0, normal)


def mantissa(x: Word, bits: int = 64) -> Word:
    """The mantissa, in so many bits."""
    return z3.ZeroExt(bits - 32, z3.Extract(31, 0, x))


def exponent(x: Word) -> Word:
    """The exponent of a normal number."""
    return z3.ZeroExt(EXPONENT - 16, z3.Extract(47, 32, x)) - BIAS


def sign(x: Word) -> Word:
    """The bit of the sign, in its place."""
    return x & (1 << 63)


def _resized(x: Word, bits: int) -> Word:
    """A non-negative number that fits in both sizes, in this one."""
    return z3.ZeroExt(bits - x.size(), x) if bits > x.size() else z3.Extract(bits - 1, 0, x)


def _reaches(v: Word, s: Word) -> z3.BoolRef:
    """Whether v rounds to 2^32 2^s or more: v >= (2^32 - 1/2) 2^s, for v > 0."""
    n = v.size()
    bits = n + 40
    wide, limit = z3.ZeroExt(40, v) << 1, z3.BitVecVal((1 << 33) - 1, bits)
    up = z3.UGE(wide, limit << _resized(s, bits))
    down = z3.UGE(wide << _resized(-s, bits), limit)
    finite = z3.If(s >= 0, up, down)
    return z3.If(s > n - 30, z3.BoolVal(False), z3.If(s < -32, z3.BoolVal(True), finite))


def _near(v: Word, s: Word, m: Word) -> z3.BoolRef:
    """Whether m 2^s with 2^31 <= m < 2^32 is nearest to v, ties upwards.

    Numbers below 2^31 2^s are half as far apart.
    """
    n = v.size()
    bits = n + 8
    below = z3.If(m == 1 << 31, z3.BitVecVal(1, bits), z3.BitVecVal(2, bits))
    four, shift = z3.ZeroExt(bits - 32, m) << 2, _resized(s, bits)
    v4 = z3.ZeroExt(8, v) << 2
    rounded = z3.And(z3.UGE(v4, (four - below) << shift), z3.ULT(v4, (four + 2) << shift))
    back = _resized(-s, 32)
    fits = z3.ULT(v, z3.BitVecVal(1 << 32, n)) if n > 32 else z3.BoolVal(True)
    exact = z3.And(fits, s > -32, _resized(v, 32) << back == m, z3.LShR(m, back) == _resized(v, 32))
    return z3.If(s > 0, z3.And(s <= n - 30, rounded), exact)


def rounded(v: Word, e: Word, negative: Word, r: Word) -> z3.BoolRef:
    """The result is the soft float nearest to v 2^e, ties away from zero, saturated."""
    m, s = z3.Extract(31, 0, r), exponent(r) - e
    normal = z3.And(valid(r), r != 0, sign(r) == negative, _near(v, s, m))
    small = z3.Not(_reaches(v, -BIAS - 1 - e))
    found = z3.If(small, r == 0, normal)
    found = z3.If(_reaches(v, BIAS - 1 - e), r == negative | LARGEST, found)
    return z3.If(v == 0, r == 0, found)


def within(v: Word, e: Word, r: Word) -> z3.BoolRef:
    """The relative error is at most 2^-32, but where the result is saturated."""
    n = v.size()
    bits, s = n + 40, exponent(r) - e
    got, exact = z3.ZeroExt(bits - 32, z3.Extract(31, 0, r)), z3.ZeroExt(40, v)
    got = z3.If(s > 0, got << _resized(s, bits), got)
    exact = z3.If(s > 0, exact, exact << _resized(-s, bits))
    error = z3.If(z3.UGE(got, exact), got - exact, exact - got)
    no_wrap = z3.And(s <= n - 30, s > -32, z3.Or(s > 0, z3.ULT(v, 1 << 32)))
    saturated = z3.Or(r == 0, r & ~(1 << 63) == LARGEST)
    return z3.Or(saturated, z3.And(no_wrap, z3.ULE(error << 32, exact)))


def nearest_is_within() -> Case:
    """The nearest number, here `a`, to any v 2^e with v of 98 bits, as many as sums take."""
    v, e = z3.BitVec("v", 98), z3.BitVec("e", EXPONENT)
    near = z3.And(valid(A), v != 0, _near(v, exponent(A) - e, z3.Extract(31, 0, A)))
    return Case("", near, claim=lambda r: within(v, e, r))


def smaller(a: Word, b: Word) -> z3.BoolRef:
    """Whether the value of a is below that of b."""
    return z3.If(
        sign(a) != sign(b),
        sign(a) != 0,
        z3.If(sign(a) == 0, _magnitude_below(a, b), _magnitude_below(b, a)),
    )


def _magnitude_below(a: Word, b: Word) -> z3.BoolRef:
    """2^33 times any mantissa is above every other, so further shifts change nothing."""
    limit = z3.BitVecVal(33, EXPONENT)
    d = exponent(a) - exponent(b)
    up = z3.If(d < 0, z3.BitVecVal(0, EXPONENT), z3.If(d > limit, limit, d))
    down = z3.If(d > 0, z3.BitVecVal(0, EXPONENT), z3.If(d < -limit, limit, -d))
    left = mantissa(a, 68) << _resized(up, 68)
    right = mantissa(b, 68) << _resized(down, 68)
    return z3.If(a == 0, b != 0, z3.And(b != 0, z3.ULT(left, right)))


def _normal(name: str, e: Word) -> Word:
    """A normal number with this exponent field."""
    s, m = z3.BitVec(f"s{name}", 1), z3.BitVec(f"m{name}", 31)
    return z3.Concat(s, z3.BitVecVal(0, 15), e, z3.BitVecVal(1, 1), m)


def sums() -> Iterator[Case]:
    """Cases of a + b with |a| >= |b|, by the distance of the exponents. The sum commutes.

    Where it is above 63, the smaller operand is any quantity below 2^32, of which the larger's
    last bit is worth 2^64: what it is does not matter.
    """
    yield Case("b = 0", z3.And(valid(A), B == 0), claim=lambda r: r == A)
    for distance in range(65):
        high_exponent = z3.BitVec("eh", 16)
        low_exponent = z3.BitVec("el", 16) if distance == 64 else high_exponent - distance
        high, low = _normal("h", high_exponent), _normal("l", low_exponent)
        apart = z3.ZeroExt(24, high_exponent) - z3.ZeroExt(24, low_exponent)
        assumed = apart > 63 if distance == 64 else apart == distance
        if distance == 0:
            assumed = z3.UGE(mantissa(high), mantissa(low))
        yield Case(
            f"exponents {distance} apart",
            assumed,
            ((A, high), (B, low)),
            _sum_claim(distance, high, low),
        )


def _sum_claim(distance: int, high: Word, low: Word) -> Callable[[Word], z3.BoolRef]:
    bits, e = 34 + distance, exponent(high) - distance
    x, y = mantissa(high, bits) << distance, mantissa(low, bits)
    if distance == 64:
        y = z3.ZeroExt(bits - 32, z3.BitVec("any", 32))
    v = z3.If(sign(high) == sign(low), x + y, x - y)
    return lambda r: z3.Implies(y != 0, rounded(v, e, sign(high), r))


def products(claim: Callable[..., z3.BoolRef]) -> Iterator[Case]:
    """Cases of a b."""
    v = product(mantissa(A), mantissa(B))
    e, negative = exponent(A) + exponent(B), sign(A) ^ sign(B)
    both = z3.And(valid(A), valid(B), A != 0, B != 0)
    if claim is within:
        yield Case("", both, claim=lambda r: within(v, e, r))
        return
    zero = z3.And(valid(A), valid(B), z3.Or(A == 0, B == 0))
    yield Case("a = 0 or b = 0", zero, claim=lambda r: r == 0)
    yield Case("", both, claim=lambda r: rounded(v, e, negative, r))


def quotients(claim: Callable[..., z3.BoolRef]) -> Iterator[Case]:
    """Cases of a / b. The quotient of the mantissas is in 2^-32 2^s with s = 0 or 1."""
    negative = sign(A) ^ sign(B)
    both = z3.And(valid(A), valid(B), A != 0, B != 0)
    if claim is rounded:
        yield Case("a = 0", z3.And(valid(B), A == 0), claim=lambda r: r == 0)
        none = z3.And(valid(A), A != 0, B == 0)
        yield Case("b = 0", none, claim=lambda r: r == negative | LARGEST)
    less = z3.ULT(mantissa(A), mantissa(B))
    for name, order, shift in (("m_a < m_b", less, 32), ("m_a >= m_b", z3.Not(less), 31)):
        yield Case(name, z3.And(both, order), claim=_quotient_claim(claim, shift))


def _quotient_claim(claim: Callable[..., z3.BoolRef], shift: int) -> Callable[[Word], z3.BoolRef]:
    """About 2^31 <= m_a 2^shift / m_b < 2^32, multiplied by m_b."""
    e = exponent(A) - exponent(B) - shift
    a, b = mantissa(A, 72) << shift, mantissa(B, 72)
    negative = sign(A) ^ sign(B)

    def about(r: Word) -> z3.BoolRef:
        back = z3.ZeroExt(8, product(mantissa(r), mantissa(B)))
        error = z3.If(z3.UGE(back, a), back - a, a - back)
        if claim is within:
            saturated = z3.Or(r == 0, r & ~(1 << 63) == LARGEST)
            # 2^32 |m m_b - a| <= a, in 104 bits.
            return z3.Or(saturated, z3.ULE(z3.ZeroExt(32, error) << 32, z3.ZeroExt(32, a)))
        in_bounds = z3.And(e >= -BIAS, e < BIAS)
        normal = [
            z3.And(valid(r), r != 0, sign(r) == negative, exponent(r) == e),
            z3.ULE(back + back, a + a + b),
            z3.ULT(a + a, back + back + b),
            # Numbers below 2^31 are half as far apart, so a result of 2^31 is from above.
            z3.Implies(mantissa(r) == 1 << 31, z3.ULE(back, a)),
        ]
        return z3.And(
            z3.And(z3.UGE(a, b << 31), z3.ULT(a, b << 32)),
            # A quotient below 2^32 - 1/2 does not round up to 2^32.
            z3.ULT(a + a, (b << 33) - b),
            z3.Implies(e >= BIAS, r == negative | LARGEST),
            z3.Implies(e < -BIAS, r == 0),
            *(z3.Implies(in_bounds, one) for one in normal),
        )

    return about


def _scale() -> Word:
    """The second argument of soft_scaled."""
    return z3.SignExt(EXPONENT - 32, z3.Extract(31, 0, B))


def exponent_in_range() -> z3.BoolRef:
    """Whether the second argument of soft_scaled is within 2^30."""
    return z3.And(_scale() <= 1 << 30, _scale() >= -(1 << 30))


def scaled(claim: Callable[..., z3.BoolRef]) -> Iterator[Case]:
    """Cases of a 2^b."""
    e, small = _scale(), exponent_in_range()
    zero = z3.BitVecVal(0, 64)
    if claim is within:
        yield Case("", z3.And(small, A != 0), claim=lambda r: within(A, e, r))
    else:
        yield Case("", small, claim=lambda r: rounded(A, e, zero, r))


def fixed() -> Iterator[Case]:
    """Cases of the conversion to units of 2^-32, rounded towards zero, by the exponent."""

    def about(shift: int, r: Word) -> z3.BoolRef:
        m, t = mantissa(A, 96), z3.ZeroExt(32, z3.If(sign(A) == 0, r, -r))
        if shift >= 0:
            return t == m << shift
        return z3.And(z3.ULE(t << -shift, m), z3.UGT((t + 1) << -shift, m), z3.ULT(t, 1 << 32))

    def at_end(r: Word) -> z3.BoolRef:
        largest = z3.If(sign(A) == 0, z3.BitVecVal(1 << 62, 64), z3.BitVecVal(-(1 << 62), 64))
        return r == z3.If(z3.And(A != 0, shift > 30), largest, z3.BitVecVal(0, 64))

    shift = exponent(A) + 32
    for one in range(-32, 31):
        field = z3.BitVecVal(one - 32 + BIAS, 16)
        for negative in (0, 1):
            known = z3.substitute(
                _normal("h", field), (z3.BitVec("sh", 1), z3.BitVecVal(negative, 1))
            )
            yield Case(f"2^{one}", z3.BoolVal(True), ((A, known),), partial(about, one))
    ends = z3.Or(A == 0, shift > 30, shift < -32)
    yield Case("0, at least 2^30, below 2^-32", z3.And(valid(A), ends), claim=at_end)


def orders(name: str) -> Iterator[Case]:
    """Cases of the comparisons, and of the larger and the smaller of two."""
    zero, one = z3.BitVecVal(0, 32), z3.BitVecVal(1, 32)
    claims: dict[str, Callable[[Word], z3.BoolRef]] = {
        "soft_less": lambda r: z3.Extract(31, 0, r) == z3.If(smaller(A, B), one, zero),
        "soft_at_least": lambda r: z3.Extract(31, 0, r) == z3.If(smaller(A, B), zero, one),
        "soft_max": lambda r: r == z3.If(smaller(A, B), B, A),
        "soft_min": lambda r: r == z3.If(smaller(B, A), B, A),
    }
    yield Case("", z3.And(valid(A), valid(B)), claim=claims[name])
