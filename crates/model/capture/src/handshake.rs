//! The handshakes of a connection, which are not simulated: they are written as they would have
//! been over empty links (RFC 9293, section 3.5; RFC 8684, sections 3.1 and 3.2).

use anabranch_net::Time;

use crate::connection::{Connection, Opening, Packet, stamp};
use crate::frame::{Flags, Segment, frame};
use crate::keys::{Key, hmac};
use crate::options::Options;

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
