//! Queue of datagrams.

use std::collections::VecDeque;

use bytes::Bytes;

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
