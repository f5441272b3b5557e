//! The connections of a tunnel: what waits for each, and what each has received in part.

use std::collections::VecDeque;
use std::task::Waker;

use super::frame::Decoder;

/// What a stream may send, beyond half of it in each second, before its data takes the bulk
/// connection, bytes.
const LITTLE: u64 = 256 << 10;

/// A connection of a tunnel. Each is an ordered sequence of bytes; what is lost or late in one does
/// not delay the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// The first one. It carries the data of streams that send much, and everything until there is
    /// the other one.
    Bulk,
    /// It carries frames about streams, datagrams, and the data of streams that send little.
    Express,
}

impl Lane {
    /// Both.
    pub const ALL: [Lane; 2] = [Lane::Bulk, Lane::Express];
}

/// One end of a connection.
#[derive(Debug, Default)]
pub struct Ends {
    pub decoder: Decoder,
    /// What the second connection has not delivered, before everything else.
    pub again: Vec<u8>,
    /// Frames that go before all others.
    pub first: Vec<u8>,
    /// Streams whose next data goes over this connection, in the order of their turns.
    pub turns: VecDeque<u32>,
    /// Task that calls `transmit` once there is something to send.
    pub sender: Option<Waker>,
}

/// How much a stream has sent lately.
#[derive(Debug, Default)]
pub struct Recent {
    bytes: u64,
    is_much: bool,
}

impl Recent {
    /// Counts data.
    pub fn sent(&mut self, bytes: usize) {
        self.bytes = (self.bytes + bytes as u64).min(2 * LITTLE);
        self.is_much |= self.bytes >= LITTLE;
    }

    /// A second has passed. A stream that has sent much is bulk until it rests: its data changes
    /// the connection once in some seconds at most.
    pub fn tick(&mut self) {
        self.bytes = self.bytes.saturating_sub(LITTLE / 2);
        self.is_much &= self.bytes > 0;
    }

    /// Whether it is bulk.
    pub fn is_much(&self) -> bool {
        self.is_much
    }
}
