//! When a link transmits one packet.

use crate::time::Time;

/// The transmission of one packet: from its first bit to its last, ps.
pub(crate) struct Transmission {
    pub(crate) start: Time,
    pub(crate) end: Time,
}
