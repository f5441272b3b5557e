//! Connections of a tunnel: what waits for each, and what each has received in part; and the queue
//! of datagrams.

use std::collections::VecDeque;
use std::task::Waker;

use bytes::Bytes;

use super::decoder::Decoder;

/// Data that a stream may send before it takes the bulk connection, bytes. Half as much is
/// forgotten each second.
const LITTLE: u64 = 256 << 10;

/// Connection of a tunnel: an ordered sequence of bytes. Loss or delay in one does not delay the
/// other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// The first connection. It carries the data of streams that send much, and everything until
    /// there is a second one.
    Bulk,
    /// The second connection. It carries frames about streams, datagrams, and the data of streams
    /// that send little.
    Express,
}

impl Lane {
    /// Both connections.
    pub const ALL: [Lane; 2] = [Lane::Bulk, Lane::Express];
}

/// One end of a connection.
#[derive(Debug, Default)]
pub struct Ends {
    pub decoder: Decoder,
    /// Data that the second connection has not delivered. It goes before everything else.
    pub again: Vec<u8>,
    /// Frames that go before all others.
    pub first: Vec<u8>,
    /// Streams whose next data goes over this connection, in the order of their turns.
    pub turns: VecDeque<u32>,
    /// Task that calls `transmit` once there is something to send.
    pub sender: Option<Waker>,
}

/// Amount that a stream has sent lately.
#[derive(Debug, Default)]
pub struct Recent {
    bytes: u64,
    is_much: bool,
}

impl Recent {
    /// Counts sent data.
    pub fn sent(&mut self, bytes: usize) {
        self.bytes = (self.bytes + bytes as u64).min(2 * LITTLE);
        self.is_much |= self.bytes >= LITTLE;
    }

    /// Forgets a part each second. A stream that has sent much stays bulk until it rests, so that
    /// it changes the connection once in some seconds at most.
    pub fn tick(&mut self) {
        self.bytes = self.bytes.saturating_sub(LITTLE / 2);
        self.is_much &= self.bytes > 0;
    }

    /// Whether the stream is bulk.
    pub fn is_much(&self) -> bool {
        self.is_much
    }
}

/// The largest datagram, bytes.
pub const LARGEST_DATAGRAM: usize = 65_534;

/// Most datagrams that wait; then the oldest is discarded.
const WAITING: usize = 256;

/// Most bytes that wait.
const WAITING_BYTES: usize = 1 << 20;

/// A queue that discards its oldest datagrams.
#[derive(Debug, Default)]
pub struct Datagrams {
    queue: VecDeque<Bytes>,
    bytes: usize,
}

impl Datagrams {
    /// Adds a datagram; the oldest ones go if there are too many.
    pub fn push(&mut self, datagram: Bytes) {
        self.bytes += datagram.len();
        self.queue.push_back(datagram);
        while self.queue.len() > WAITING || self.bytes > WAITING_BYTES {
            self.pop();
        }
    }

    /// Takes the oldest datagram.
    pub fn pop(&mut self) -> Option<Bytes> {
        let datagram = self.queue.pop_front()?;
        self.bytes -= datagram.len();
        Some(datagram)
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Size of all datagrams together, bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
