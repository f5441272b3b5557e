//! Explicit congestion notification (RFC 3168): what packets and endpoints of a path know of it.

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
    pub const DUPLICATE: Bits = Bits(64);

    #[inline]
    pub fn has(self, bit: Bits) -> bool {
        self.0 & bit.0 != 0
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
}

impl Ecn {
    /// The receiver gets a packet; true if it was marked.
    pub fn receive(&mut self, bits: Bits) -> bool {
        if bits.has(Bits::REDUCED) {
            self.echoing = false;
        }
        self.echoing |= bits.has(Bits::MARKED);
        bits.has(Bits::MARKED)
    }

    /// The bits of an acknowledgement.
    pub fn of_ack(&self) -> Bits {
        if self.echoing {
            Bits::ECHO
        } else {
            Bits::default()
        }
    }

    /// The bits of a packet that is sent for the first time; retransmissions have none (RFC 3168,
    /// section 6.1.5).
    pub fn of_new(&mut self) -> Bits {
        let mut bits = Bits::CAPABLE;
        if std::mem::take(&mut self.reduced) {
            bits.set(Bits::REDUCED);
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
    fn a_reduction_is_told_once() {
        let mut ecn = Ecn::default();
        ecn.on_reduced();
        assert_eq!(
            [(); 2].map(|()| ecn.of_new().has(Bits::REDUCED)),
            [true, false]
        );
    }
}
