//! A floating-point number made of integer operations, in which the kernel evaluates rules.

use core::cmp::Ordering;
use core::fmt;
use core::ops::{Add, Div, Mul, Sub};

use crate::scalar::Scalar;

/// A number of 32 significant bits and an exponent of 16, for where there is no floating point.
///
/// `crates/kernel/kernel/bpf/soft.h` is the same arithmetic in C, tested to be bit-equal to this
/// one. Every operation but the square root takes only 64-bit integers and one unsigned division.
///
/// - Each operation gives the number nearest to its exact result, ties away from zero: the relative
///   error is at most 2^-32, about 2.3e-10.
/// - There is neither infinity nor NaN. What is too large becomes the largest number, about
///   2^32799, which represents infinity; what is too small, below 2^-32737, becomes 0.
/// - `x / 0` is the largest number with the sign of x, and `0 / 0` is 0: where `f64` gives NaN,
///   an increase of 0 changes nothing either. A path without an RTT yet has the largest one, hence
///   a rate too small to count.
///
/// Bits 0 to 31 hold the mantissa m, 2^31 <= m < 2^32, bits 32 to 47 the exponent e, bit 63 the
/// sign: the value is `±m 2^(e - 32768)`. Zero is all zeros. So positive numbers are ordered as
/// integers.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Soft(u64);

const SIGN: u64 = 1 << 63;
const LARGEST: u64 = 0xffff_ffff_ffff;
const BIAS: i32 = 32768;

impl Soft {
    /// The number with these bits, which [`to_bits`](Soft::to_bits) or the kernel's side gave.
    pub fn from_bits(bits: u64) -> Soft {
        Soft(bits)
    }

    /// The bits, the same as on the kernel's side.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    fn mantissa(self) -> u64 {
        self.0 & 0xffff_ffff
    }

    fn exponent(self) -> i32 {
        (self.0 >> 32 & 0xffff) as i32 - BIAS
    }

    fn sign(self) -> u64 {
        self.0 & SIGN
    }

    fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// `±m 2^e` with m of 32 bits, within the bounds of the exponent.
    fn pack(m: u64, e: i32, sign: u64) -> Soft {
        let biased = e + BIAS;
        if biased > 0xffff {
            Soft(sign | LARGEST)
        } else if biased < 0 {
            Soft(0)
        } else {
            Soft(sign | (biased as u64) << 32 | m)
        }
    }

    /// `±v 2^e` with v of 64 bits, rounded.
    fn round(v: u64, e: i32, sign: u64) -> Soft {
        let m = (v >> 32) + (v >> 31 & 1);
        let carry = m >> 32;
        Soft::pack(m >> carry, e + 32 + carry as i32, sign)
    }

    /// `±v 2^e` for any v.
    fn normal(v: u64, e: i32, sign: u64) -> Soft {
        if v == 0 {
            return Soft(0);
        }
        let shift = v.leading_zeros();
        Soft::round(v << shift, e - shift as i32, sign)
    }

    /// An integer of the same order.
    fn key(self) -> i64 {
        let magnitude = (self.0 & !SIGN) as i64;
        if self.sign() != 0 {
            -magnitude
        } else {
            magnitude
        }
    }
}

impl Mul for Soft {
    type Output = Soft;

    fn mul(self, other: Soft) -> Soft {
        if self.is_zero() || other.is_zero() {
            return Soft(0);
        }
        let product = self.mantissa() * other.mantissa();
        let e = self.exponent() + other.exponent();
        // The product has 63 bits or 64.
        let shift = 1 - (product >> 63);
        Soft::round(
            product << shift,
            e - shift as i32,
            self.sign() ^ other.sign(),
        )
    }
}

impl Div for Soft {
    type Output = Soft;

    fn div(self, other: Soft) -> Soft {
        let sign = self.sign() ^ other.sign();
        if self.is_zero() {
            return Soft(0);
        }
        if other.is_zero() {
            return Soft(sign | LARGEST);
        }
        let (a, b) = (self.mantissa(), other.mantissa());
        // A quotient of 32 bits, whichever mantissa is larger.
        let shift = if a < b { 32 } else { 31 };
        let quotient = ((a << shift) + (b >> 1)) / b;
        Soft::pack(quotient, self.exponent() - other.exponent() - shift, sign)
    }
}

impl Add for Soft {
    type Output = Soft;

    fn add(self, other: Soft) -> Soft {
        let larger = (self.0 & !SIGN) >= (other.0 & !SIGN);
        let (a, b) = if larger { (self, other) } else { (other, self) };
        if b.is_zero() {
            return a;
        }
        let distance = (a.exponent() - b.exponent()).min(63);
        let (x, y) = (a.mantissa() << 31, (b.mantissa() << 31) as i64);
        // The arithmetic shift rounds down also what is subtracted, so the sum is exact but for
        // bits below its last.
        let y = if a.sign() == b.sign() { y } else { -y } >> distance;
        Soft::normal(x.wrapping_add(y as u64), a.exponent() - 31, a.sign())
    }
}

impl Sub for Soft {
    type Output = Soft;

    fn sub(self, other: Soft) -> Soft {
        self + Soft(if other.is_zero() { 0 } else { other.0 ^ SIGN })
    }
}

impl PartialOrd for Soft {
    fn partial_cmp(&self, other: &Soft) -> Option<Ordering> {
        Some(self.key().cmp(&other.key()))
    }
}

impl fmt::Debug for Soft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_f64())
    }
}

impl Scalar for Soft {
    fn of(n: u64) -> Soft {
        Soft::normal(n, 0, 0)
    }

    /// The nearest number; infinity becomes the largest, NaN 0.
    fn from_f64(x: f64) -> Soft {
        if x.is_nan() {
            return Soft(0);
        }
        let (fraction, e) = libm::frexp(x.abs());
        let sign = if x < 0.0 { SIGN } else { 0 };
        if x.is_infinite() {
            Soft(sign | LARGEST)
        } else {
            // 2^53 fraction is a whole number.
            Soft::normal((fraction * (1u64 << 53) as f64) as u64, e - 53, sign)
        }
    }

    /// Exactly, but for what lies beyond the bounds of `f64`: infinity or 0.
    fn to_f64(self) -> f64 {
        let magnitude = libm::ldexp(self.mantissa() as f64, self.exponent());
        if self.sign() != 0 {
            -magnitude
        } else {
            magnitude
        }
    }

    /// The square root; 0 of a negative number, where `f64` gives NaN.
    fn sqrt(self) -> Soft {
        if self.is_zero() || self.sign() != 0 {
            return Soft(0);
        }
        let e = self.exponent();
        let shift = 31 + (e - 31).rem_euclid(2);
        let v = self.mantissa() << shift;
        let floor = v.isqrt();
        let root = floor + u64::from(v - floor * floor > floor);
        // A root that rounds up to 2^32 does not occur: v <= 2^64 - 2^32 < (2^32 - 1/2)^2.
        Soft::pack(root, (e - shift) / 2, 0)
    }
}
