//! Datagrams that wait.

use std::collections::VecDeque;

use bytes::Bytes;

/// The largest datagram, bytes.
pub const LARGEST_DATAGRAM: usize = 65_534;

/// How many wait; then the oldest is discarded.
const WAITING: usize = 256;

/// Limit of the size of all that wait, bytes.
const WAITING_BYTES: usize = 1 << 20;

/// A queue that discards the oldest.
#[derive(Debug, Default)]
pub struct Datagrams {
    queue: VecDeque<Bytes>,
    bytes: usize,
}

impl Datagrams {
    /// Adds one; the oldest go if there are too many.
    pub fn push(&mut self, datagram: Bytes) {
        self.bytes += datagram.len();
        self.queue.push_back(datagram);
        while self.queue.len() > WAITING || self.bytes > WAITING_BYTES {
            self.pop();
        }
    }

    /// The oldest.
    pub fn pop(&mut self) -> Option<Bytes> {
        let datagram = self.queue.pop_front()?;
        self.bytes -= datagram.len();
        Some(datagram)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The size of all together, bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
