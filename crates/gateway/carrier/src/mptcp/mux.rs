//! Streams and datagrams over one or two ordered sequences of bytes, without I/O and without a
//! clock.
//!
//! [`Mux::receive`] is given what comes from the peer, [`Mux::transmit`] returns what goes to it.
//! Frames about streams go first, then datagrams, then data of streams in turns. A stream that is
//! not read stops the peer's data for this stream only: each has a window of its own.
//!
//! With the second connection (`express`), data of a stream that sends little does not wait for
//! that of others that send much ([`Lane`]). Data has its position, so a stream may change the
//! connection. All other frames about a stream take the connection that has opened it, and so does
//! its data until the peer has answered.
//!
//! A stream's halves end one by one, as in QUIC (RFC 9000, section 3): the sender ends or resets,
//! the receiver stops, and confirms an end. Whoever has accepted a stream forgets it when both
//! halves and their users have ended, and the peer may then open another one instead.

mod decoder;
mod express;
mod frame;
mod lane;
mod receive;
mod send;

use std::collections::{HashMap, VecDeque};
use std::task::Waker;

use bytes::Bytes;
use tokio::time::Instant;

use crate::config::Limits;
use crate::window::{FIRST, Windows};
use express::Express;
use frame::Kind;
use lane::{Datagrams, Ends};
use receive::{Incoming, ReceiveState};
use send::Outgoing;

pub use decoder::token_of;
pub use frame::{HEADER, Token, alive, body_size, join};
pub use lane::{LARGEST_DATAGRAM, Lane};

/// Version of the frames.
const VERSION: u8 = 3;

/// Data of a TLS record, bytes: the size of a transmission, unless frames about streams and a
/// datagram are larger.
pub const RECORD: usize = 16 << 10;

/// End of the tunnel, which decides the numbers of the streams that it opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The end that has connected.
    Near,
    /// The end that has accepted.
    Far,
}

impl Role {
    /// Number of the first stream that this end opens; the others are even or odd as this one.
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
    /// The tunnel's buffer is what may be queued of all streams beyond 16 KiB of each, and by which
    /// their windows may grow together.
    limits: Limits,
    /// Ends of the connections, in the order of [`Lane::ALL`].
    ends: [Ends; 2],
    express: Express,
    /// The peer's token for the second connection.
    invitation: Option<Token>,
    /// Contents of the peer's first frame.
    peer: Option<Peer>,
    streams: HashMap<u32, Stream>,
    /// Number of the next stream that is opened, if it is free.
    next: u32,
    /// Number of open streams that the peer has opened.
    of_peer: usize,
    /// Streams that the peer has opened and nobody has accepted.
    opened: VecDeque<u32>,
    /// Datagrams to the peer.
    sending: Datagrams,
    /// Datagrams from the peer.
    received: Datagrams,
    /// Room that is left for the queues of streams, bytes.
    room: usize,
    /// Receive windows of the streams.
    windows: Windows,
    accepted_bytes: u64,
    unsent_bytes: u64,
    is_closed: bool,
    events: Events,
}

/// Effects of calls of a multiplexer.
#[derive(Debug, Default)]
pub struct Events {
    /// Tasks that can go on.
    pub woken: Vec<Waker>,
    /// Whether opening a stream may succeed now.
    pub can_open: bool,
    /// Whether the peer has opened a stream.
    pub opened: bool,
    /// Whether a datagram was received.
    pub datagram: bool,
}

/// Settings of the peer.
#[derive(Clone, Copy, Debug)]
struct Peer {
    /// Number of streams that it accepts.
    streams: usize,
    /// Position up to which data of a new stream may be sent.
    window: u64,
}

#[derive(Debug)]
struct Stream {
    /// Connection that has opened the stream.
    lane: Lane,
    /// Whether the peer knows the stream: this end has accepted it, or has received something of
    /// it.
    is_known: bool,
    outgoing: Outgoing,
    incoming: Incoming,
    has_writer: bool,
    has_reader: bool,
    /// Whether the peer, which had accepted the stream, has forgotten it.
    is_forgotten: bool,
}

impl Mux {
    /// An end that has queued its first frame.
    pub fn new(role: Role, limits: Limits) -> Mux {
        let streams = u32::try_from(limits.streams).unwrap_or(u32::MAX);
        let mut hello = vec![VERSION];
        hello.extend(streams.to_be_bytes());
        hello.extend(FIRST.to_be_bytes());
        let mut ends: [Ends; 2] = Default::default();
        frame::write(&mut ends[0].first, Kind::Hello, 0, &hello);
        Mux {
            role,
            limits,
            ends,
            express: Express::default(),
            invitation: None,
            peer: None,
            streams: HashMap::new(),
            next: role.first(),
            of_peer: 0,
            opened: VecDeque::new(),
            sending: Datagrams::default(),
            received: Datagrams::default(),
            room: limits.tunnel_buffer_bytes,
            windows: Windows::in_order(limits.tunnel_buffer_bytes as u64),
            accepted_bytes: 0,
            unsent_bytes: 0,
            is_closed: false,
            events: Events::default(),
        }
    }

    /// Takes what has happened since the last call.
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

    /// Data that streams have accepted and `transmit` has not returned, bytes.
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
        self.insert(id, self.lane_of_frames(), now);
        self.say_of(id, Kind::Open, &[]);
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
            self.wake_sender(self.lane_of_frames());
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

    /// Shows the peer that this end of the connection is alive.
    pub fn keep_alive(&mut self, lane: Lane) {
        self.say_over(lane, Kind::Alive, 0, &[]);
    }

    /// Lets the peer join with a second connection.
    pub fn invite(&mut self, token: &Token) {
        self.say_over(Lane::Bulk, Kind::Invite, 0, token);
    }

    /// The token with which a second connection may join the peer's end.
    pub fn invitation(&self) -> Option<Token> {
        self.invitation
    }

    /// Ends all streams, and sends the peer the reason, if there is one.
    pub fn close(&mut self, reason: Option<&str>) {
        if let Some(reason) = reason.filter(|_| !self.is_closed) {
            let reason: String = reason.chars().take(1000).collect();
            for lane in Lane::ALL
                .into_iter()
                .take(1 + usize::from(self.is_joined()))
            {
                self.say_over(lane, Kind::Close, 0, reason.as_bytes());
            }
        }
        self.is_closed = true;
        self.ends.iter_mut().for_each(|end| end.turns.clear());
        self.sending = Datagrams::default();
        for stream in self.streams.values_mut() {
            let state = stream.outgoing.state;
            let lost = stream.outgoing.discard(state, &mut self.room);
            self.unsent_bytes -= lost as u64;
            self.events.woken.extend(stream.outgoing.take_writer());
            self.events.woken.extend(stream.incoming.reader.take());
        }
    }

    /// Resets the streams that stalled longest if windows need more than there is, lets those that
    /// send little rest, and confirms received data. Must be called every second.
    pub fn tick(&mut self, now: Instant) {
        let streams = self.streams.values_mut();
        streams.for_each(|stream| stream.outgoing.recent.tick());
        self.confirm(true);
        for id in self.windows.relieve(now) {
            let id = id as u32;
            let Some(Stream { incoming, .. }) = self.streams.get_mut(&id) else {
                continue;
            };
            let is_open = incoming.state == ReceiveState::Open;
            incoming.end(ReceiveState::Stalled);
            self.events.woken.extend(incoming.reader.take());
            if is_open {
                self.say_of(id, Kind::Stop, &[]);
            }
        }
    }

    /// Adds a stream that was opened over this connection.
    fn insert(&mut self, id: u32, lane: Lane, now: Instant) {
        let window = self.peer.map_or(0, |peer| peer.window);
        let is_known = !self.is_own(id);
        self.streams.insert(id, Stream::new(lane, is_known, window));
        self.windows.open(id.into(), now);
    }
}

impl Stream {
    /// A new stream, of which the peer takes `window` bytes.
    fn new(lane: Lane, is_known: bool, window: u64) -> Stream {
        Stream {
            lane,
            is_known,
            outgoing: Outgoing::new(window),
            incoming: Incoming::new(),
            has_writer: true,
            has_reader: true,
            is_forgotten: false,
        }
    }

    /// Connection of the stream's next data.
    fn lane_of_data(&self, is_joined: bool) -> Lane {
        match is_joined && !self.outgoing.recent.is_much() {
            _ if !self.is_known => self.lane,
            true => Lane::Express,
            false => Lane::Bulk,
        }
    }

    /// Whether nothing remains to be sent or received.
    fn is_over(&self) -> bool {
        self.outgoing.is_over() && self.incoming.state != ReceiveState::Open
    }
}
