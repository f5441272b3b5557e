//! The real-time backend: a scenario with real Linux hosts.
//!
//! Each user is a network namespace with a TUN device per path; one more namespace is the server
//! that all users send to. One thread reads every packet from the devices, takes it through the
//! links of its path ([`anabranch_net::Link`], driven by the clock) and writes it to the device at
//! the other end. The hosts are the kernel's own: its TCP, its Multipath TCP, its path manager.

mod agents;
pub mod check;
pub mod control_socket;
mod error;
pub mod hosts;
mod lab;
pub mod network;

pub use error::Error;
pub use hosts::program;
pub use hosts::sys::open_tun;
pub use lab::{Lab, Outcome, end_at_a_panic};
pub use network::lateness::Summary;
