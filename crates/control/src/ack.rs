//! What an endpoint tells its controller.

/// What an acknowledgement tells.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// When it arrived, s.
    pub now: f64,
    /// When the packet that caused it was sent, s.
    pub sent_at: f64,
    /// Packets newly known to be delivered.
    pub packets: u32,
    /// RTT sample, s; none if it is not a positive number.
    pub rtt: f64,
    /// Queueing and service delay of that packet on the forward way, s; negative where it is not
    /// known.
    pub queue_delay: f64,
    /// Whether the window, not the application or the receiver, held the sender back. If not, no
    /// window grows.
    pub window_limited: bool,
}
