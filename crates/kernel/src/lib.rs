//! The coupled rules as congestion control of the Linux kernel, by eBPF.

mod algorithm;
pub mod doctor;

pub use algorithm::{Choice, PROGRAMS, Program};
