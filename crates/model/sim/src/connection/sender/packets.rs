//! The outstanding packets of a path whose rule acts by delivery rates, and when it may send.

use std::collections::VecDeque;

use anabranch_control::Stamp;
use anabranch_net::Time;

use crate::connection::timer::Timer;
use crate::network::PacketNumber;

/// What became of an outstanding packet since it was sent last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    InFlight,
    Lost,
    Arrived,
}

/// An outstanding packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub stamp: Stamp,
    fate: Fate,
    /// Whether it was sent more than once, so that its RTT is not known.
    pub again: bool,
}

/// The outstanding packets of a path, and when it may send.
#[derive(Debug, Default)]
pub(crate) struct Packets {
    /// Packets by sequence number, from `first` on.
    sent: VecDeque<Sent>,
    first: PacketNumber,
    /// When the next packet may be sent (`C.next_send_time`).
    pub next_send: Time,
    pub timer: Timer,
}

impl Packets {
    /// Notes a packet that is sent, for the first time or again.
    pub fn note_sent(&mut self, sequence: PacketNumber, stamp: Stamp) {
        let place = (sequence - self.first) as usize;
        let again = place < self.sent.len();
        let sent = Sent {
            stamp,
            fate: Fate::InFlight,
            again,
        };
        if again {
            self.sent[place] = sent;
        } else {
            self.sent.push_back(sent);
        }
    }

    /// The packet, if it was not known to have arrived.
    pub fn arrives(&mut self, sequence: PacketNumber) -> Option<&Sent> {
        let place = sequence.checked_sub(self.first)? as usize;
        let sent = self.sent.get_mut(place)?;
        let before = std::mem::replace(&mut sent.fate, Fate::Arrived);
        (before != Fate::Arrived).then_some(sent)
    }

    /// Forgets the packets below `una`; reports those that were not known to have arrived.
    pub fn advance(&mut self, una: PacketNumber, report: impl FnMut(&Sent)) {
        let passed = (una - self.first).min(self.sent.len() as u64) as usize;
        self.first += passed as u64;
        let unknown = self.sent.range(..passed);
        unknown
            .filter(|sent| sent.fate != Fate::Arrived)
            .for_each(report);
        self.sent.drain(..passed);
    }

    /// The packet, if it was not known to be lost.
    pub fn is_lost(&mut self, sequence: PacketNumber) -> Option<Stamp> {
        let place = sequence.checked_sub(self.first)? as usize;
        let sent = self.sent.get_mut(place)?;
        let before = std::mem::replace(&mut sent.fate, Fate::Lost);
        (before == Fate::InFlight).then_some(sent.stamp)
    }
}
