//! Captures: the packets that leave and reach the senders' hosts, in a pcapng file per host.
//!
//! A run that captures nothing pays nothing: a tap is the first link of a route, and only a path
//! that is tapped answers over a way back without links.

use std::ops::Range;

use anabranch_capture::{Ack, Data, Opening};
use anabranch_net::{Cause, Time};
use anabranch_scenario::time::from_seconds;

use crate::connection::World;
use crate::connection::path_state::Route;
use crate::ecn::Bits;
use crate::network::{Acknowledgement, Network, Packet, PacketNumber};

/// A connection that opens `now`.
pub(crate) fn opening(now: Time, routes: &[Route]) -> Opening {
    let path = |route: &Route| (route.opens_at(now), from_seconds(route.propagation_s));
    Opening {
        at: now,
        paths: routes.iter().map(path).collect(),
    }
}

impl Network {
    /// Captures a data packet at a tap, and sends it over the next link.
    pub(crate) fn pass(&mut self, now: Time, mut packet: Packet) -> Result<(), Cause> {
        if let Some(capture) = &mut self.capture {
            let data = Data {
                sent_at: packet.sent_at,
                path: packet.path,
                sequence: packet.sequence,
                data_sequence: packet.data_sequence,
                bytes: packet.bytes,
                ecn_capable: packet.bits.has(Bits::CAPABLE),
                reduced: packet.bits.has(Bits::REDUCED),
            };
            capture.data(packet.connection, now, &data);
        }
        packet.hop += 1;
        self.send(now, packet)
    }
}

impl World<'_> {
    /// Captures an acknowledgement at its end of a return line, and sends it there.
    pub(crate) fn answer_captured(
        &mut self,
        line: u32,
        ack: Acknowledgement,
        blocks: &[Range<PacketNumber>],
    ) {
        let arrives = self.now + self.network.return_delay(line);
        self.capture_ack(arrives, self.now, &ack, blocks);
        self.network.answer(self.now, line, ack);
    }

    /// Captures an acknowledgement that arrives `at`; the receiver's clock shows `clock`.
    pub(crate) fn capture_ack(
        &mut self,
        at: Time,
        clock: Time,
        ack: &Acknowledgement,
        blocks: &[Range<PacketNumber>],
    ) {
        if let Some(capture) = &mut self.network.capture {
            let captured = Ack {
                sent_at: ack.sent_at,
                path: ack.path,
                cumulative: ack.cumulative,
                blocks,
                data_cumulative: ack.data_cumulative,
                echo: ack.ecn.has(Bits::ECHO),
            };
            capture.ack(ack.connection, at, clock, &captured);
        }
    }
}
