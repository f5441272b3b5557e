//! The reordering window of RACK (RFC 8985, section 6.2, steps 3 and 4): how late a packet may be.

use std::collections::BTreeMap;

use anabranch_net::Time;

use crate::connection::sender::{DUPLICATES, Sender};
use crate::ecn::Bits;
use crate::network::{Acknowledgement, PacketNumber};

/// Recoveries without a duplicate after which a window that has grown is small again
/// (`RACK.reo_wnd_persist`).
const PERSISTS: u32 = 16;

/// What is known of reordering on a path.
#[derive(Debug)]
pub(super) struct Reordering {
    /// Whether a packet's first transmission has arrived after that of a later packet. The RFC
    /// counts packets that were never sent again; as in Linux (`tcp_try_undo_partial`), the echoed
    /// timestamp tells the first transmission of others, too.
    seen: bool,
    /// All packets that are known to have arrived are below this (`RACK.fack`).
    end: PacketNumber,
    /// The cumulative acknowledgement.
    una: PacketNumber,
    /// When packets from `una` on were sent again first.
    again: BTreeMap<PacketNumber, Time>,
    /// The window in quarters of the smallest RTT (`RACK.reo_wnd_mult`), for how many recoveries,
    /// and until when it does not grow again (`RACK.dsack_round`).
    quarters: u32,
    persists: u32,
    round_end: Option<PacketNumber>,
    was_recovering: bool,
}

impl Default for Reordering {
    fn default() -> Reordering {
        Reordering {
            seen: false,
            end: 0,
            una: 0,
            again: BTreeMap::new(),
            quarters: 1,
            persists: 0,
            round_end: None,
            was_recovering: false,
        }
    }
}

impl Reordering {
    /// A packet is sent again.
    pub fn on_sent_again(&mut self, now: Time, sequence: PacketNumber) {
        self.again.entry(sequence).or_insert(now);
    }

    /// Processes an acknowledgement; `of_probe`: it reports that a probe arrived twice.
    pub fn on_ack(&mut self, sender: &mut Sender, ack: &Acknowledgement, of_probe: bool) {
        let sequence = ack.selective;
        let duplicate = ack.ecn.has(Bits::DUPLICATE);
        let again = self.again.get(&sequence);
        let is_first = again.is_none_or(|&again| ack.sent_at < again);
        if !duplicate && is_first && (self.una..self.end.max(1) - 1).contains(&sequence) {
            self.seen = true;
            sender.ignore_duplicates();
        }
        self.end = self.end.max(sequence + 1).max(ack.cumulative);
        self.una = self.una.max(ack.cumulative);
        while let Some(first) = self.again.first_entry()
            && *first.key() < self.una
        {
            first.remove();
        }
        self.adapt(sender, duplicate && !of_probe);
    }

    /// Grows by a quarter of the smallest RTT in a round trip that shows that a retransmission was
    /// not needed; as in Linux (`tcp_dsack_seen`), only on a path that reorders.
    fn adapt(&mut self, sender: &Sender, duplicate: bool) {
        let recovered = self.was_recovering && !sender.is_recovering();
        if self.round_end.is_some_and(|end| self.una >= end) {
            self.round_end = None;
        }
        if duplicate && self.seen && self.round_end.is_none() {
            self.round_end = Some(sender.next());
            self.quarters += 1;
            self.persists = PERSISTS;
        } else if recovered {
            self.persists = self.persists.saturating_sub(1);
            if self.persists == 0 {
                self.quarters = 1;
            }
        }
        self.was_recovering = sender.is_recovering();
    }

    /// The window. Without reordering it is 0 in recovery and with three arrivals above a hole.
    pub fn window(&self, sender: &Sender, min_rtt: Option<Time>, smoothed: Option<Time>) -> Time {
        let sure = sender.is_recovering() || sender.arrived() >= DUPLICATES;
        if !self.seen && sure {
            return 0;
        }
        let window = Time::from(self.quarters) * min_rtt.unwrap_or_default() / 4;
        smoothed.map_or(window, |smoothed| window.min(smoothed))
    }
}
