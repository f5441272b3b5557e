//! A discrete-event packet simulator for TCP and Multipath TCP.
//!
//! A [`Simulation`] runs one scenario with one seed in virtual time, in integer picoseconds, and
//! fills the tables of a Result. Data packets cross links with queues; acknowledgements return over
//! a pure delay, or over links if the path names them (`back`).
//!
//! ```
//! use anabranch_scenario::{Scenario, Virtual};
//! use anabranch_sim::Simulation;
//!
//! let text = b"
//!     algorithm = 'reno'
//!     measure = { duration_s = 20, warmup_s = 5 }
//!     links.R1 = { rate_mbps = 10, delay_ms = 20 }
//!     flows = [{ name = 'user', paths = [['R1']] }]
//! ";
//! let scenario = Scenario::parse(text, "one.toml", &[])?;
//! let record = Simulation::new(&scenario, 1).finish();
//! // 1448 of every 1500 bytes are payload.
//! let goodput_mbps = record.flows.goodput_mbps[0];
//! assert!((9.6..9.66).contains(&goodput_mbps), "{goodput_mbps}");
//! # Ok::<(), anabranch_scenario::Error>(())
//! ```

mod build;
mod calendar;
mod connection;
mod ecn;
mod network;
mod prefetch;
mod simulation;

pub use simulation::Simulation;
pub use simulation::steering::{PathState, Steered, Steering};
