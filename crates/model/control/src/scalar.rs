//! The number types that a rule is evaluated in.

use core::cmp::Ordering;
use core::fmt::Debug;
use core::ops::{Add, Div, Mul, Sub};

/// A number with the four operations, an order and a square root. A rule uses nothing else, so that
/// the same source runs in a simulator (`f64`), gives exact derivatives ([`Dual`]) and runs where
/// there is no floating point ([`Soft`](crate::Soft)).
pub trait Scalar:
    Copy
    + Debug
    + Default
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
{
    /// A small integer (below 2^32), exactly.
    fn of(n: u64) -> Self;

    /// A parameter of a rule.
    fn from_f64(x: f64) -> Self;

    /// The value, without a derivative.
    fn to_f64(self) -> f64;

    /// The square root.
    fn sqrt(self) -> Self;

    /// The larger of the two.
    fn max(self, other: Self) -> Self {
        if self >= other { self } else { other }
    }

    /// The smaller of the two.
    fn min(self, other: Self) -> Self {
        if self <= other { self } else { other }
    }
}

impl Scalar for f64 {
    #[inline]
    fn of(n: u64) -> f64 {
        n as f64
    }

    #[inline]
    fn from_f64(x: f64) -> f64 {
        x
    }

    #[inline]
    fn to_f64(self) -> f64 {
        self
    }

    #[inline]
    fn sqrt(self) -> f64 {
        libm::sqrt(self)
    }
}

/// A value and its derivative along one direction (forward-mode differentiation).
///
/// Two duals are compared by their values alone. At a kink of `min` or `max` the derivative is that
/// of the branch taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dual {
    /// The value.
    pub value: f64,
    /// Derivative.
    pub slope: f64,
}

impl Add for Dual {
    type Output = Dual;
    fn add(self, other: Dual) -> Dual {
        Dual {
            value: self.value + other.value,
            slope: self.slope + other.slope,
        }
    }
}

impl Sub for Dual {
    type Output = Dual;
    fn sub(self, other: Dual) -> Dual {
        Dual {
            value: self.value - other.value,
            slope: self.slope - other.slope,
        }
    }
}

impl Mul for Dual {
    type Output = Dual;
    fn mul(self, other: Dual) -> Dual {
        let slope = self.slope * other.value + self.value * other.slope;
        Dual {
            value: self.value * other.value,
            slope,
        }
    }
}

impl Div for Dual {
    type Output = Dual;
    fn div(self, other: Dual) -> Dual {
        let value = self.value / other.value;
        Dual {
            value,
            slope: (self.slope - value * other.slope) / other.value,
        }
    }
}

impl PartialEq for Dual {
    fn eq(&self, other: &Dual) -> bool {
        self.value == other.value
    }
}

impl PartialOrd for Dual {
    fn partial_cmp(&self, other: &Dual) -> Option<Ordering> {
        self.value.partial_cmp(&other.value)
    }
}

impl Scalar for Dual {
    fn of(n: u64) -> Dual {
        Dual::from_f64(n as f64)
    }

    fn from_f64(x: f64) -> Dual {
        Dual {
            value: x,
            slope: 0.0,
        }
    }

    fn to_f64(self) -> f64 {
        self.value
    }

    fn sqrt(self) -> Dual {
        let value = libm::sqrt(self.value);
        Dual {
            value,
            slope: self.slope / (2.0 * value),
        }
    }
}
