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

/// Totals of a link at one time. Packets are counted when they are offered, because their fate is
/// known then: `arrived` is always `accepted` plus the packets dropped for each [`Cause`]. Bits are
/// counted when they leave.
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
    dropped: [Tally; 4],
}

impl Counters {
    /// Packets dropped for one cause.
    pub fn dropped(&self, cause: Cause) -> Tally {
        self.dropped[cause as usize]
    }

    pub(crate) fn count_accepted(&mut self, bytes: u32, wait: Time) {
        self.arrived.add(bytes);
        self.accepted.add(bytes);
        self.waited_ps += u128::from(wait);
    }

    pub(crate) fn count_dropped(&mut self, bytes: u32, cause: Cause) {
        self.arrived.add(bytes);
        self.dropped[cause as usize].add(bytes);
    }
}
