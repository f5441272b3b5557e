//! A packet that arrives at a link, and the packets it finds there.

use crate::time::Time;

/// The packets that wait at a link: those whose transmission has not started. The packet in
/// service does not count, as in ns-2 and in the queueing disciplines of Linux.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Packets waiting.
    pub packets: u32,
    /// Bytes waiting.
    pub bytes: u64,
}

/// View that a queueing discipline has of an arrival.
pub(crate) struct Arrival {
    pub(crate) now: Time,
    pub(crate) bytes: u32,
    /// Whether it may be marked instead of dropped (ECT, RFC 3168).
    pub(crate) ecn_capable: bool,
    /// Whether the packet would have to wait.
    pub(crate) waits: bool,
    /// When the transmission of the last packet before it ends or ended.
    pub(crate) free_at: Time,
    /// The packets that wait before it.
    pub(crate) backlog: Backlog,
}
