//! Counters of a link.

use crate::fate::Cause;
use crate::time::Time;
use crate::transmission::Attobits;

/// A number of packets and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets.
    pub packets: u64,
    /// Bytes, headers included.
    pub bytes: u64,
}

impl Tally {
    fn add(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }
}

/// Totals of a link at one time. `arrived` is always `accepted`, the packets dropped for each
/// [`Cause`], and those whose fate is not known yet: none at a [`Link`](crate::Link), which decides
/// at the offer, and those that wait at a [`QueuedLink`](crate::QueuedLink). Bits are counted when
/// they leave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets offered.
    pub arrived: Tally,
    /// Packets that reach, or will reach, the other end.
    pub accepted: Tally,
    /// Bits of accepted packets that have been transmitted, in attobits. In a packet that is being
    /// transmitted they grow with time, or with the opportunities of a trace. In any time they
    /// therefore grow by at most what the rate allows.
    pub delivered: Attobits,
    /// Sum over the accepted packets of the time from arrival to the start of transmission, ps.
    pub waited_ps: u128,
    /// Packets accepted that the link marked instead of dropping them.
    pub marked: u64,
    dropped: [Tally; Cause::COUNT],
}

impl Counters {
    /// Packets dropped for one cause.
    pub fn dropped(&self, cause: Cause) -> Tally {
        self.dropped[cause as usize]
    }

    /// Packets dropped, of every cause.
    pub fn lost(&self) -> u64 {
        self.dropped.iter().map(|tally| tally.packets).sum()
    }

    #[inline(always)]
    pub(crate) fn count_arrived(&mut self, bytes: u32) {
        self.arrived.add(bytes);
    }

    pub(crate) fn count_transmitted(&mut self, bytes: u32, wait: Time, marked: bool) {
        self.accepted.add(bytes);
        self.waited_ps += u128::from(wait);
        self.marked += u64::from(marked);
    }

    pub(crate) fn count_lost(&mut self, bytes: u32, cause: Cause) {
        self.dropped[cause as usize].add(bytes);
    }
}
