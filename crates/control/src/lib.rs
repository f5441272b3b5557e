//! Congestion control over one or several paths.
//!
//! A [`Rule`] is a law of congestion avoidance, written once and generic over its number: what a path
//! gains per acknowledged packet and what it gives up at a loss. A [`Controller`] is the machinery
//! all rules share: slow start, recovery, timeouts, floors, round trips. [`RULES`] lists every rule,
//! and an [`Algorithm`] is one of them with its parameters, as a user writes it: `balia:cap=inf`.
//!
//! There is no clock, no I/O and no randomness here: time comes in as an argument.

#![no_std]

extern crate alloc;

mod algorithm;
mod controller;
mod path;
mod rule;
pub mod rules;
mod scalar;

pub use algorithm::Algorithm;
pub use controller::{Ack, Controller, MAX_WINDOW, Phase};
pub use path::{Path, fastest_rate, total_rate, total_window};
pub use rule::{Parameter, Rule, phi};
pub use rules::{AnyController, AnyRule, Custom, External, Info, RULES};
pub use scalar::{Dual, Scalar};
