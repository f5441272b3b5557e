//! What all endpoints of a scenario have in common.

use anabranch_net::Time;
use anabranch_scenario::{Recovery, RtoFloor, Scheduler};

/// How every endpoint of a scenario behaves.
#[derive(Clone, Debug)]
pub(crate) struct Tcp {
    pub packet_bytes: u16,
    pub header_bytes: u16,
    pub min_rto: Time,
    pub rto_floor: RtoFloor,
    /// Whether spurious timeouts are undone.
    pub undo: bool,
    pub delayed_acks: bool,
    /// Whether the first acknowledgements are not delayed.
    pub quick_acks: bool,
    pub recovery: Recovery,
    /// Where slow start ends on a new path, in packets.
    pub initial_ssthresh: f64,
    /// The receive buffer in packets.
    pub receive_buffer: u32,
    pub scheduler: Scheduler,
    /// A path's send buffer in windows.
    pub send_buffer_windows: u32,
    /// The most unsent data in a path's queue, in packets.
    pub notsent: u32,
    /// The longest time for which the sender's host delays a packet.
    pub host_jitter: Time,
}

impl Tcp {
    /// Payload of a full packet.
    pub fn payload(&self) -> u64 {
        u64::from(self.packet_bytes - self.header_bytes)
    }
}
