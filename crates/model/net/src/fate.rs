//! Fates of packets that are offered to a link.

use crate::time::Time;

/// Fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It reaches the other end.
    Delivered {
        /// When its last bit arrives, ps.
        at: Time,
    },
    /// It is lost.
    Dropped(Cause),
}

/// Why a packet is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The queue was full, or a policer had no tokens.
    Overflow,
    /// RED dropped it early.
    Red,
    /// It was lost on the wire, at random.
    Random,
    /// The link was down, or went down before the packet was transmitted.
    Down,
    /// CoDel or PIE dropped it, to hold the delay of the queue at its target.
    Aqm,
}

impl Cause {
    /// The number of causes.
    pub const COUNT: usize = 5;
}
