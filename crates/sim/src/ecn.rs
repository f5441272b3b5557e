//! Explicit congestion notification (RFC 3168): what packets and endpoints of a path know of it.

/// The bits of a data packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bits {
    /// A link may mark it instead of dropping it (ECT).
    pub capable: bool,
    /// A link marked it (CE).
    pub marked: bool,
    /// The sender has reduced its window since the last echo (CWR).
    pub reduced: bool,
}

/// The state of both ends of a path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ecn {
    /// The receiver echoes a mark in each acknowledgement until it sees the sender's CWR.
    pub echoing: bool,
    /// The next new packet carries CWR.
    reduced: bool,
    /// Until everything below this is acknowledged, the window is not reduced again.
    pub reduced_until: Option<u64>,
}

impl Ecn {
    /// The receiver gets a packet; true if it was marked.
    #[inline]
    pub fn receive(&mut self, bits: Bits) -> bool {
        if bits.reduced {
            self.echoing = false;
        }
        self.echoing |= bits.marked;
        bits.marked
    }

    /// The bits of a packet that is sent for the first time; retransmissions have none (RFC 3168,
    /// section 6.1.5).
    #[inline]
    pub fn of_new(&mut self) -> Bits {
        Bits {
            capable: true,
            marked: false,
            reduced: std::mem::take(&mut self.reduced),
        }
    }

    /// The window was reduced, for any reason: the receiver is told.
    pub fn on_reduced(&mut self) {
        self.reduced = true;
    }
}
