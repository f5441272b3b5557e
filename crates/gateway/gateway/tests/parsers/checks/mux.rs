//! Two ends of a tunnel over Multipath TCP. The input determines the actions of users, the cuts of
//! the bytes between the ends, and what a hostile peer changes, repeats, leaves out and inserts.

use std::collections::BTreeMap;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use anabranch_gateway::carrier::Limits;
use anabranch_gateway::carrier::mptcp::mux::{Lane, Mux, Role};
use tokio::io::ReadBuf;
use tokio::time::Instant;

use super::Input;

/// Limits that are small, so that they are reached.
const LIMITS: Limits = Limits {
    streams: 4,
    buffer_bytes: 40_000,
    tunnel_buffer_bytes: 200_000,
    handshake: Duration::ZERO,
};

/// Data that a stream may receive whatever the others do, bytes.
const FIRST: usize = 64 << 10;

/// Size of frames that wait while the peer reads nothing, bytes: 300 of each stream and 8 KiB.
const UNREAD: usize = 300 * LIMITS.streams + (8 << 10);

/// Most bytes that are received at once.
const ARRIVES: usize = 70_000;

fn cx() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// The byte at this position of what an end writes in a stream.
fn pattern(id: u32, end: usize, position: usize) -> u8 {
    (position * 31 + position / 251 + id as usize * 7 + end) as u8
}

/// An end, its users, and the data that it has sent.
struct End {
    mux: Mux,
    streams: BTreeMap<u32, User>,
    /// Data sent over each connection, and not received by the other end.
    on_way: [Vec<u8>; 2],
    is_closed: bool,
}

/// A user of a stream.
#[derive(Default)]
struct User {
    written: usize,
    read: usize,
    has_writer: bool,
    has_reader: bool,
    has_ended: bool,
}

struct Tunnel {
    ends: [End; 2],
    now: Instant,
    /// Whether a hostile peer has changed data that an end has sent.
    is_hostile: bool,
    /// Whether time has passed: a stream that was idle may exceed the budget until it is reset.
    has_waited: bool,
}

/// Plays the input.
pub fn mux(bytes: &[u8]) {
    let mut input = Input(bytes);
    let mut tunnel = Tunnel::new();
    while let Some(step) = input.byte() {
        tunnel.step(step, &mut input);
    }
    (0..2).for_each(|end| tunnel.finish(end));
}

/// Checks that the frames of a peer give the same result however they are cut.
pub fn mux_frames(bytes: &[u8]) {
    let receive = |pieces: &[&[u8]]| {
        let now = Instant::now();
        let mut mux = Mux::new(Role::Far, LIMITS);
        let all = pieces
            .iter()
            .try_for_each(|piece| mux.receive(Lane::Bulk, piece, now));
        let streams: Vec<u32> = std::iter::from_fn(|| mux.accept()).collect();
        let datagrams: Vec<_> = std::iter::from_fn(|| mux.receive_datagram()).collect();
        assert!(streams.len() <= LIMITS.streams && datagrams.len() <= 256);
        (all.is_err(), streams, datagrams)
    };
    let whole = receive(&[bytes]);
    let cut: Vec<&[u8]> = bytes.chunks(5).collect();
    let in_pieces = receive(&cut);
    assert_eq!(whole.0, in_pieces.0);
    if !whole.0 {
        assert_eq!(whole, in_pieces);
    }
}

impl Tunnel {
    fn new() -> Tunnel {
        let end = |role| End {
            mux: Mux::new(role, LIMITS),
            streams: BTreeMap::new(),
            on_way: Default::default(),
            is_closed: false,
        };
        Tunnel {
            ends: [Role::Near, Role::Far].map(end),
            now: Instant::now(),
            is_hostile: false,
            has_waited: false,
        }
    }

    fn step(&mut self, step: u8, input: &mut Input<'_>) {
        let end = usize::from(step & 1);
        let lane = Lane::ALL[usize::from(step >> 5 & 1)];
        match step >> 6 {
            2 => self.ends[end].mux.leave(),
            3 => self.join(),
            _ => {}
        }
        let (now, on_way) = (self.now, self.ends[end].on_way[lane as usize].len());
        match step >> 1 & 0xf {
            0 => {
                if let Some(id) = self.ends[end].mux.open(now) {
                    self.ends[end].add(id);
                }
            }
            1 => {
                if let Some(id) = self.ends[end].mux.accept() {
                    self.ends[end].add(id);
                }
            }
            2 => self.ends[end].write(end, input),
            3 => self.ends[end].shutdown(input),
            4 => self.read(end, input),
            5 => self.ends[end].drop_writer(input),
            6 => self.ends[end].drop_reader(input),
            7 => self.ends[end].transmit(lane),
            8 => self.arrive(end, lane, input.number().into()),
            9 => self.arrive(end, lane, usize::MAX),
            10 => {
                self.has_waited = true;
                self.now += Duration::from_millis(input.number().into());
                self.ends[end].mux.tick(self.now);
            }
            11 => {
                let bytes = vec![7; input.number().into()];
                self.ends[end].mux.send_datagram(bytes.into());
            }
            12 if on_way > 0 => {
                let at = usize::from(input.number()) % on_way;
                self.ends[end].on_way[lane as usize][at] ^= input.byte().unwrap_or(1);
                self.is_hostile = true;
            }
            13 if on_way > 0 => {
                let from = usize::from(input.number()) % on_way;
                let to = (from + usize::from(input.number())).min(on_way);
                if input.byte().unwrap_or_default() & 1 == 0 {
                    self.ends[end].on_way[lane as usize].drain(from..to);
                } else if on_way < ARRIVES {
                    self.ends[end].on_way[lane as usize].extend_from_within(from..to);
                }
                self.is_hostile = true;
            }
            14 => {
                let length = usize::from(input.byte().unwrap_or_default());
                self.ends[end].on_way[lane as usize].extend(input.bytes(length));
                self.is_hostile = true;
            }
            15 => {
                self.ends[end].frame(lane, input);
                self.is_hostile = true;
            }
            _ => {}
        }
    }

    /// Adds a new second connection.
    fn join(&mut self) {
        if self.ends.iter().all(|end| end.mux.can_join()) {
            for end in &mut self.ends {
                end.on_way[Lane::Express as usize].clear();
                assert!(end.mux.join());
            }
        }
    }

    /// Receives a part of the data that an end has sent.
    fn arrive(&mut self, end: usize, lane: Lane, bytes: usize) {
        let on_way = &mut self.ends[end].on_way[lane as usize];
        let part = bytes.min(ARRIVES).min(on_way.len());
        let bytes: Vec<u8> = on_way.drain(..part).collect();
        let to = &mut self.ends[1 - end];
        if to.is_closed {
            return;
        }
        if let Err(reason) = to.mux.receive(lane, &bytes, self.now) {
            assert!(self.is_hostile, "an honest peer: {reason}");
            assert!(!reason.contains('\n'));
            to.mux.close(Some(&reason));
            to.is_closed = true;
            self.is_hostile = true; // the other end has no more of its streams
        }
    }

    fn read(&mut self, end: usize, input: &mut Input<'_>) {
        let most = usize::from(input.number());
        let Some(id) = self.ends[end].pick(input, |user| user.has_reader) else {
            return;
        };
        self.read_stream(end, id, most);
    }

    /// Reads once. Returns the number of bytes.
    fn read_stream(&mut self, end: usize, id: u32, most: usize) -> usize {
        let mut space = vec![0; most.max(1)];
        let mut buffer = ReadBuf::new(&mut space);
        let to = &mut self.ends[end];
        let result = to.mux.poll_read(id, &mut buffer, self.now, &cx());
        let data = buffer.filled();
        let user = to.streams.get_mut(&id).expect("picked");
        let from = user.read;
        user.read += data.len();
        if self.is_hostile {
            return data.len();
        }
        let is_same = |(i, byte): (usize, &u8)| *byte == pattern(id, 1 - end, from + i);
        assert!(data.iter().enumerate().all(is_same), "other data");
        let read = self.ends[end].streams[&id].read;
        let Some(writer) = self.ends[1 - end].streams.get(&id) else {
            assert!(result.is_pending(), "nobody has accepted it");
            return 0;
        };
        assert!(read <= writer.written);
        if data.is_empty() && matches!(result, Poll::Ready(Ok(()))) {
            assert!(writer.has_ended && read == writer.written, "a false end");
        }
        data.len()
    }

    /// Checks that an end finally holds no more than its limits.
    fn finish(&mut self, end: usize) {
        while let Some(id) = self.ends[end].mux.accept() {
            self.ends[end].add(id);
        }
        let mux = &mut self.ends[end].mux;
        let datagrams: Vec<_> = std::iter::from_fn(|| mux.receive_datagram()).collect();
        assert!(datagrams.len() <= 256);
        assert!(datagrams.iter().map(|it| it.len()).sum::<usize>() <= 1 << 20);
        let unsent = mux.unsent_bytes() as usize;
        assert!(unsent <= LIMITS.tunnel_buffer_bytes + 2 * LIMITS.streams * (16 << 10));
        let to_send = self.ends[end].drain();
        let answers = 2 * ARRIVES; // of what was received last
        assert!(to_send <= UNREAD + answers + 2 * unsent + (1 << 20) + 256 * 7);
        let readable = |user: &User| user.has_reader;
        let streams = &self.ends[end].streams;
        let ids: Vec<u32> = streams
            .iter()
            .filter(|it| readable(it.1))
            .map(|it| *it.0)
            .collect();
        assert!(ids.len() <= 2 * LIMITS.streams);
        let unread: usize = ids
            .iter()
            .map(|id| self.read_stream(end, *id, 1 << 20))
            .sum();
        assert!(self.has_waited || unread <= ids.len() * FIRST + LIMITS.tunnel_buffer_bytes);
    }
}

impl End {
    fn add(&mut self, id: u32) {
        let user = User {
            has_writer: true,
            has_reader: true,
            ..User::default()
        };
        let before = self.streams.insert(id, user);
        assert!(before.is_none_or(|before| !before.has_writer && !before.has_reader));
    }

    fn pick(&self, input: &mut Input<'_>, has: impl Fn(&User) -> bool) -> Option<u32> {
        let nth = usize::from(input.byte().unwrap_or_default() & 7);
        let having = self.streams.iter().filter(|(_, user)| has(user));
        having.map(|(id, _)| *id).nth(nth)
    }

    fn write(&mut self, end: usize, input: &mut Input<'_>) {
        let bytes = usize::from(input.number());
        let Some(id) = self.pick(input, |user| user.has_writer && !user.has_ended) else {
            return;
        };
        let user = self.streams.get_mut(&id).expect("picked");
        let at = user.written..user.written + bytes;
        let data: Vec<u8> = at.map(|position| pattern(id, end, position)).collect();
        if let Poll::Ready(Ok(written)) = self.mux.poll_write(id, &data, &cx()) {
            user.written += written;
        }
    }

    fn shutdown(&mut self, input: &mut Input<'_>) {
        if let Some(id) = self.pick(input, |user| user.has_writer) {
            let _ = self.mux.poll_shutdown(id, &cx());
            self.streams.get_mut(&id).expect("picked").has_ended = true;
        }
    }

    fn drop_writer(&mut self, input: &mut Input<'_>) {
        if let Some(id) = self.pick(input, |user| user.has_writer) {
            self.mux.drop_writer(id);
            self.streams.get_mut(&id).expect("picked").has_writer = false;
        }
    }

    fn drop_reader(&mut self, input: &mut Input<'_>) {
        if let Some(id) = self.pick(input, |user| user.has_reader) {
            self.mux.drop_reader(id);
            self.streams.get_mut(&id).expect("picked").has_reader = false;
        }
    }

    fn transmit(&mut self, lane: Lane) {
        let on_way = &mut self.on_way[lane as usize];
        if on_way.len() < ARRIVES {
            self.mux.transmit(lane, on_way);
        }
    }

    /// Inserts a frame of any kind about one of the first streams, with a body of the right length.
    fn frame(&mut self, lane: Lane, input: &mut Input<'_>) {
        const DATAGRAM: u8 = 2;
        const DATA: u8 = 6;
        const CREDIT: u8 = 7;
        const END: u8 = 8;
        const INVITE: u8 = 13;
        const JOIN: u8 = 14;
        const HEARD: u8 = 15;
        const LEFT: u8 = 16;
        let kind = input.byte().unwrap_or_default() % 18;
        let stream = input.byte().unwrap_or_default() % 12;
        let body = match kind {
            DATAGRAM | DATA => vec![7; input.number().into()],
            CREDIT | END | HEARD | LEFT => input.bytes(8).to_vec(),
            INVITE | JOIN => input.bytes(16).to_vec(),
            _ => Vec::new(),
        };
        let position = match kind {
            DATA => vec![0, 0, 0, 0, 0, input.byte().unwrap_or_default(), 0, 0],
            _ => Vec::new(),
        };
        let on_way = &mut self.on_way[lane as usize];
        on_way.extend([kind, 0, 0, 0, stream]);
        on_way.extend((body.len() as u16).to_be_bytes());
        on_way.extend(position);
        on_way.extend(body);
    }

    /// Takes all data that is to be sent. Returns the number of bytes.
    fn drain(&mut self) -> usize {
        let mut bytes = 0;
        for lane in Lane::ALL {
            while self.mux.poll_ready(lane, &cx()).is_ready() {
                let mut record = Vec::new();
                self.mux.transmit(lane, &mut record);
                if record.is_empty() {
                    let ready = self.mux.poll_ready(lane, &cx());
                    assert!(ready.is_pending(), "ready, and nothing to send");
                }
                bytes += record.len();
            }
        }
        bytes
    }
}
