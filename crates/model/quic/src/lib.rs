//! Any rule of `anabranch-control` over QUIC with several paths, in virtual time.
//!
//! A [`Simulation`] runs one scenario with one seed: real QUIC endpoints with real TLS 1.3 (the
//! library noq-proto, which does no I/O) send datagrams over the links of `anabranch-net`. Each
//! connection has one controller, which its paths share. The result has the tables of every
//! backend; `docs/reference/quic.md` says what differs.
//!
//! ```
//! use anabranch_quic::Simulation;
//! use anabranch_scenario::{Scenario, Virtual};
//!
//! let text = b"
//!     algorithm = 'reno'
//!     measure = { duration_s = 10, warmup_s = 2 }
//!     links.R1 = { rate_mbps = 10, delay_ms = 20 }
//!     flows = [{ name = 'user', paths = [['R1']] }]
//! ";
//! let scenario = Scenario::parse(text, "one.toml", &[])?;
//! let record = Simulation::new(&scenario, 1)?.finish();
//! // About 1432 of every 1500 bytes are payload.
//! let goodput_mbps = record.flows.goodput_mbps[0];
//! assert!((9.4..9.6).contains(&goodput_mbps), "{goodput_mbps}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(feature = "simulation")]
mod connection;
pub mod controller;
#[cfg(feature = "simulation")]
mod network;
#[cfg(feature = "simulation")]
mod simulation;
#[cfg(feature = "simulation")]
mod transport;
pub mod watch;

#[cfg(feature = "simulation")]
#[doc(hidden)]
pub use network::Operation;
#[cfg(feature = "simulation")]
pub use simulation::{Simulation, Unsupported, check};
