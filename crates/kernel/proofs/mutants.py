"""Errors in soft.h that the proofs must find, each with the function whose claim it breaks."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """A text of soft.h and what stands there instead."""

    function: str
    says: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.function}: {self.says}"

    def of(self, source: str) -> str:
        """The source with the error. Raises `ValueError` if the text is not there once."""
        if source.count(self.old) != 1:
            raise ValueError(f"soft.h does not have once: {self.old}")
        return source.replace(self.old, self.new)


MUTANTS = (
    Mutant(
        "soft_scaled",
        "rounds down",
        "u64 m = (v >> 32) + (v >> 31 & 1);",
        "u64 m = v >> 32;",
    ),
    Mutant(
        "soft_scaled",
        "the last leading zero is not counted",
        "SOFT_HALF(1) SOFT_HALF(0)",
        "SOFT_HALF(1)",
    ),
    Mutant(
        "soft_mul",
        "a product of 63 bits is not shifted",
        "soft_round(product << shift, ",
        "soft_round(product, ",
    ),
    Mutant(
        "soft_mul",
        "the exponent wraps instead of saturating",
        "if (biased > 0xffff)",
        "if (biased > 0x1ffff)",
    ),
    Mutant(
        "soft_div",
        "the quotient of the mantissas is rounded down",
        "((soft_mantissa(a) << shift) + (soft_mantissa(b) >> 1))",
        "(soft_mantissa(a) << shift)",
    ),
    Mutant(
        "soft_div",
        "equal mantissas give 33 bits",
        "soft_mantissa(a) < soft_mantissa(b) ? 32 : 31",
        "soft_mantissa(a) <= soft_mantissa(b) ? 32 : 31",
    ),
    Mutant(
        "soft_add",
        "what is subtracted is rounded towards zero",
        "y = (soft_sign(a) == soft_sign(b) ? y : -y) >> distance;",
        "y >>= distance;\n\ty = soft_sign(a) == soft_sign(b) ? y : -y;",
    ),
    Mutant(
        "soft_add",
        "far apart numbers are shifted by the distance modulo 64",
        "\tif (distance > 63)\n\t\tdistance = 63;\n",
        "\tdistance &= 63;\n",
    ),
    Mutant(
        "soft_sub",
        "the sum instead of the difference",
        "b ? b ^ SOFT_SIGN : 0",
        "b",
    ),
    Mutant(
        "soft_less",
        "equal numbers are less",
        "return soft_key(a) < soft_key(b);",
        "return soft_key(a) <= soft_key(b);",
    ),
    Mutant(
        "soft_at_least",
        "negative numbers are ordered as positive ones",
        "return soft_key(a) >= soft_key(b);",
        "return (a & ~SOFT_SIGN) >= (b & ~SOFT_SIGN);",
    ),
    Mutant(
        "soft_max",
        "compares words",
        "return soft_key(a) >= soft_key(b) ? a : b;",
        "return a >= b ? a : b;",
    ),
    Mutant(
        "soft_min",
        "the larger one",
        "return soft_key(a) <= soft_key(b) ? a : b;",
        "return soft_key(a) <= soft_key(b) ? b : a;",
    ),
    Mutant(
        "soft_to_fixed",
        "2^30 is not saturated",
        "if (shift > 30)",
        "if (shift > 31)",
    ),
)
