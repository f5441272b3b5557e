//! A connection as its packets say it: addresses, keys, sequence numbers, handshakes.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::ops::Range;

use anabranch_net::{MILLISECOND, Time};

use crate::frame::{Flags, Key, Options, Segment, Way, frame, hmac, random};

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

// The handshakes of a connection, which are not simulated: they are written as they would have
// been over empty links (RFC 9293, section 3.5; RFC 8684, sections 3.1 and 3.2).

const SYN: Flags = Flags {
    syn: true,
    ack: false,
    ece: false,
    cwr: false,
};
const SYN_ACK: Flags = Flags { ack: true, ..SYN };
const ACK: Flags = Flags {
    syn: false,
    ..SYN_ACK
};

/// Bytes of a time stamp, which are part of a segment by its largest size (RFC 6691).
const TIMESTAMP: u64 = 12;

impl Connection {
    /// The packets of all paths: when, over which path, and what. One that would be before the run
    /// is at its begin.
    pub fn handshakes(&mut self, opening: &Opening) -> Vec<(Time, u16, Packet)> {
        let mut all = Vec::new();
        for (r, &(opens_at, round_trip)) in (0..).zip(&opening.paths) {
            // The first path sends when its SYN is answered, another when the server has answered
            // the third packet. None joins before the connection is there.
            let earliest = if r == 0 { 0 } else { opening.at };
            let before = |round_trips| {
                let at = opens_at.saturating_sub(round_trip * round_trips);
                at.max(earliest)
            };
            let more = u64::from(r > 0);
            let [sent, answered] = [before(1 + more), before(more)];
            let packets = self.three(r, [sent, answered]);
            all.extend(packets.map(|(at, packet)| (at, r, packet)));
            self.subflows[usize::from(r)].hears(answered, answered);
            if r > 0 {
                all.push((before(0), r, self.fourth(r, [before(0), answered])));
                self.subflows[usize::from(r)].hears(before(0), before(0));
            }
        }
        all
    }

    /// SYN, its answer, and the third packet, where the SYN is sent and answered at these times.
    fn three(&self, r: u16, [sent, answered]: [Time; 2]) -> [(Time, Packet); 3] {
        let subflow = &self.subflows[usize::from(r)];
        let nonces = subflow.initial.map(|number| number.rotate_left(16));
        let clocks = [stamp(sent), stamp(answered)];
        let (selective, scale) = (self.endpoint.selective, self.scale);
        let syn = |options: Options| {
            let largest = self.endpoint.payload + TIMESTAMP;
            options.syn(largest as u16, scale, selective)
        };
        let first = syn(Options::default().timestamps(clocks[0], 0));
        let second = syn(Options::default().timestamps(clocks[1], clocks[0]));
        let third = Options::default().timestamps(clocks[1], clocks[1]);
        let (first, second, third) = match self.keys {
            None => (first, second, third),
            Some([a, b]) if r == 0 => (
                first.capable(&[], None),
                second.capable(&[b], None),
                third.capable(&[a, b], None),
            ),
            Some([a, b]) => (
                first.join(r as u8, b.token(), nonces[0]),
                second.join_answer(r as u8, answer([a, b], nonces), nonces[1]),
                third.join_end(hmac([a, b], nonces)),
            ),
        };
        [
            (sent, self.segment(r, true, SYN, first)),
            (answered, self.segment(r, false, SYN_ACK, second)),
            (answered, self.segment(r, true, ACK, third)),
        ]
    }

    /// The server's answer to the third packet of a path that joins.
    fn fourth(&self, r: u16, [clock, echo]: [Time; 2]) -> Packet {
        let mut options = Options::default().timestamps(stamp(clock), stamp(echo));
        if let Some([key, _]) = self.keys {
            let next = key.initial_data_sequence().wrapping_add(1);
            options = options.data_ack(next as u32);
        }
        self.segment(r, false, ACK, options)
    }

    /// A segment of a handshake, from the sender of the data (`forward`) or to it.
    fn segment(&self, r: u16, forward: bool, flags: Flags, options: Options) -> Packet {
        let subflow = &self.subflows[usize::from(r)];
        let (way, [own, other]) = if forward {
            (subflow.way, subflow.initial)
        } else {
            let [ours, theirs] = subflow.initial;
            (subflow.way.reversed(), [theirs, ours])
        };
        let segment = Segment {
            flags,
            // The window of a SYN is not scaled.
            window: if flags.syn { u16::MAX } else { self.window() },
            sequence: own.wrapping_add(u32::from(!flags.syn)),
            acknowledged: if flags.ack { other.wrapping_add(1) } else { 0 },
            options,
            payload: 0,
            ecn_capable: false,
        };
        frame(way, &segment)
    }
}

/// The server's HMAC: its key and its nonce first.
fn answer([a, b]: [Key; 2], nonces: [u32; 2]) -> [u8; 32] {
    hmac([b, a], [nonces[1], nonces[0]])
}

// Packet numbers as byte numbers.

/// The bytes of numbered packets, all of which are full but some.
#[derive(Debug)]
pub(crate) struct Numbers {
    /// The payload of a full packet.
    full: u64,
    /// The first packet that was not sent yet.
    next: u64,
    /// The packets that are not full, and by how many bytes they and those before them are not.
    lacking: Vec<(u64, u64)>,
}

impl Numbers {
    pub fn new(full: u64) -> Numbers {
        Numbers {
            full,
            next: 0,
            lacking: Vec::new(),
        }
    }

    /// The first byte of `packet`, or the bytes of all before it.
    pub fn first(&self, packet: u64) -> u64 {
        let shorter = self.lacking.partition_point(|&(number, _)| number < packet);
        let lacks = shorter
            .checked_sub(1)
            .map_or(0, |last| self.lacking[last].1);
        packet * self.full - lacks
    }

    /// Whether `packet` was sent.
    pub fn is_sent(&self, packet: u64) -> bool {
        packet < self.next
    }

    /// The bytes of `packet`, of which `bytes` are told. What it had when it was first sent counts.
    pub fn bytes(&mut self, packet: u64, bytes: u64) -> u64 {
        if packet >= self.next {
            self.next = packet + 1;
            if bytes < self.full {
                let before = self.lacking.last().map_or(0, |&(_, lacks)| lacks);
                self.lacking.push((packet, before + self.full - bytes));
            }
        }
        self.first(packet + 1) - self.first(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets of 100 bytes, of which number 1 has 40 and number 3 has 1.
    #[test]
    fn bytes_are_those_before_a_packet() {
        let mut numbers = Numbers::new(100);
        let sent = [100, 40, 100, 1, 100];
        for (packet, bytes) in (0..).zip(sent) {
            assert_eq!(numbers.bytes(packet, bytes), bytes);
        }
        let first: Vec<u64> = (0..6).map(|packet| numbers.first(packet)).collect();
        assert_eq!(first, [0, 100, 140, 240, 241, 341]);
    }

    #[test]
    fn a_packet_that_is_sent_again_has_the_bytes_that_it_had() {
        let mut numbers = Numbers::new(100);
        numbers.bytes(0, 40);
        assert_eq!(numbers.bytes(0, 100), 40);
    }
}
