//! The sender's scoreboard of a path: which packets are sent, arrived and lost.
//!
//! Loss is found as RFC 6675 says (three packets above it have arrived; the limited transmit of RFC
//! 3042 comes with it), or without selective acknowledgements as RFC 6582 says (three duplicates,
//! then a hole at each partial acknowledgement). A packet that is lost again after its
//! retransmission waits for the timer in both; `rack.rs` detects that too. The controller computes
//! the window.

use std::ops::Range;

use crate::connection::numbers::NumberSet;
use crate::network::{Acknowledgement, PacketNumber};

/// Duplicate acknowledgements, or packets arrived above a hole, that indicate a loss (RFC 5681).
pub(super) const DUPLICATES: u32 = 3;

/// The change that an acknowledgement made at the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AckOutcome {
    /// Packets known to have arrived that were not known before.
    pub delivered: u32,
    /// Whether `una` moved.
    pub advanced: bool,
    /// All that was outstanding at the last loss event has arrived.
    pub recovered: bool,
    /// A loss event: the first loss found since the last recovery ended.
    pub loss: bool,
}

/// The sending side of one path; sequence numbers count packets.
#[derive(Debug, Default)]
pub(crate) struct Sender {
    /// The first packet not acknowledged.
    una: PacketNumber,
    /// The next packet to be sent for the first time.
    next: PacketNumber,
    /// Packets above `una` that have arrived: known by number, or as a count of duplicates.
    arrived: u32,
    /// Packets declared lost and not sent again yet.
    lost: u32,
    /// Packets reported by the blocks of the acknowledgement that is processed next.
    reported: u32,
    /// Packets declared lost since this was last taken.
    newly_lost: u32,
    /// `next` when the last recovery began.
    recovery_point: PacketNumber,
    recovering: bool,
    /// The end of the packets that were sent again.
    resent_end: PacketNumber,
    /// Whether a recovery that ends below `resent_end` goes on, as it does in Linux: there a packet
    /// that is sent again counts as lost until it arrives (`tcp_time_to_recover`). Otherwise only a
    /// later loss begins the next recovery.
    pub joins_recoveries: bool,
    /// Whether a timeout began the recovery.
    timed_out: bool,
    /// Whether acknowledgements are selective.
    selective: bool,
    /// The three highest packets that arrived above `una`, highest first, plus 1; 0 is none.
    highest: [PacketNumber; DUPLICATES as usize],
    /// All below this have been classified as lost or arrived; the largest number if arrivals above
    /// a packet do not declare it lost.
    classified: PacketNumber,
    /// No lost packet is below this.
    lost_from: PacketNumber,
    arrived_bits: NumberSet,
    lost_bits: NumberSet,
}

impl Sender {
    pub fn new(selective: bool) -> Sender {
        Sender {
            selective,
            ..Sender::default()
        }
    }

    /// The sender's estimate of packets in the network (RFC 6675's pipe).
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.outstanding().saturating_sub(self.arrived + self.lost)
    }

    /// Packets sent and not yet acknowledged cumulatively.
    #[inline]
    pub fn outstanding(&self) -> u32 {
        (self.next - self.una) as u32
    }

    /// Whether acknowledgements are selective.
    pub fn is_selective(&self) -> bool {
        self.selective
    }

    /// The first packet not acknowledged.
    #[inline]
    pub fn una(&self) -> PacketNumber {
        self.una
    }

    /// The next packet to be sent for the first time.
    pub fn next(&self) -> PacketNumber {
        self.next
    }

    /// Whether a loss or a timeout is being repaired.
    #[inline]
    pub fn is_recovering(&self) -> bool {
        self.recovering
    }

    /// Packets above the first hole that have arrived.
    pub fn arrived(&self) -> u32 {
        self.arrived
    }

    /// Whether a packet is outstanding, has not arrived, and is not declared lost.
    pub fn is_in_flight(&self, sequence: PacketNumber) -> bool {
        let outstanding = (self.una..self.next).contains(&sequence);
        let known = self.arrived_bits.contains(sequence) || self.lost_bits.contains(sequence);
        outstanding && !known
    }

    /// Whether an outstanding packet is lost and not sent again yet.
    pub fn is_lost(&self, sequence: PacketNumber) -> bool {
        self.lost_bits.contains(sequence)
    }

    /// The first packet from `from` on that is lost and not sent again yet.
    pub fn first_lost(&self, from: PacketNumber) -> Option<PacketNumber> {
        self.lost_bits.first(from..self.next)
    }

    /// Whether a packet above the first hole has arrived.
    pub fn has_arrived(&self, sequence: PacketNumber) -> bool {
        sequence >= self.una && self.arrived_bits.contains(sequence)
    }

    /// Whether a lost packet waits to be sent again.
    #[inline]
    pub fn has_lost(&self) -> bool {
        self.lost > 0
    }

    /// Whether packets were declared lost since that was last [taken](Self::take_newly_lost).
    #[inline]
    pub fn has_newly_lost(&self) -> bool {
        self.newly_lost > 0
    }

    /// Takes the number of packets declared lost since the last call.
    #[inline]
    pub fn take_newly_lost(&mut self) -> u32 {
        std::mem::take(&mut self.newly_lost)
    }

    /// Numbers a packet that is sent for the first time.
    #[inline]
    pub fn send_new(&mut self) -> PacketNumber {
        self.next += 1;
        self.next - 1
    }

    /// Takes the lowest lost packet, to be sent again.
    pub fn send_lost(&mut self) -> Option<PacketNumber> {
        let sequence = self
            .lost_bits
            .first(self.lost_from.max(self.una)..self.next)?;
        self.lost_bits.remove(sequence);
        self.lost -= 1;
        self.lost_from = sequence + 1;
        self.resent_end = self.resent_end.max(sequence + 1);
        Some(sequence)
    }

    /// Processes an acknowledgement.
    #[inline(always)]
    pub fn on_ack(&mut self, ack: &Acknowledgement) -> AckOutcome {
        let mut outcome = AckOutcome {
            delivered: std::mem::take(&mut self.reported),
            ..AckOutcome::default()
        };
        if ack.cumulative > self.una {
            outcome.delivered += self.advance(ack.cumulative);
            outcome.advanced = true;
        } else if !self.selective && ack.cumulative == self.una && self.outstanding() > 0 {
            outcome.delivered += self.count_duplicate();
        }
        // Acknowledgements may overtake one another: what is below `una` is known.
        if self.selective && ack.selective > self.una {
            outcome.delivered += self.mark_arrived(ack.selective);
        }
        if self.recovering && self.una >= self.recovery_point {
            if self.joins_recoveries && self.una < self.resent_end {
                self.recovery_point = self.next;
            } else {
                self.recovering = false;
                outcome.recovered = true;
            }
        }
        outcome.loss = self.begins_recovery();
        outcome
    }

    /// Begins a recovery if a packet is lost and there is none; true if so.
    #[inline]
    pub fn begins_recovery(&mut self) -> bool {
        let begins = self.lost > 0 && !self.recovering;
        if begins {
            self.begin_recovery();
        }
        begins
    }

    /// Declares lost a packet that is in flight. Arrivals above it do not declare it lost again.
    pub fn declare_lost(&mut self, sequence: PacketNumber) {
        self.classified = self.classified.max(sequence + 1);
        self.mark_lost(sequence);
    }

    /// Arrivals above a packet do not declare it lost any more: the path reorders, and another
    /// detects losses (RFC 8985).
    pub fn ignore_duplicates(&mut self) {
        self.classified = PacketNumber::MAX;
    }

    /// The timer expired: all that has not arrived is declared lost.
    pub fn on_timeout(&mut self) {
        if !self.selective {
            self.arrived = 0;
        }
        for sequence in self.una..self.next {
            self.mark_lost(sequence);
        }
        self.classified = self.classified.max(self.next);
        self.lost_from = self.una;
        self.begin_recovery();
        self.timed_out = true;
    }

    /// The last timeout was spurious: what was declared lost, and is not sent again yet, is in
    /// flight. There was no recovery before that timeout. The recovery point stays, so that
    /// duplicates caused by retransmissions start no recovery (RFC 6582).
    pub fn undo_timeout(&mut self) {
        self.lost -= self.lost_bits.remove_range(self.una..self.next);
        if self.classified != PacketNumber::MAX {
            self.classified = self.highest[2].saturating_sub(1);
        }
        self.recovering = false;
        self.timed_out = false;
    }

    fn begin_recovery(&mut self) {
        self.recovering = true;
        self.timed_out = false;
        self.recovery_point = self.next;
    }

    #[inline(always)]
    fn advance(&mut self, cumulative: PacketNumber) -> u32 {
        let passed = self.una..cumulative;
        let mut delivered = (cumulative - self.una) as u32;
        self.una = cumulative;
        if self.arrived + self.lost > 0 {
            let known = if self.selective {
                self.arrived_bits.remove_range(passed.clone())
            } else {
                // The hole itself was not among the duplicates (Linux counts the same way).
                self.arrived.min(delivered - 1)
            };
            self.arrived -= known;
            delivered -= known;
            self.lost -= self.lost_bits.remove_range(passed);
        }
        if !self.selective {
            self.after_partial();
        }
        delivered
    }

    /// RFC 6582: an acknowledgement that does not reach the recovery point shows the next hole.
    fn after_partial(&mut self) {
        self.bound_arrived();
        if self.una >= self.recovery_point || self.una == self.next {
            self.arrived = 0;
        } else if self.recovering && self.una >= self.classified {
            self.classified = self.una + 1;
            self.mark_lost(self.una);
        }
    }

    /// Packets that were late have arrived twice and caused duplicates, too: not all of them are of
    /// packets that are outstanding.
    fn bound_arrived(&mut self) {
        self.arrived = self.arrived.min(self.outstanding() - self.lost);
    }

    fn count_duplicate(&mut self) -> u32 {
        // After a timeout duplicates acknowledge packets that were declared lost. If they opened
        // the window, each would cause a retransmission, whose acknowledgement is a duplicate
        // again.
        let stale = self.recovering && self.timed_out;
        if stale || self.arrived + self.lost >= self.outstanding() {
            return 0;
        }
        self.arrived += 1;
        let fresh = self.una > self.recovery_point || self.recovery_point == 0;
        if self.arrived == DUPLICATES && !self.recovering && fresh {
            self.classified = self.una + 1;
            self.mark_lost(self.una);
        }
        1
    }

    #[inline]
    fn mark_arrived(&mut self, sequence: PacketNumber) -> u32 {
        let new = self.note_arrived(sequence);
        if new > 0 {
            self.classify();
        }
        new
    }

    /// Marks all packets of the blocks that an acknowledgement of all below `cumulative` reports,
    /// and then those below them that are lost. [`on_ack`](Self::on_ack) processes the rest.
    #[cold]
    pub fn on_blocks(&mut self, cumulative: PacketNumber, blocks: &[Range<PacketNumber>]) {
        self.arrived_bits.reserve(self.una..self.next);
        for block in blocks {
            let (mut at, end) = (block.start.max(self.una), block.end.min(self.next));
            while let Some(sequence) = self.arrived_bits.first_missing(at..end) {
                self.reported += self.note_arrived(sequence);
                at = sequence + 1;
            }
        }
        self.classified = self.classified.max(cumulative);
        self.classify();
    }

    #[inline]
    fn note_arrived(&mut self, sequence: PacketNumber) -> u32 {
        if !self.arrived_bits.insert(sequence, self.una..self.next) {
            return 0;
        }
        self.arrived += 1;
        self.lost -= u32::from(self.lost_bits.remove(sequence));
        let [first, second, third] = &mut self.highest;
        let mut mark = sequence + 1;
        for place in [first, second, third] {
            if mark > *place {
                std::mem::swap(place, &mut mark);
            }
        }
        1
    }

    /// Marks lost what is below the third highest arrival: three have arrived above it.
    #[inline]
    fn classify(&mut self) {
        let classified = self.highest[2].saturating_sub(1);
        for unseen in self.classified.max(self.una)..classified {
            self.mark_lost(unseen);
        }
        self.classified = self.classified.max(classified);
    }

    fn mark_lost(&mut self, sequence: PacketNumber) {
        let arrived = self.selective && self.arrived_bits.contains(sequence);
        if !arrived && self.lost_bits.insert(sequence, self.una..self.next) {
            self.lost += 1;
            self.newly_lost += 1;
            self.lost_from = self.lost_from.min(sequence);
            if !self.selective {
                self.bound_arrived();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(cumulative: PacketNumber, selective: PacketNumber) -> Acknowledgement {
        Acknowledgement {
            cumulative,
            selective,
            ..Acknowledgement::default()
        }
    }

    fn arrive(sender: &mut Sender, sequences: [PacketNumber; 3]) {
        for sequence in sequences {
            sender.on_ack(&ack(0, sequence));
        }
    }

    fn sender(selective: bool, packets: u32) -> Sender {
        let mut sender = Sender::new(selective);
        (0..packets).for_each(|_| {
            sender.send_new();
        });
        sender
    }

    #[test]
    fn three_arrivals_above_a_hole_declare_it_lost() {
        let mut sender = sender(true, 6);
        assert!(!sender.on_ack(&ack(0, 1)).loss);
        assert!(!sender.on_ack(&ack(0, 2)).loss);
        assert!(sender.on_ack(&ack(0, 3)).loss);
        // 6 sent, 3 arrived, 1 lost.
        assert_eq!(sender.in_flight(), 2);
        assert_eq!(sender.send_lost(), Some(0));
        assert_eq!(sender.in_flight(), 3);
        // 4 and 5 arrive, then the retransmission fills the hole.
        sender.on_ack(&ack(0, 4));
        sender.on_ack(&ack(0, 5));
        let outcome = sender.on_ack(&ack(6, 0));
        assert_eq!(
            outcome,
            AckOutcome {
                delivered: 1,
                advanced: true,
                recovered: true,
                loss: false
            }
        );
        assert_eq!(sender.in_flight(), 0);
    }

    #[test]
    fn losses_of_one_window_are_one_event() {
        let mut sender = sender(true, 10);
        // 0 and 4 are lost: arrivals 1, 2, 3 then 5, 6, 7.
        let events: Vec<bool> = [1, 2, 3, 5, 6, 7]
            .iter()
            .map(|&s| sender.on_ack(&ack(0, s)).loss)
            .collect();
        assert_eq!(events, [false, false, true, false, false, false]);
        assert_eq!([sender.send_lost(), sender.send_lost()], [Some(0), Some(4)]);
        assert_eq!(sender.send_lost(), None);
    }

    #[test]
    fn a_loss_after_recovery_is_another_event() {
        let mut sender = sender(true, 4);
        arrive(&mut sender, [1, 2, 3]);
        sender.send_lost();
        (0..6).for_each(|_| {
            sender.send_new();
        });
        // 4 to 9 sent in recovery; 4 is lost; the hole at 0 is filled last.
        arrive(&mut sender, [5, 6, 7]);
        let outcome = sender.on_ack(&ack(4, 0));
        assert!(outcome.recovered && outcome.loss);
        assert_eq!(sender.send_lost(), Some(4));
    }

    #[test]
    fn a_timeout_declares_all_lost_that_has_not_arrived() {
        let mut sender = sender(true, 5);
        sender.on_ack(&ack(0, 2));
        sender.on_timeout();
        assert_eq!(sender.in_flight(), 0);
        let again: Vec<PacketNumber> = std::iter::from_fn(|| sender.send_lost()).collect();
        assert_eq!(again, [0, 1, 3, 4]);
        assert!(
            !sender.on_ack(&ack(1, 0)).loss,
            "the timeout was the loss event"
        );
    }

    #[test]
    fn an_undone_timeout_leaves_in_flight_what_was_not_sent_again() {
        for selective in [true, false] {
            let mut sender = sender(selective, 5);
            sender.on_timeout();
            assert_eq!(sender.send_lost(), Some(0));
            // The acknowledgement of the first transmission of packet 0.
            sender.on_ack(&ack(1, 0));
            sender.undo_timeout();
            assert_eq!((sender.in_flight(), sender.send_lost()), (4, None));
            assert!(!sender.is_recovering());
        }
        // Packet 1 is lost after all: found as any other.
        let mut sender = sender(true, 5);
        sender.on_timeout();
        sender.send_lost();
        sender.on_ack(&ack(1, 0));
        sender.undo_timeout();
        let losses = [2, 3, 4].map(|sequence| sender.on_ack(&ack(1, sequence)).loss);
        assert_eq!(losses, [false, false, true]);
        assert_eq!(sender.send_lost(), Some(1));
    }

    #[test]
    fn without_sack_each_partial_acknowledgement_shows_one_hole() {
        let mut sender = sender(false, 10);
        // 0 and 4 are lost; 1, 2, 3 and 5 to 9 arrive as eight duplicates.
        let events: Vec<bool> = (0..8).map(|_| sender.on_ack(&ack(0, 1)).loss).collect();
        assert_eq!(events.iter().position(|&loss| loss), Some(2));
        assert_eq!([sender.send_lost(), sender.send_lost()], [Some(0), None]);
        assert_eq!(sender.in_flight(), 2, "10 sent, 8 duplicates");
        let outcome = sender.on_ack(&ack(4, 0));
        assert!(!outcome.recovered && !outcome.loss);
        assert_eq!(sender.send_lost(), Some(4));
        assert!(sender.on_ack(&ack(10, 4)).recovered);
        assert_eq!(sender.in_flight(), 0);
    }

    #[test]
    fn duplicates_of_an_old_recovery_do_not_start_a_new_one() {
        let mut sender = sender(false, 8);
        sender.on_timeout();
        while sender.send_lost().is_some() {}
        let outcome = [0; 4].map(|_| sender.on_ack(&ack(0, 9)));
        assert!(outcome.iter().all(|outcome| !outcome.loss));
    }

    #[test]
    fn duplicates_after_a_timeout_do_not_free_the_window() {
        let mut sender = sender(false, 8);
        sender.on_timeout();
        sender.send_lost();
        (0..4).for_each(|_| {
            sender.on_ack(&ack(0, 9));
        });
        // Packet 0 is in flight again; 1 to 7 wait for it to open the window.
        assert_eq!(sender.in_flight(), 1);
        sender.on_ack(&ack(1, 0));
        assert_eq!(sender.in_flight(), 0);
    }

    /// Ten packets, of which 0, 4 and 8 are lost, and the acknowledgements of 1 to 7, too: that of
    /// 9 reports the three blocks, the latest first. Below the third highest arrival, 6, are 0 and
    /// 4.
    #[test]
    fn blocks_report_what_lost_acknowledgements_did() {
        let mut sender = sender(true, 10);
        sender.on_blocks(0, &[9..10, 5..8, 1..4]);
        assert_eq!(
            sender.take_newly_lost(),
            2,
            "and not what a later block reports"
        );
        let outcome = sender.on_ack(&ack(0, 9));
        assert_eq!((outcome.delivered, outcome.loss), (7, true));
        assert_eq!([sender.send_lost(), sender.send_lost()], [Some(0), Some(4)]);
        assert_eq!(sender.send_lost(), None);
        // The same blocks again, and what is acknowledged already, are nothing new.
        sender.on_blocks(4, &[9..10, 5..8]);
        assert_eq!(sender.on_ack(&ack(4, 9)).delivered, 1, "only 0");
    }

    /// A packet that the same acknowledgement covers cumulatively is not lost.
    #[test]
    fn nothing_below_the_cumulative_number_is_lost() {
        let mut sender = sender(true, 10);
        sender.on_blocks(4, &[9..10, 7..8, 5..6]);
        assert!(sender.on_ack(&ack(4, 9)).loss);
        assert_eq!(sender.take_newly_lost(), 1);
        assert_eq!([sender.send_lost(), sender.send_lost()], [Some(4), None]);
    }
}
