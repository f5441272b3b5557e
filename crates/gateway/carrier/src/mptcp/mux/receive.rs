//! Receiving: reactions to the peer's frames, the received data of each stream, and its reader.
//!
//! The peer has proved its key, and may still be hostile. It fills at most the windows of the
//! streams that it may open, and the queue of datagrams; frames that answer it are counted.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::task::{Context, Poll, Waker};

use tokio::io::ReadBuf;
use tokio::time::Instant;

use super::decoder::Piece;
use super::frame::Kind;
use super::send::{SendState, shrink};
use super::{Lane, Mux, Peer, Stream, VERSION};
use crate::printable;
use crate::window::{FIRST, Read, stalled};

/// Most pieces of a stream that wait for earlier data. A stream changes the connection once in some
/// seconds, and a connection that delivers nothing for 20 s ends the tunnel.
const PIECES: usize = 64;

const TWICE: &str = "the peer has sent a part of a stream twice";

/// State of a stream's receiving half (RFC 9000, section 3.2).
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

/// Most bytes of frames about a stream that wait while the peer reads nothing: more than one of
/// each kind, and the credits of a window.
const UNREAD: usize = 300;

/// Most bytes of frames about the tunnel that wait while the peer reads nothing.
const UNREAD_OF_TUNNEL: usize = 8 << 10;

impl Mux {
    /// Takes bytes from the peer that arrived over this connection.
    ///
    /// # Errors
    /// The reason of the tunnel's end: the peer's own, or its violation of the protocol.
    pub fn receive(&mut self, lane: Lane, bytes: &[u8], now: Instant) -> Result<(), String> {
        match lane {
            Lane::Bulk => self.receive_frames(lane, bytes, now),
            Lane::Express if self.is_joined() => {
                let complete = self.express.complete(bytes);
                self.confirm(false);
                self.receive_frames(lane, &complete, now)
            }
            Lane::Express => Ok(()), // the peer sends it again
        }
    }

    fn receive_frames(&mut self, lane: Lane, mut bytes: &[u8], now: Instant) -> Result<(), String> {
        while let Some(piece) = self.ends[lane as usize].decoder.next(&mut bytes)? {
            match piece {
                Piece::Whole(Kind::Hello, _, hello) => self.establish(&hello)?,
                _ if self.peer.is_none() => return Err(other_version("an unknown")),
                Piece::Data(id, position, data) => self.data(id, position, data)?,
                Piece::Whole(Kind::Open, id, _) => self.opened(lane, id, now)?,
                Piece::Whole(Kind::Heard, _, body) if lane == Lane::Express => {
                    self.heard(position(&body))?;
                }
                Piece::Whole(kind, id, body) => self.frame(kind, id, body)?,
            }
        }
        let limit = UNREAD.saturating_mul(self.limits.streams) + UNREAD_OF_TUNNEL;
        if self.ends.iter().map(|end| end.first.len()).sum::<usize>() > limit {
            return Err("the peer sends, and reads nothing".to_owned());
        }
        Ok(())
    }

    fn establish(&mut self, hello: &[u8]) -> Result<(), String> {
        self.peer = match *hello {
            _ if self.peer.is_some() => return Err("the peer has said HELLO twice".to_owned()),
            [VERSION, a, b, c, d, e, f, g, h, i, j, k, l] => Some(Peer {
                streams: u32::from_be_bytes([a, b, c, d]) as usize,
                window: u64::from_be_bytes([e, f, g, h, i, j, k, l]),
            }),
            [VERSION, ..] | [] => return Err("the peer has sent a malformed HELLO".to_owned()),
            [version, ..] => return Err(other_version(version)),
        };
        self.events.can_open = true;
        Ok(())
    }

    fn data(&mut self, id: u32, position: u64, data: &[u8]) -> Result<(), String> {
        let Some(stream) = self.streams.get_mut(&id) else {
            return Ok(()); // stopped and forgotten
        };
        stream.is_known = true;
        let incoming = &mut stream.incoming;
        if incoming.state == ReceiveState::Open {
            incoming.receive(position, data)?;
            self.events.woken.extend(incoming.reader.take());
            self.complete(id);
        }
        Ok(())
    }

    /// Confirms the end of a stream that was received completely.
    fn complete(&mut self, id: u32) {
        let Some(Stream { incoming, .. }) = self.streams.get_mut(&id) else {
            return;
        };
        if incoming.state == ReceiveState::Open && incoming.is_complete() {
            incoming.end(ReceiveState::Ended);
            self.events.woken.extend(incoming.reader.take());
            self.say_of(id, Kind::Received, &[]);
            self.forget(id);
        }
    }

    fn frame(&mut self, kind: Kind, id: u32, body: Vec<u8>) -> Result<(), String> {
        match kind {
            Kind::Datagram => {
                self.received.push(body.into());
                self.events.datagram = true;
            }
            Kind::Alive => {}
            Kind::Close => return Err(format!("by the peer: {}", printable(&body))),
            Kind::Invite => self.invitation = body.try_into().ok(),
            Kind::Heard => {} // sent again, of a connection that was left
            Kind::Left => self.left(position(&body))?,
            Kind::Join => return Err("the peer joins the tunnel in the tunnel".to_owned()),
            _ => self.of_stream(kind, id, &body)?,
        }
        Ok(())
    }

    /// Adds a stream that the peer opens.
    fn opened(&mut self, lane: Lane, id: u32, now: Instant) -> Result<(), String> {
        if id == 0 || self.is_own(id) || self.streams.contains_key(&id) {
            return Err(format!(
                "the peer has opened stream {id}, which it must not"
            ));
        }
        if self.of_peer == self.limits.streams {
            return Err("the peer has opened more streams than it may".to_owned());
        }
        self.insert(id, lane, now);
        self.of_peer += 1;
        self.opened.push_back(id);
        self.events.opened = true;
        Ok(())
    }

    pub(super) fn is_own(&self, id: u32) -> bool {
        id % 2 == self.role.first() % 2
    }

    fn of_stream(&mut self, kind: Kind, id: u32, body: &[u8]) -> Result<(), String> {
        let Some(stream) = self.streams.get_mut(&id) else {
            return Ok(()); // forgotten
        };
        stream.is_known = true;
        let is_over = stream.is_over();
        let Stream {
            outgoing, incoming, ..
        } = stream;
        let is_open = incoming.state == ReceiveState::Open;
        match kind {
            Kind::Credit => outgoing.raise(position(body)),
            Kind::End if is_open => {
                if !incoming.ends_at(position(body)) {
                    return Err("the peer has ended a stream elsewhere than it may".to_owned());
                }
                self.complete(id);
            }
            Kind::Reset if is_open => {
                incoming.end(ReceiveState::Reset);
                self.windows.close(id.into());
                self.events.woken.extend(incoming.reader.take());
            }
            Kind::Received if outgoing.state == SendState::Ended => {
                outgoing.state = SendState::Received;
                self.events.woken.extend(outgoing.take_writer());
            }
            Kind::Stop if !outgoing.is_over() => {
                let lost = outgoing.discard(SendState::Stopped, &mut self.room);
                self.unsent_bytes -= lost as u64;
                self.events.woken.extend(outgoing.take_writer());
            }
            Kind::Forgotten if is_over => stream.is_forgotten = true,
            Kind::Forgotten => return Err("the peer has forgotten an open stream".to_owned()),
            _ => {}
        }
        self.line_up(id);
        self.forget(id);
        Ok(())
    }

    /// Forgets a stream that neither the peer nor a user needs.
    pub(super) fn forget(&mut self, id: u32) {
        let Some(stream) = self.streams.get(&id) else {
            return;
        };
        let is_own = self.is_own(id);
        if !stream.is_over() || (is_own && !stream.is_forgotten) {
            return;
        }
        if stream.has_reader || stream.has_writer {
            // Nobody will accept a stream that the peer itself has given up.
            let gave_up = stream.outgoing.state == SendState::Stopped
                && stream.incoming.state == ReceiveState::Reset;
            let waits = self.opened.iter().position(|waiting| *waiting == id);
            let Some(waiting) = waits.filter(|_| gave_up) else {
                return;
            };
            self.opened.remove(waiting);
        }
        let lane = stream.lane;
        self.streams.remove(&id);
        if is_own {
            self.events.can_open = true;
        } else {
            self.of_peer -= 1;
            self.say_over(lane, Kind::Forgotten, id, &[]);
        }
    }

    /// Ready when a stream was reset or the tunnel is closed, before all was received.
    pub fn poll_reset(&mut self, id: u32, cx: &Context<'_>) -> Poll<io::Error> {
        match self.poll_end(id, cx) {
            Poll::Ready(Err(error)) => Poll::Ready(error),
            _ => Poll::Pending,
        }
    }

    /// Reads data of a stream; nothing at its end.
    ///
    /// # Errors
    /// If the peer has reset it, or the tunnel is closed and all that was received has been read.
    pub fn poll_read(
        &mut self,
        id: u32,
        buffer: &mut ReadBuf<'_>,
        now: Instant,
        cx: &Context<'_>,
    ) -> Poll<io::Result<()>> {
        let incoming = &mut self.streams.get_mut(&id).expect("it has a reader").incoming;
        let taken = incoming.read(buffer);
        let waits = taken == 0 && buffer.remaining() > 0;
        let read = Read {
            taken: taken as u64,
            waits,
            ahead: incoming.ahead_bytes(),
        };
        let raised = self.windows.read(id.into(), read, now);
        if let Some(limit) = raised.filter(|_| incoming.state == ReceiveState::Open) {
            incoming.raise(limit);
            self.say_of(id, Kind::Credit, &limit.to_be_bytes());
        }
        if waits {
            self.poll_end(id, cx)
        } else {
            Poll::Ready(Ok(()))
        }
    }

    /// The end of a stream; pending while more may come.
    fn poll_end(&mut self, id: u32, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let stream = self.streams.get_mut(&id).expect("it has a reader");
        let incoming = &mut stream.incoming;
        match incoming.state {
            ReceiveState::Ended => Poll::Ready(Ok(())),
            ReceiveState::Open if !self.is_closed => {
                incoming.reader = Some(cx.waker().clone());
                Poll::Pending
            }
            ReceiveState::Stalled => Poll::Ready(Err(stalled())),
            _ => Poll::Ready(Err(ErrorKind::ConnectionReset.into())),
        }
    }

    /// Drops the reader. The stream is stopped, unless the peer has ended it.
    pub fn drop_reader(&mut self, id: u32) {
        let stream = self.streams.get_mut(&id).expect("it has a reader");
        stream.has_reader = false;
        let is_open = stream.incoming.state == ReceiveState::Open;
        stream.incoming.reader = None;
        stream.incoming.end(ReceiveState::Stopped);
        self.windows.close(id.into());
        if is_open {
            self.say_of(id, Kind::Stop, &[]);
        }
        self.forget(id);
    }
}

/// The position in a frame that has one.
fn position(body: &[u8]) -> u64 {
    body.try_into().map_or(0, u64::from_be_bytes)
}

fn other_version(version: impl std::fmt::Display) -> String {
    format!("the peer has protocol version {version}, and this gateway {VERSION}")
}
