//! The operations of `Soft` as functions of words, for their LLVM IR.

#![no_std]
#![allow(dead_code)]

// Functions of libm that soft.rs uses are not in these operations.
extern crate self as libm;

#[path = "../../model/control/src/scalar.rs"]
pub mod scalar;
#[path = "../../model/control/src/soft.rs"]
pub mod soft;

use scalar::Scalar;
use soft::Soft;

pub fn frexp(_: f64) -> (f64, i32) {
    unimplemented!()
}

pub fn ldexp(_: f64, _: i32) -> f64 {
    unimplemented!()
}

pub fn sqrt(_: f64) -> f64 {
    unimplemented!()
}

macro_rules! operations {
    ($($name:ident($a:ident $(, $b:ident)?) -> $result:ty { $body:expr })*) => {
        $(
            #[unsafe(no_mangle)]
            pub extern "C" fn $name($a: u64 $(, $b: u64)?) -> $result {
                $(let $b = Soft::from_bits($b);)?
                $body
            }
        )*
    };
}

operations! {
    soft_of(n) -> u64 { Soft::of(n).to_bits() }
    soft_add(a, b) -> u64 { (Soft::from_bits(a) + b).to_bits() }
    soft_sub(a, b) -> u64 { (Soft::from_bits(a) - b).to_bits() }
    soft_mul(a, b) -> u64 { (Soft::from_bits(a) * b).to_bits() }
    soft_div(a, b) -> u64 { (Soft::from_bits(a) / b).to_bits() }
    soft_max(a, b) -> u64 { Soft::from_bits(a).max(b).to_bits() }
    soft_min(a, b) -> u64 { Soft::from_bits(a).min(b).to_bits() }
    soft_less(a, b) -> u64 { u64::from(Soft::from_bits(a) < b) }
    soft_at_least(a, b) -> u64 { u64::from(Soft::from_bits(a) >= b) }
}
