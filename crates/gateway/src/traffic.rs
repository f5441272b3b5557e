//! What both gateways do with traffic: relaying, UDP associations, DNS messages, limits.

use std::time::Duration;

pub mod association;
pub mod connect;
pub mod dns;
pub mod limits;
pub mod queue;
pub mod relay;
pub mod udp;

/// What is left to the carriers' own tasks to send the closing of tunnels. Without it the peer waits
/// until it misses answers.
pub(crate) const FAREWELL: Duration = Duration::from_millis(100);
