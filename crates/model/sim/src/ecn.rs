//! Explicit congestion notification (RFC 3168): its bits in packets, and its state at the ends of a
//! path.

use anabranch_scenario as scenario;

/// The bits of a packet or of an acknowledgement; 0 of data without ECN. Numbers, because a `bool`
/// would change how every packet is copied (the niche of its `Option`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bits(u16);

impl Bits {
    /// A link may mark the packet instead of dropping it (ECT).
    pub const CAPABLE: Bits = Bits(1);
    /// A link marked it (CE).
    pub const MARKED: Bits = Bits(2);
    /// The sender has reduced its window since the last echo (CWR).
    pub const REDUCED: Bits = Bits(4);
    /// The receiver echoes a mark (ECE).
    pub const ECHO: Bits = Bits(8);
    /// The packet is an acknowledgement, on the links of its path's way back.
    pub const ACK: Bits = Bits(16);
    /// The packet is a part of a frame of media.
    pub const MEDIA: Bits = Bits(32);
    /// The acknowledged packet had arrived before (a duplicate SACK, RFC 2883).
    pub const DUPLICATE: Bits = Bits(128);
    /// The packet is a probe (TCP's keepalive). In an acknowledgement a part of a count.
    pub const PROBE: Bits = Bits(256);
    /// The sender reduces its window by the share of marks (ECT(1), RFC 9331).
    pub const SCALABLE: Bits = Bits(64);

    /// An acknowledgement that counts marks: how many packets have arrived marked, modulo 256. Of
    /// AccECN's two counters (RFC 9768) the header's has 3 bits, the option's 24.
    fn counting(marks: u8) -> Bits {
        Bits(u16::from(marks) << 8)
    }

    fn marks(self) -> u8 {
        (self.0 >> 8) as u8
    }

    #[inline]
    pub fn has(self, bit: Bits) -> bool {
        self.0 & bit.0 != 0
    }

    /// Whether these are the bits of data.
    #[inline]
    pub fn are_of_data(self) -> bool {
        self.0 & (Bits::ACK.0 | Bits::MEDIA.0 | Bits::PROBE.0) == 0
    }

    pub fn set(&mut self, bit: Bits) {
        self.0 |= bit.0;
    }
}

/// The state of both ends of a path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ecn {
    /// The receiver echoes a mark in each acknowledgement until it sees the sender's CWR.
    echoing: bool,
    /// The next new packet carries CWR.
    reduced: bool,
    /// Until everything below this is acknowledged, the window is not reduced again.
    pub reduced_until: Option<u64>,
    /// The state of ends whose acknowledgements count marks.
    accurate: Option<Accurate>,
}

/// Marks as acknowledgements count them.
#[derive(Clone, Copy, Debug, Default)]
struct Accurate {
    /// Whether packets say that their sender reduces by the share of marks.
    scalable: bool,
    /// Packets that have arrived marked, as the receiver counts them.
    received: u8,
    /// The last of the receiver's counts that the sender has heard.
    known: u8,
    /// Packets acknowledged in this round trip.
    acknowledged: u32,
    /// Marked packets among them.
    marked: u32,
    /// The round trip ends when everything below this is acknowledged (`WindowEnd` of RFC 8257,
    /// section 3.3).
    round_end: u64,
}

impl Ecn {
    /// Both ends of a path of a scenario; `None` without ECN.
    pub fn new(mode: scenario::Ecn) -> Option<Ecn> {
        let accurate = (mode == scenario::Ecn::Accurate).then(Accurate::default);
        (mode != scenario::Ecn::Off).then(|| Ecn {
            accurate,
            ..Ecn::default()
        })
    }

    /// The rule reduces by the share of marks: packets say so if acknowledgements count them.
    pub fn set_scalable(&mut self) {
        if let Some(accurate) = &mut self.accurate {
            accurate.scalable = true;
        }
    }

    /// Whether marks are counted for a rule that reduces by their share.
    pub fn is_scalable(&self) -> bool {
        self.accurate.is_some_and(|accurate| accurate.scalable)
    }

    /// Takes the bits of an acknowledgement and the number of packets that it delivers, at the
    /// sender; true if a mark is echoed.
    pub fn hear(&mut self, bits: Bits, delivered: u32) -> bool {
        let Some(accurate) = &mut self.accurate else {
            return bits.has(Bits::ECHO);
        };
        accurate.acknowledged += delivered;
        // Serial numbers (RFC 1982): fewer are those of an acknowledgement that was overtaken.
        let new = bits.marks().wrapping_sub(accurate.known).cast_signed();
        if new <= 0 {
            return false;
        }
        accurate.known = bits.marks();
        accurate.marked += u32::from(new.unsigned_abs());
        true
    }

    /// The share of packets that were marked in the round trip that is over, if one is, where
    /// everything below `una` is acknowledged and `next` is the next new packet.
    pub fn share_of_round(&mut self, una: u64, next: u64) -> Option<f64> {
        let accurate = self.accurate.as_mut()?;
        if una < accurate.round_end || accurate.acknowledged == 0 {
            return None;
        }
        // Packets that arrive twice are marked without being delivered.
        let share = f64::from(accurate.marked) / f64::from(accurate.acknowledged);
        (accurate.acknowledged, accurate.marked) = (0, 0);
        accurate.round_end = next;
        Some(share.min(1.0))
    }

    /// The receiver gets a packet; true if it was marked.
    pub fn receive(&mut self, bits: Bits) -> bool {
        if bits.has(Bits::REDUCED) {
            self.echoing = false;
        }
        self.echoing |= bits.has(Bits::MARKED);
        if let Some(accurate) = &mut self.accurate {
            let marks = u8::from(bits.has(Bits::MARKED));
            accurate.received = accurate.received.wrapping_add(marks);
        }
        bits.has(Bits::MARKED)
    }

    /// The bits of an acknowledgement.
    pub fn of_ack(&self) -> Bits {
        match &self.accurate {
            Some(accurate) => Bits::counting(accurate.received),
            None if self.echoing => Bits::ECHO,
            None => Bits::default(),
        }
    }

    /// The bits of a packet that is sent for the first time; retransmissions have none (RFC 3168,
    /// section 6.1.5).
    pub fn of_new(&mut self) -> Bits {
        let mut bits = Bits::CAPABLE;
        match &self.accurate {
            Some(accurate) if accurate.scalable => bits.set(Bits::SCALABLE),
            Some(_) => {}
            None if std::mem::take(&mut self.reduced) => bits.set(Bits::REDUCED),
            None => {}
        }
        bits
    }

    /// The window was reduced, for any reason: the receiver is told.
    pub fn on_reduced(&mut self) {
        self.reduced = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(marked: bool, reduced: bool) -> Bits {
        let mut bits = Bits::CAPABLE;
        if marked {
            bits.set(Bits::MARKED);
        }
        if reduced {
            bits.set(Bits::REDUCED);
        }
        bits
    }

    #[test]
    fn a_mark_is_echoed_until_the_sender_says_that_it_has_reduced_its_window() {
        let mut ecn = Ecn::default();
        let echoes = [
            packet(false, false),
            packet(true, false),
            packet(false, false),
            packet(false, true),
            packet(false, false),
            // Marked on its way: the reduction that it tells of was for an earlier mark.
            packet(true, true),
        ]
        .map(|bits| {
            ecn.receive(bits);
            ecn.of_ack().has(Bits::ECHO)
        });
        assert_eq!(echoes, [false, true, true, false, false, true]);
    }

    #[test]
    fn counted_marks_are_echoed_once_whatever_is_reduced() {
        let mut ecn = Ecn::new(scenario::Ecn::Accurate).expect("ECN");
        ecn.on_reduced();
        assert!(!ecn.of_new().has(Bits::REDUCED) && !ecn.of_new().has(Bits::SCALABLE));
        ecn.set_scalable();
        assert!(ecn.of_new().has(Bits::SCALABLE));
        // Two marks before an acknowledgement of three packets, none before the next of one.
        for marked in [true, false, true] {
            ecn.receive(packet(marked, false));
        }
        let first = ecn.of_ack();
        ecn.receive(packet(false, false));
        let second = ecn.of_ack();
        assert_eq!([ecn.hear(first, 3), ecn.hear(second, 1)], [true, false]);
        assert_eq!(ecn.share_of_round(4, 10), Some(0.5));
    }

    /// Three of four packets are marked, and the acknowledgement of the first arrives after that of
    /// the second.
    #[test]
    fn an_acknowledgement_that_was_overtaken_counts_no_marks() {
        let mut ecn = Ecn::new(scenario::Ecn::Accurate).expect("ECN");
        let heard = [(2, 1), (1, 1), (3, 2)].map(|(marks, n)| ecn.hear(Bits::counting(marks), n));
        assert_eq!(heard, [true, false, true]);
        assert_eq!(ecn.share_of_round(4, 10), Some(0.75));
    }

    #[test]
    fn a_count_of_marks_begins_again_after_255() {
        let mut ecn = Ecn::new(scenario::Ecn::Accurate).expect("ECN");
        for _ in 0..300 {
            ecn.receive(packet(true, false));
            assert!(ecn.hear(ecn.of_ack(), 1));
        }
        assert_eq!(ecn.share_of_round(300, 400), Some(1.0));
    }

    /// The first round trip ends with the first acknowledgement, the second when what was sent by
    /// then is acknowledged: 10 packets, of which 2 marked.
    #[test]
    fn a_round_trip_is_over_when_what_was_sent_before_it_is_acknowledged() {
        let mut ecn = Ecn::new(scenario::Ecn::Accurate).expect("ECN");
        ecn.hear(Bits::default(), 1);
        assert_eq!(ecn.share_of_round(1, 11), Some(0.0));
        ecn.hear(Bits::counting(1), 4);
        assert_eq!(ecn.share_of_round(5, 15), None);
        ecn.hear(Bits::counting(2), 6);
        assert_eq!(ecn.share_of_round(11, 21), Some(0.2));
    }

    #[test]
    fn a_reduction_is_told_once() {
        let mut ecn = Ecn::default();
        ecn.on_reduced();
        assert_eq!(
            [(); 2].map(|()| ecn.of_new().has(Bits::REDUCED)),
            [true, false]
        );
    }
}
