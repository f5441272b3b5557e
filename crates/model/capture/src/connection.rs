//! A connection as its packets say it: addresses, keys, sequence numbers.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::ops::Range;

use anabranch_net::{MILLISECOND, Time};

use crate::frame::{Flags, Segment, Way, frame};
use crate::keys::{Key, random};
use crate::numbers::Numbers;
use crate::options::Options;

/// The servers' address and port (iperf's).
const SERVER: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 168, 0, 1), 5201);
/// The first of the clients' ports.
const FIRST_PORT: u16 = 49152;
/// A window is a field of 16 bits, shifted by up to this (RFC 7323).
const LARGEST_SCALE: u8 = 14;

/// How both ends of a connection behave.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    /// Payload of a full packet, bytes.
    pub payload: u64,
    /// Bytes of a packet that are no payload.
    pub header: u16,
    /// The receive buffer, bytes.
    pub buffer: u64,
    /// Whether acknowledgements are selective.
    pub selective: bool,
}

/// A connection begins: when each of its paths opens, and the path's round trip of propagation.
#[derive(Clone, Debug)]
pub struct Opening {
    /// When it can send: its handshake is over.
    pub at: Time,
    /// Paths in their order. With several the connection is one of Multipath TCP.
    pub paths: Vec<(Time, Time)>,
}

/// A data packet leaves its host.
#[derive(Clone, Copy, Debug)]
pub struct Data {
    /// When the connection sent it, which may be before it leaves.
    pub sent_at: Time,
    /// Index of the path.
    pub path: u16,
    /// Number of the packet on that path, from 0.
    pub sequence: u64,
    /// The number of its data in the connection.
    pub data_sequence: u64,
    /// Bytes, headers included.
    pub bytes: u16,
    /// Whether links may mark it (ECT).
    pub ecn_capable: bool,
    /// Whether it tells that the window was reduced (CWR).
    pub reduced: bool,
}

/// An acknowledgement reaches its host.
#[derive(Clone, Copy, Debug)]
pub struct Ack<'a> {
    /// When the packet that it answers was sent.
    pub sent_at: Time,
    /// The path of that packet.
    pub path: u16,
    /// Every packet of the path below this has arrived,
    pub cumulative: u64,
    /// and every packet of these blocks,
    pub blocks: &'a [Range<u64>],
    /// and all data below this.
    pub data_cumulative: u64,
    /// Whether it echoes a mark (ECE).
    pub echo: bool,
}

/// The headers of a packet, and its length.
pub(crate) type Packet = (Vec<u8>, u32);

#[derive(Debug)]
pub(crate) struct Connection {
    pub user: usize,
    pub endpoint: Endpoint,
    pub scale: u8,
    /// The keys of sender and receiver, if it is one of Multipath TCP, and its data's numbers.
    pub keys: Option<[Key; 2]>,
    data: Numbers,
    pub subflows: Vec<Subflow>,
}

#[derive(Debug)]
pub(crate) struct Subflow {
    pub way: Way,
    /// The first sequence numbers of sender and receiver.
    pub initial: [u32; 2],
    numbers: Numbers,
    /// The acknowledgements on their way, when they arrive and their time stamps.
    arriving: VecDeque<(Time, u32)>,
    /// The last of the receiver's time stamps that has arrived.
    echo: u32,
}

impl Connection {
    /// The `serial`-th connection of a user, whose first path has the number `first` among all.
    pub fn new(user: usize, first: u32, serial: u64, endpoint: Endpoint, paths: usize) -> Self {
        let seeds = [first.into(), serial];
        let several = paths > 1;
        let key = |end| Key(random(end, &seeds));
        let fields = endpoint.buffer / u64::from(u16::MAX);
        let scale = (u64::BITS - fields.leading_zeros()) as u8;
        let subflow = |r: u32| {
            let [_, a, b, c] = (first + r + 1).to_be_bytes();
            let port = FIRST_PORT + (serial % u64::from(u16::MAX - FIRST_PORT + 1)) as u16;
            let source = (Ipv4Addr::new(10, a, b, c), port);
            let number = |end| u32::from_be_bytes(random(end, &[seeds[0], serial, r.into()]));
            Subflow {
                way: Way {
                    source,
                    destination: SERVER,
                },
                initial: [number("sender"), number("receiver")],
                numbers: Numbers::new(endpoint.payload),
                arriving: VecDeque::new(),
                echo: 0,
            }
        };
        Connection {
            user,
            endpoint,
            scale: scale.min(LARGEST_SCALE),
            keys: several.then(|| [key("sender's key"), key("receiver's key")]),
            data: Numbers::new(endpoint.payload),
            subflows: (0..paths as u32).map(subflow).collect(),
        }
    }

    /// The window's field.
    pub fn window(&self) -> u16 {
        (self.endpoint.buffer >> self.scale).min(u16::MAX.into()) as u16
    }

    /// The packet of data that leaves at `now`.
    pub fn data(&mut self, now: Time, data: &Data) -> Packet {
        let payload = data.bytes - self.endpoint.header;
        let bytes = self.data.bytes(data.data_sequence, payload.into());
        let window = self.window();
        let subflow = &mut self.subflows[usize::from(data.path)];
        while let Some(&(at, stamp)) = subflow.arriving.front()
            && at <= now
        {
            subflow.echo = stamp;
            subflow.arriving.pop_front();
        }
        let is_first = data.sequence == 0 && data.data_sequence == 0 && data.path == 0;
        let is_again = subflow.numbers.is_sent(data.sequence);
        let payload = subflow.numbers.bytes(data.sequence, bytes) as u16;
        let first = subflow.numbers.first(data.sequence);
        let mut options = Options::default().timestamps(stamp(data.sent_at), subflow.echo);
        if let Some(keys) = self.keys {
            let [ours, theirs] = keys.map(Key::initial_data_sequence);
            options = if is_first && !is_again {
                options.capable(&keys, Some(payload))
            } else {
                let number = ours.wrapping_add(1 + self.data.first(data.data_sequence));
                let subflow = 1 + first as u32;
                options.mapping(
                    theirs.wrapping_add(1) as u32,
                    number as u32,
                    subflow,
                    payload,
                )
            };
        }
        let [ours, theirs] = subflow.initial;
        let segment = Segment {
            flags: Flags {
                ack: true,
                cwr: data.reduced,
                ..Flags::default()
            },
            window,
            sequence: ours.wrapping_add(1).wrapping_add(first as u32),
            acknowledged: theirs.wrapping_add(1),
            options,
            payload,
            ecn_capable: data.ecn_capable,
        };
        frame(subflow.way, &segment)
    }

    /// The acknowledgement that arrives at `at`, whose sender's clock shows `clock`.
    pub fn ack(&mut self, at: Time, clock: Time, ack: &Ack<'_>) -> Packet {
        let window = self.window();
        let subflow = &mut self.subflows[usize::from(ack.path)];
        let [ours, theirs] = subflow.initial;
        let number = |packet| ours.wrapping_add(1 + subflow.numbers.first(packet) as u32);
        let mut options = Options::default().timestamps(stamp(clock), stamp(ack.sent_at));
        if let Some([key, _]) = self.keys {
            let received = self.data.first(ack.data_cumulative);
            let next = key.initial_data_sequence().wrapping_add(1 + received);
            options = options.data_ack(next as u32);
        }
        let blocks = ack.blocks.iter();
        let blocks: Vec<_> = blocks
            .map(|block| (number(block.start), number(block.end)))
            .collect();
        let segment = Segment {
            flags: Flags {
                ack: true,
                ece: ack.echo,
                ..Flags::default()
            },
            window,
            sequence: theirs.wrapping_add(1),
            acknowledged: number(ack.cumulative),
            options: options.sack(&blocks),
            payload: 0,
            ecn_capable: false,
        };
        subflow.hears(at, clock);
        frame(subflow.way.reversed(), &segment)
    }
}

impl Subflow {
    /// The sender gets a packet `at`, with what the receiver's clock shows.
    pub fn hears(&mut self, at: Time, clock: Time) {
        self.arriving.push_back((at, stamp(clock)));
    }
}

/// A clock of 1 ms, as Linux' is.
pub(crate) fn stamp(time: Time) -> u32 {
    (time / MILLISECOND) as u32
}
