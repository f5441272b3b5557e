//! Counters of a link.

use crate::fate::Cause;
use crate::time::Time;

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

/// Totals of a link. A packet is counted when it is offered, because its fate is known then:
/// `arrived` is always `delivered` plus the packets dropped for each [`Cause`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets offered.
    pub arrived: Tally,
    /// Packets that reach, or will reach, the other end.
    pub delivered: Tally,
    /// Sum over the delivered packets of the time from arrival to the start of transmission, ps.
    pub waited_ps: u128,
    dropped: [Tally; 4],
}

impl Counters {
    /// Packets dropped for one cause.
    pub fn dropped(&self, cause: Cause) -> Tally {
        self.dropped[cause as usize]
    }

    pub(crate) fn count_delivered(&mut self, bytes: u32, wait: Time) {
        self.arrived.add(bytes);
        self.delivered.add(bytes);
        self.waited_ps += u128::from(wait);
    }

    pub(crate) fn count_dropped(&mut self, bytes: u32, cause: Cause) {
        self.arrived.add(bytes);
        self.dropped[cause as usize].add(bytes);
    }
}
