//! Congestion control over one or several paths.
//!
//! A [`Rule`] is a law of congestion avoidance, written once and generic over its number: the
//! increase of a window per acknowledged packet and its decrease at a loss. A [`Controller`] is the
//! machinery all rules share: slow start, recovery, timeouts, floors, round trips. [`RULES`] lists
//! every rule, and an [`Algorithm`] is one of them with its parameters, such as `balia:cap=inf`. A
//! [`Coupling`] says which of a connection's paths the rule couples.
//!
//! ```
//! use anabranch_control::{Ack, Algorithm};
//!
//! let mut controller = Algorithm::parse("olia")?.controller(2, 10.0);
//! let ack = Ack {
//!     now: 0.10, // s
//!     sent_at: 0.0,
//!     packets: 1,
//!     rtt: Some(0.10),
//!     queue_delay: None, // not known
//!     window_limited: true,
//! };
//! controller.on_ack(0, &ack); // slow start: one packet more
//! assert_eq!(controller.window(0), 11.0);
//! controller.on_loss(0);
//! assert_eq!(controller.window(0), 5.5);
//! # Ok::<(), anabranch_control::SpecError>(())
//! ```
//!
//! There is no clock, no I/O and no randomness here: time is an argument.

#![forbid(unsafe_code)]
#![no_std]

extern crate alloc;

mod algorithm;
mod bottleneck;
mod controller;
mod coupling;
mod delivery;
mod itcp;
pub mod nada;
mod path;
mod rule;
pub mod rules;
mod scalar;
mod soft;

pub use algorithm::{Algorithm, SpecError};
pub use bottleneck::Detector;
pub use controller::{
    Ack, Answer, Controller, Foreign, ForeignController, Happening, Kind, LOSS_INTERVAL_GAIN,
    Listener, MAX_WINDOW, Phase, SMALLEST_SSTHRESH, SMALLEST_SSTHRESH_ONE_PATH, Start,
};
pub use coupling::Coupling;
pub use delivery::{Delivery, Event, Sample, Stamp, WindowedMax};
pub use itcp::{Adjuster, BufferSample, Guard, RateAdjustment, Trend};
pub use nada::{MediaReport, Nada};
pub use path::{PACING_GAIN, Path, fastest_rate, total_rate, total_window};
pub use rule::{BESIDE_BBR, BETA_ECN, Parameter, Rule, phi};
pub use rules::{AnyController, AnyRule, Custom, External, Info, Property, RULES};
pub use scalar::{Dual, Scalar};
pub use soft::Soft;
