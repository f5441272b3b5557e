//! Receiving half of a stream.

use std::collections::{BTreeMap, VecDeque};
use std::task::Waker;

use tokio::io::ReadBuf;

use super::outgoing::shrink;
use crate::window::FIRST;

/// Most pieces of a stream that wait for earlier data. A stream changes the connection once in some
/// seconds, and a connection that delivers nothing for 20 s ends the tunnel.
const PIECES: usize = 64;

const TWICE: &str = "the peer has sent a part of a stream twice";

/// State of the half.
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

/// Receiving half of a stream.
#[derive(Debug)]
pub struct Incoming {
    pub state: State,
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
            state: State::Open,
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
    pub fn end(&mut self, state: State) {
        self.state = state;
        if state != State::Ended {
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
