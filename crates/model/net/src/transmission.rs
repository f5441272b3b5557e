//! When a link transmits one packet, and how much of it.

use crate::time::Time;

/// 10^-18 bit, which a rate of one millionth of a bit per second transmits in one picosecond: the
/// bits that a link of any rate transmits in any time are a whole number of them.
pub type Attobits = u128;

/// The attobits of a byte.
pub const ATTOBITS_PER_BYTE: Attobits = 8_000_000_000_000_000_000;

/// The transmission of one packet: from its first bit to its last, ps.
pub(crate) struct Transmission {
    pub(crate) start: Time,
    pub(crate) end: Time,
}
