"""Soft floats as fractions: their values, and the number nearest to a value."""

from fractions import Fraction

BIAS, LARGEST, SIGN = 32768, 0xFFFF_FFFF_FFFF, 1 << 63


def number(bits: int) -> Fraction:
    """The value of a soft float, zero or normal."""
    magnitude = (bits & 0xFFFF_FFFF) * Fraction(2) ** ((bits >> 32 & 0xFFFF) - BIAS)
    return -magnitude if bits & SIGN else magnitude


def nearest(value: Fraction) -> int:
    """The soft float nearest to a value, ties away from zero, saturated at both ends."""
    if not value:
        return 0
    sign, magnitude = SIGN if value < 0 else 0, abs(value)
    e = magnitude.numerator.bit_length() - magnitude.denominator.bit_length() - 32
    while magnitude >= Fraction(2) ** (e + 32):
        e += 1
    m = int(magnitude / Fraction(2) ** e + Fraction(1, 2))
    if m == 1 << 32:
        m, e = 1 << 31, e + 1
    if e + BIAS > 0xFFFF:
        return sign | LARGEST
    return 0 if e + BIAS < 0 else sign | (e + BIAS) << 32 | m


def result(name: str, a: int, b: int) -> int:
    """Value that a function of soft.h shall return, as a word.

    `b` is not used by those of one argument, and is the exponent for `soft_scaled`.
    """
    if name == "soft_scaled":
        exponent = (b & 0xFFFF_FFFF ^ 0x8000_0000) - 0x8000_0000
        return nearest(a * Fraction(2) ** exponent)
    x, y = number(a), number(b)
    if name == "soft_to_fixed":
        magnitude = min(int(abs(x) * 2**32), 1 << 62)
        return (-magnitude if x < 0 else magnitude) & (1 << 64) - 1
    if name == "soft_div" and not y:
        return ((a ^ b) & SIGN | LARGEST) if x else 0
    if name in ("soft_less", "soft_at_least"):
        return int(x < y if name == "soft_less" else x >= y)
    if name in ("soft_max", "soft_min"):
        return a if (x >= y if name == "soft_max" else x <= y) else b
    operations = {
        "soft_add": lambda: x + y,
        "soft_sub": lambda: x - y,
        "soft_mul": lambda: x * y,
        "soft_div": lambda: x / y,
    }
    return nearest(operations[name]())
