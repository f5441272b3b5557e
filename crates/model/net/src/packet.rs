//! A packet at a link: what it finds when it arrives, when it is transmitted, its fate, counters of
//! all, and those that wait.

use std::collections::VecDeque;

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

// When a link transmits one packet, and how much of it.

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

// Fates of packets that are offered to a link.

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

// Counters of a link.

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

// Packets that wait, first in, first out.

/// A packet that waits at a [`QueuedLink`](crate::QueuedLink).
#[derive(Clone, Debug)]
pub(crate) struct Waiting<T> {
    pub(crate) packet: T,
    pub(crate) bytes: u32,
    /// When it was offered.
    pub(crate) arrived: Time,
    /// Whether it may be marked instead of dropped (ECT, RFC 3168).
    pub(crate) ecn_capable: bool,
    pub(crate) marked: bool,
}

/// Waiting packets and their bytes.
#[derive(Clone, Debug)]
pub(crate) struct Fifo<T> {
    packets: VecDeque<Waiting<T>>,
    bytes: u64,
}

impl<T> Default for Fifo<T> {
    fn default() -> Self {
        Fifo {
            packets: VecDeque::new(),
            bytes: 0,
        }
    }
}

impl<T> Fifo<T> {
    pub(crate) fn push(&mut self, packet: Waiting<T>) {
        self.bytes += u64::from(packet.bytes);
        self.packets.push_back(packet);
    }

    pub(crate) fn pop(&mut self) -> Option<Waiting<T>> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.bytes);
        Some(packet)
    }

    /// When the head was offered; `None` without a packet.
    pub(crate) fn head_arrived(&self) -> Option<Time> {
        self.packets.front().map(|head| head.arrived)
    }

    pub(crate) fn backlog(&self) -> Backlog {
        Backlog {
            packets: self.packets.len() as u32,
            bytes: self.bytes,
        }
    }
}
