//! The half of a stream that comes from the peer.

use std::collections::VecDeque;
use std::task::Waker;

use tokio::io::ReadBuf;

use super::outgoing::shrink;
use crate::window::FIRST;

/// How far the half is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Data or the end is still to come.
    Open,
    /// All data and the end were received.
    Ended,
    /// The peer has given up before the end.
    Reset,
    /// A reset by this side: the stream was not read, and others need its window.
    Stalled,
    /// The reader was dropped.
    Stopped,
}

/// Received data.
#[derive(Debug)]
pub struct Incoming {
    pub state: State,
    /// How much the peer may still send, bytes.
    left: u64,
    /// The position up to which it may send.
    limit: u64,
    unread: VecDeque<u8>,
    /// Task that waits for data.
    pub reader: Option<Waker>,
}

impl Incoming {
    /// Starts with nothing received.
    pub fn new() -> Incoming {
        Incoming {
            state: State::Open,
            left: FIRST,
            limit: FIRST,
            unread: VecDeque::new(),
            reader: None,
        }
    }

    /// Takes data from the peer; `false` if it was not allowed to send it.
    #[must_use]
    pub fn receive(&mut self, bytes: &[u8]) -> bool {
        let left = self.left.checked_sub(bytes.len() as u64);
        if let Some(left) = left {
            self.left = left;
            self.unread.extend(bytes);
        }
        left.is_some()
    }

    /// Lets the peer send up to this position.
    pub fn raise(&mut self, limit: u64) {
        self.left += limit - self.limit;
        self.limit = limit;
    }

    /// Ends it.
    pub fn end(&mut self, state: State) {
        self.state = state;
        if state != State::Ended {
            self.unread = VecDeque::new();
        }
    }

    /// Copies what fits into the buffer; how much.
    pub fn read(&mut self, buffer: &mut ReadBuf<'_>) -> usize {
        let bytes = self.unread.len().min(buffer.remaining());
        let (first, second) = self.unread.as_slices();
        let of_first = bytes.min(first.len());
        buffer.put_slice(&first[..of_first]);
        buffer.put_slice(&second[..bytes - of_first]);
        self.unread.drain(..bytes);
        shrink(&mut self.unread);
        bytes
    }
}
