//! Streams and datagrams over one ordered sequence of bytes, without I/O and without a clock.
//!
//! [`Mux::receive`] is given what comes from the peer, [`Mux::transmit`] returns what goes to it.
//! Frames about streams go first, then datagrams, then data of streams in turns. A stream that is
//! not read stops the peer's data for this stream only: each has a window of its own.
//!
//! A stream's halves end one by one, as in QUIC (RFC 9000, section 3): the sender ends or resets,
//! the receiver stops, and confirms an end. Whoever has accepted a stream forgets it when both
//! halves and their users have ended, and the peer may then open another one instead.

use std::collections::{HashMap, VecDeque};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

mod datagrams;
mod frame;
mod incoming;
mod outgoing;
mod receive;
mod users;

use datagrams::Datagrams;
use frame::{Decoder, HEADER, Kind};
use incoming::Incoming;
use outgoing::Outgoing;
use tokio::time::Instant;

use crate::config;
use crate::window::{FIRST, Windows};

pub use datagrams::LARGEST_DATAGRAM;

/// Version of the frames.
const VERSION: u8 = 2;

/// What a stream may send in its turn, bytes.
const TURN: usize = 4000;

/// What is sent at once, unless frames about streams and a datagram are more: the data of a TLS
/// record, bytes.
pub const RECORD: usize = 16 << 10;

/// Limits of a tunnel.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Streams that each side may have open, at most.
    pub streams: usize,
    /// What is queued of a stream, bytes.
    pub stream_bytes: usize,
    /// What is queued of all streams, but for 16 KiB of each; and by how much their windows grow,
    /// bytes.
    pub tunnel_bytes: usize,
}

impl Limits {
    /// These limits of the tunnel.
    pub fn new(limits: &config::Limits) -> Limits {
        Limits {
            streams: limits.streams,
            stream_bytes: limits.buffer_bytes,
            tunnel_bytes: limits.tunnel_buffer_bytes,
        }
    }
}

/// The tunnel's end that this is, which decides the numbers of the streams that it opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It has connected.
    Near,
    /// It has accepted.
    Far,
}

impl Role {
    /// The number of the first stream that it opens; the others are even or odd as this one.
    fn first(self) -> u32 {
        match self {
            Role::Near => 1,
            Role::Far => 2,
        }
    }
}

/// One end of a tunnel.
#[derive(Debug)]
pub struct Mux {
    role: Role,
    limits: Limits,
    decoder: Decoder,
    /// What the peer's first frame said.
    peer: Option<Peer>,
    streams: HashMap<u32, Stream>,
    /// The number of the next stream that is opened, if it is free.
    next: u32,
    /// How many streams the peer has opened.
    of_peer: usize,
    /// Streams that the peer has opened and nobody has accepted.
    opened: VecDeque<u32>,
    /// Frames that go before all others.
    first: Vec<u8>,
    /// Streams that have something to send, in the order of their turns.
    turns: VecDeque<u32>,
    /// Datagrams to the peer.
    sending: Datagrams,
    /// Datagrams from the peer.
    received: Datagrams,
    /// Room that is left for the queues of streams, bytes.
    room: usize,
    /// How much the peer may send in each stream.
    windows: Windows,
    accepted_bytes: u64,
    unsent_bytes: u64,
    is_closed: bool,
    /// Task that calls `transmit` once there is something to send.
    sender: Option<Waker>,
    events: Events,
}

/// What the functions of a multiplexer have caused.
#[derive(Debug, Default)]
pub struct Events {
    /// Tasks that can go on.
    pub woken: Vec<Waker>,
    /// A stream can be opened, perhaps.
    pub can_open: bool,
    /// The peer has opened a stream.
    pub opened: bool,
    /// A datagram was received.
    pub datagram: bool,
}

/// The peer's settings.
#[derive(Clone, Copy, Debug)]
struct Peer {
    /// Streams that it accepts.
    streams: usize,
    /// The position up to which a new stream may be sent.
    window: u64,
}

#[derive(Debug)]
struct Stream {
    outgoing: Outgoing,
    incoming: Incoming,
    has_writer: bool,
    has_reader: bool,
    /// The peer, which had accepted it, has forgotten it.
    is_forgotten: bool,
}

impl Mux {
    /// Begins with the first frame.
    pub fn new(role: Role, limits: Limits) -> Mux {
        let streams = u32::try_from(limits.streams).unwrap_or(u32::MAX);
        let mut hello = vec![VERSION];
        hello.extend(streams.to_be_bytes());
        hello.extend(FIRST.to_be_bytes());
        let mut first = Vec::new();
        frame::write(&mut first, Kind::Hello, 0, &hello);
        Mux {
            role,
            limits,
            decoder: Decoder::default(),
            peer: None,
            streams: HashMap::new(),
            next: role.first(),
            of_peer: 0,
            opened: VecDeque::new(),
            first,
            turns: VecDeque::new(),
            sending: Datagrams::default(),
            received: Datagrams::default(),
            room: limits.tunnel_bytes,
            windows: Windows::in_order(limits.tunnel_bytes as u64),
            accepted_bytes: 0,
            unsent_bytes: 0,
            is_closed: false,
            sender: None,
            events: Events::default(),
        }
    }

    /// What has happened since the last call.
    pub fn take_events(&mut self) -> Events {
        std::mem::take(&mut self.events)
    }

    /// Whether the peer's first frame was received.
    pub fn is_established(&self) -> bool {
        self.peer.is_some()
    }

    /// Data that streams have accepted, bytes.
    pub fn accepted_bytes(&self) -> u64 {
        self.accepted_bytes
    }

    /// Data that streams have accepted and that `transmit` has not returned, bytes.
    pub fn unsent_bytes(&self) -> u64 {
        self.unsent_bytes
    }

    /// Opens a stream; `None` while the peer's limit, or the own, is reached.
    pub fn open(&mut self, now: Instant) -> Option<u32> {
        let peer = self.peer.filter(|_| !self.is_closed)?;
        if self.streams.len() - self.of_peer >= peer.streams.min(self.limits.streams) {
            return None;
        }
        while self.next == 0 || self.streams.contains_key(&self.next) {
            self.next = self.next.wrapping_add(2);
        }
        let id = self.next;
        self.next = self.next.wrapping_add(2);
        self.insert(id, peer.window, now);
        self.say(Kind::Open, id, &[]);
        Some(id)
    }

    /// The next stream that the peer has opened.
    pub fn accept(&mut self) -> Option<u32> {
        self.opened.pop_front()
    }

    /// Queues a datagram; the oldest ones go if there are too many.
    pub fn send_datagram(&mut self, datagram: Bytes) {
        if !self.is_closed {
            self.sending.push(datagram);
            self.wake_sender();
        }
    }

    /// Datagrams that wait to be sent, bytes.
    pub fn datagrams_waiting_bytes(&self) -> usize {
        self.sending.bytes()
    }

    /// The next datagram from the peer.
    pub fn receive_datagram(&mut self) -> Option<Bytes> {
        self.received.pop()
    }

    /// Shows the peer that this end is alive.
    pub fn keep_alive(&mut self) {
        self.say(Kind::Alive, 0, &[]);
    }

    /// Ends all streams; the peer is told the reason, if there is one.
    pub fn close(&mut self, reason: Option<&str>) {
        if let Some(reason) = reason.filter(|_| !self.is_closed) {
            let reason: String = reason.chars().take(1000).collect();
            self.say(Kind::Close, 0, reason.as_bytes());
        }
        self.is_closed = true;
        self.turns.clear();
        self.sending = Datagrams::default();
        for stream in self.streams.values_mut() {
            let state = stream.outgoing.state;
            let lost = stream.outgoing.discard(state, &mut self.room);
            self.unsent_bytes -= lost as u64;
            self.events.woken.extend(stream.outgoing.take_writer());
            self.events.woken.extend(stream.incoming.reader.take());
        }
    }

    /// Whether there is something to send; else the task is woken when there is.
    pub fn poll_ready(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.first.is_empty() && self.sending.is_empty() && self.turns.is_empty() {
            self.sender = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    /// Appends what is to be sent next.
    pub fn transmit(&mut self, to: &mut Vec<u8>) {
        to.append(&mut self.first);
        // Datagrams leave room for a turn, so that they can't stop the streams.
        while to.len() + HEADER + TURN <= RECORD
            && let Some(datagram) = self.sending.pop()
        {
            frame::write(to, Kind::Datagram, 0, &datagram);
        }
        while let Some(id) = self.turns.pop_front() {
            // A stream that is alone takes the turns of others.
            let room = RECORD.saturating_sub(to.len() + HEADER);
            let largest = if self.turns.is_empty() { room } else { TURN };
            self.turn(id, largest.max(TURN), to);
            if to.len() + HEADER + TURN > RECORD {
                break;
            }
        }
    }

    /// Gives a stream its turn.
    fn turn(&mut self, id: u32, largest: usize, to: &mut Vec<u8>) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        let outgoing = &mut stream.outgoing;
        outgoing.has_turn = false;
        let bytes = outgoing.next(largest);
        if bytes > 0 {
            frame::write_header(to, Kind::Data, id, bytes as u16);
            self.events
                .woken
                .extend(outgoing.send(bytes, to, &mut self.room));
            self.unsent_bytes -= bytes as u64;
        } else if outgoing.is_ready() {
            outgoing.state = outgoing::State::Ended;
            frame::write(to, Kind::End, id, &[]);
        }
        self.line_up(id);
    }

    /// Adds a stream, of which the peer takes `window` bytes.
    fn insert(&mut self, id: u32, window: u64, now: Instant) {
        self.streams.insert(id, Stream::new(window));
        self.windows.open(id.into(), now);
    }

    /// Lines up a stream for its turn, if it has something to send.
    fn line_up(&mut self, id: u32) {
        let Some(Stream { outgoing, .. }) = self.streams.get_mut(&id) else {
            return;
        };
        if outgoing.is_ready() && !outgoing.has_turn && !self.is_closed {
            outgoing.has_turn = true;
            self.turns.push_back(id);
            self.wake_sender();
        }
    }

    /// Sends a frame before all others.
    fn say(&mut self, kind: Kind, id: u32, body: &[u8]) {
        frame::write(&mut self.first, kind, id, body);
        self.wake_sender();
    }

    fn wake_sender(&mut self) {
        self.events.woken.extend(self.sender.take());
    }
}

impl Stream {
    /// A new one, of which the peer takes `window` bytes.
    fn new(window: u64) -> Stream {
        Stream {
            outgoing: Outgoing::new(window),
            incoming: Incoming::new(),
            has_writer: true,
            has_reader: true,
            is_forgotten: false,
        }
    }

    /// Whether nothing more is sent, and nothing more is to be received.
    fn is_over(&self) -> bool {
        self.outgoing.is_over() && self.incoming.state != incoming::State::Open
    }
}
