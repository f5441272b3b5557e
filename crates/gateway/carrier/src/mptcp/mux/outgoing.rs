//! Sending half of a stream.

use std::collections::VecDeque;
use std::task::{Context, Waker};

use super::lane::Recent;

/// Data that each stream can queue even if the others have taken all room of the tunnel, bytes.
const OWN_ROOM: usize = 16 << 10;

/// State of the half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Data is taken.
    Open,
    /// The writer has ended it; the end is not sent yet.
    Ending,
    /// The end was sent.
    Ended,
    /// The peer has received everything.
    Received,
    /// The peer needs no more data.
    Stopped,
    /// The writer was dropped before the end.
    Reset,
}

/// Queue of a stream's data, and the peer's window.
#[derive(Debug)]
pub struct Outgoing {
    pub state: State,
    /// Position up to which the peer takes data; data was sent up to `sent`.
    limit: u64,
    sent: u64,
    pub recent: Recent,
    /// Whether the stream is queued for its turn.
    pub has_turn: bool,
    queue: VecDeque<u8>,
    /// Part of the queue that takes room shared by all streams, bytes.
    shared: usize,
    /// Task that waits, and the length of the queue at which it is woken, bytes.
    writer: Option<(Waker, usize)>,
}

impl Outgoing {
    /// A half with an empty queue, and the window that the peer gives a new stream.
    pub fn new(window: u64) -> Outgoing {
        Outgoing {
            state: State::Open,
            limit: window,
            sent: 0,
            recent: Recent::default(),
            has_turn: false,
            queue: VecDeque::new(),
            shared: 0,
            writer: None,
        }
    }

    /// Whether the stream may send something now.
    pub fn is_ready(&self) -> bool {
        match self.queue.is_empty() {
            true => self.state == State::Ending,
            false => self.sent < self.limit,
        }
    }

    /// Whether sending is over: everything was sent, and was received or need not be.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Received | State::Stopped | State::Reset)
    }

    /// Position up to which data was sent.
    pub fn position(&self) -> u64 {
        self.sent
    }

    /// Raises the position up to which the peer takes data.
    pub fn raise(&mut self, limit: u64) {
        self.limit = self.limit.max(limit);
    }

    /// Queues as much as fits into a queue of `limit` bytes and into the `room` of all streams, and
    /// reduces the room. Returns the number of bytes.
    pub fn queue(&mut self, bytes: &[u8], limit: usize, room: &mut usize) -> usize {
        let queued = self.queue.len();
        let wanted = bytes.len().min(limit.saturating_sub(queued));
        let own = OWN_ROOM.saturating_sub(queued).min(wanted);
        let shared = (wanted - own).min(*room);
        *room -= shared;
        self.shared += shared;
        self.queue.extend(&bytes[..own + shared]);
        own + shared
    }

    /// Size of the next frame's body, at most `largest` bytes.
    pub fn next(&self, largest: usize) -> usize {
        let allowed = usize::try_from(self.limit - self.sent).unwrap_or(usize::MAX);
        self.queue.len().min(allowed).min(largest)
    }

    /// Moves data from the queue, and returns the writer if it is to be woken.
    pub fn send(&mut self, bytes: usize, to: &mut Vec<u8>, room: &mut usize) -> Option<Waker> {
        let (first, second) = self.queue.as_slices();
        let of_first = bytes.min(first.len());
        to.extend_from_slice(&first[..of_first]);
        to.extend_from_slice(&second[..bytes - of_first]);
        self.queue.drain(..bytes);
        shrink(&mut self.queue);
        self.sent += bytes as u64;
        self.recent.sent(bytes);
        let back = self.shared.min(bytes);
        self.shared -= back;
        *room += back;
        let queued = self.queue.len();
        self.writer
            .take_if(|(_, level)| queued <= *level)
            .map(|(writer, _)| writer)
    }

    /// Discards the queue. Returns its size.
    pub fn discard(&mut self, state: State, room: &mut usize) -> usize {
        self.state = state;
        *room += std::mem::take(&mut self.shared);
        std::mem::take(&mut self.queue).len()
    }

    /// Wakes the task when half of the queue was sent, or the state changes.
    pub fn wait(&mut self, cx: &Context<'_>) {
        self.writer = Some((cx.waker().clone(), self.queue.len() / 2));
    }

    /// Takes the task that waits.
    pub fn take_writer(&mut self) -> Option<Waker> {
        self.writer.take().map(|(writer, _)| writer)
    }
}

/// Returns memory that a queue no longer needs.
pub fn shrink(queue: &mut VecDeque<u8>) {
    let used = queue.len().max(OWN_ROOM);
    if queue.capacity() > 4 * used {
        queue.shrink_to(2 * used);
    }
}
