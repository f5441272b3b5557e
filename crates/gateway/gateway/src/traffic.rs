//! Traffic of both gateways: relaying, UDP associations, limits.

use std::time::Duration;

pub mod association;
pub mod limits;
pub mod rate;
pub mod relay;
pub mod tasks;
pub mod udp;

/// Time for the carriers' tasks to report that tunnels are closed. Without it the peer notices only
/// after a timeout.
pub(crate) const FAREWELL: Duration = Duration::from_millis(100);
