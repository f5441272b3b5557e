//! What an endpoint reports to its controller.

/// An acknowledgement.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// When it arrived, s.
    pub now: f64,
    /// When the packet that caused it was sent, s.
    pub sent_at: f64,
    /// Packets newly known to be delivered.
    pub packets: u32,
    /// RTT sample, s; `None` without one. A sample that is not positive and finite is ignored.
    pub rtt: Option<f64>,
    /// Queueing and service delay of that packet on the forward path, s, not negative; `None` if
    /// not known.
    pub queue_delay: Option<f64>,
    /// Whether the window, not the application or the receiver, limited the sender. If not, no
    /// window grows.
    pub window_limited: bool,
}
