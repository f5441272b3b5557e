//! Halves of a stream: the receiving one and the sending one (RFC 9000, section 3).

use std::collections::{BTreeMap, VecDeque};
use std::task::{Context, Waker};

use tokio::io::ReadBuf;

use super::lane::Recent;
use crate::window::FIRST;

/// Most pieces of a stream that wait for earlier data. A stream changes the connection once in some
/// seconds, and a connection that delivers nothing for 20 s ends the tunnel.
const PIECES: usize = 64;

const TWICE: &str = "the peer has sent a part of a stream twice";

/// State of the half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveState {
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

/// Receiving half of a stream.
#[derive(Debug)]
pub struct Incoming {
    pub state: ReceiveState,
    /// Position up to which all data was received.
    received: u64,
    /// Position up to which the peer may send.
    limit: u64,
    /// Position of the end, if it is known.
    end: Option<u64>,
    /// Data that waits for earlier data, by position.
    ahead: BTreeMap<u64, Vec<u8>>,
    unread: VecDeque<u8>,
    /// Task that waits for data.
    pub reader: Option<Waker>,
}

impl Incoming {
    /// A half that has received nothing.
    pub fn new() -> Incoming {
        Incoming {
            state: ReceiveState::Open,
            received: 0,
            limit: FIRST,
            end: None,
            ahead: BTreeMap::new(),
            unread: VecDeque::new(),
            reader: None,
        }
    }

    /// Takes data from the peer.
    ///
    /// # Errors
    /// If it was not allowed to send it.
    pub fn receive(&mut self, position: u64, bytes: &[u8]) -> Result<(), String> {
        let end = position.checked_add(bytes.len() as u64);
        let end = end.filter(|end| *end <= self.end.unwrap_or(self.limit));
        let end = end.ok_or("the peer has sent more in a stream than it may")?;
        if position != self.received {
            return self.keep(position, end, bytes);
        }
        let next = self.ahead.first_key_value();
        if next.is_some_and(|(next, _)| *next < end) {
            return Err(TWICE.to_owned());
        }
        self.unread.extend(bytes);
        self.received = end;
        while let Some(next) = self.ahead.remove(&self.received) {
            self.received += next.len() as u64;
            self.unread.extend(next);
        }
        Ok(())
    }

    /// Keeps data that waits for earlier data.
    fn keep(&mut self, position: u64, end: u64, bytes: &[u8]) -> Result<(), String> {
        let later = self.ahead.range(position..).next();
        let is_free = position > self.received && later.is_none_or(|(later, _)| *later >= end);
        if let Some((before, piece)) = self.ahead.range_mut(..position).next_back() {
            let before = before + piece.len() as u64;
            if before == position && is_free {
                piece.extend(bytes);
                return Ok(());
            }
            if before > position {
                return Err(TWICE.to_owned());
            }
        }
        if !is_free {
            return Err(TWICE.to_owned());
        }
        if self.ahead.len() == PIECES {
            return Err("the peer has sent a stream in too many pieces".to_owned());
        }
        self.ahead.insert(position, bytes.to_vec());
        Ok(())
    }

    /// Data that waits for earlier data, bytes.
    pub fn ahead_bytes(&self) -> u64 {
        self.ahead.values().map(|piece| piece.len() as u64).sum()
    }

    /// Lets the peer send up to this position.
    pub fn raise(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// Records where the data ends. Returns `false` if there is data beyond, or the peer may not
    /// send so much.
    #[must_use]
    pub fn ends_at(&mut self, end: u64) -> bool {
        let last = self.ahead.last_key_value();
        let sent = last.map_or(self.received, |(last, piece)| last + piece.len() as u64);
        let fits = self.end.is_none() && (sent..=self.limit).contains(&end);
        self.end = Some(end);
        fits
    }

    /// Whether all data and the end were received.
    pub fn is_complete(&self) -> bool {
        self.end == Some(self.received)
    }

    /// Ends the half.
    pub fn end(&mut self, state: ReceiveState) {
        self.state = state;
        if state != ReceiveState::Ended {
            self.unread = VecDeque::new();
            self.ahead = BTreeMap::new();
        }
    }

    /// Copies as much as fits into the buffer. Returns the number of bytes.
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

/// Data that each stream can queue even if the others have taken all room of the tunnel, bytes.
const OWN_ROOM: usize = 16 << 10;

/// State of the half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendState {
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
    pub state: SendState,
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
            state: SendState::Open,
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
            true => self.state == SendState::Ending,
            false => self.sent < self.limit,
        }
    }

    /// Whether sending is over: everything was sent, and was received or need not be.
    pub fn is_over(&self) -> bool {
        matches!(
            self.state,
            SendState::Received | SendState::Stopped | SendState::Reset
        )
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
    pub fn discard(&mut self, state: SendState, room: &mut usize) -> usize {
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
