//! The real-time backend: a scenario with real Linux hosts.
//!
//! Each user is a network namespace with a TUN device per path; one more namespace is the server
//! that all users send to. One thread reads every packet from the devices, takes it through the
//! links of its path ([`anabranch_net::Link`], driven by the clock) and writes it to the device at
//! the other end. The hosts are the kernel's own: its TCP, its Multipath TCP, its path manager.

pub mod address;
mod agents;
mod algorithms;
pub mod capture;
pub mod check;
mod clock;
mod connection;
pub mod door;
mod error;
mod forwarder;
pub mod host;
mod lab;
mod lateness;
mod ledger;
mod leftovers;
pub mod network;
pub mod packet;
pub mod program;
mod setup;
mod sys;

pub use error::Error;
pub use lab::{Lab, Outcome, end_at_a_panic};
pub use lateness::Summary;
pub use sys::open_tun;
