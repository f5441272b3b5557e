//! Acknowledgements that return over links: they queue there and are lost there.
//!
//! A lost acknowledgement takes its information with it, so each repeats what those before it said:
//! the cumulative number, and the blocks of packets above it that arrived last, three beside a
//! timestamp (RFC 2018). The sender's scoreboard takes both (RFC 6675).

use std::collections::VecDeque;
use std::ops::Range;

use anabranch_control::Ack;
use anabranch_scenario::time::seconds;

use crate::calendar::Event;
use crate::connection::bits::Reassembly;
use crate::connection::{Connection, World};
use crate::network::{Acknowledgement, Packet, PacketNumber};

/// SACK blocks that fit beside a timestamp into TCP's 40 bytes of options (RFC 2018, section 3).
const BLOCKS: usize = 3;

/// A SACK option and its padding: `FIXED + n * EACH` bytes for `n` blocks.
const FIXED: u16 = 4;
const EACH: u16 = 8;

/// An acknowledgement and its SACK blocks, the latest first.
#[derive(Debug)]
struct Sacking {
    ack: Acknowledgement,
    blocks: Vec<Range<PacketNumber>>,
}

/// The links of a path's acknowledgements, and those that are on their way.
#[derive(Debug)]
pub(crate) struct WayBack {
    /// Index of the first hop in the network's table.
    first_hop: u32,
    /// The acknowledgements sent since the last one that arrived, and the number of the first.
    /// Those that are lost stay until a later one arrives: a path keeps their order.
    sent: VecDeque<Sacking>,
    first: PacketNumber,
    /// The blocks last reported, the latest first.
    recent: Vec<Range<PacketNumber>>,
}

impl WayBack {
    /// A way back without acknowledgements.
    pub fn new(first_hop: u32) -> WayBack {
        WayBack {
            first_hop,
            sent: VecDeque::new(),
            first: 0,
            recent: Vec::new(),
        }
    }

    /// The blocks to report when `sequence` has arrived: first the one around it, then those that
    /// were reported before (RFC 2018, section 4).
    fn report(&mut self, receiver: &Reassembly, sequence: PacketNumber) -> &[Range<PacketNumber>] {
        let next = receiver.next();
        self.recent.retain(|block| block.start > next);
        if sequence > next {
            let latest = receiver.block(sequence, &self.recent);
            self.recent.retain(|block| !latest.contains(&block.start));
            self.recent.insert(0, latest);
            self.recent.truncate(BLOCKS);
        }
        &self.recent
    }

    /// Stores an acknowledgement; gives its number.
    fn push(&mut self, sacking: Sacking) -> PacketNumber {
        self.sent.push_back(sacking);
        self.first + self.sent.len() as PacketNumber - 1
    }

    /// Takes the acknowledgement of this number. Those before it are lost.
    fn take(&mut self, number: PacketNumber) -> Option<Sacking> {
        let lost = (number - self.first) as usize;
        self.first = number + 1;
        self.sent.drain(..lost);
        self.sent.pop_front()
    }
}

impl Connection {
    /// Sends an acknowledgement over the links of its path's way back.
    #[cold]
    pub(super) fn send_back(&mut self, world: &mut World, ack: Acknowledgement) {
        let path = &mut self.paths[usize::from(ack.path)];
        let Some(way_back) = &mut path.way_back else {
            return;
        };
        let blocks = if path.sender.is_selective() {
            way_back.report(&path.receiver, ack.selective).to_vec()
        } else {
            Vec::new()
        };
        let option = match blocks.len() as u16 {
            0 => 0,
            count => FIXED + count * EACH,
        };
        let packet = Packet {
            sent_at: world.now,
            connection: ack.connection,
            sequence: way_back.push(Sacking { ack, blocks }),
            data_sequence: 0,
            hop: way_back.first_hop,
            path: ack.path,
            bytes: world.tcp.ack_bytes + option,
            is_ack: true,
            ecn: Default::default(),
        };
        if let Err(cause) = world.network.send(world.now, packet) {
            self.on_drop(&packet, cause);
            if self.is_over() {
                world
                    .network
                    .calendar
                    .push(world.now, Event::Over(self.number));
            }
        }
    }

    /// Takes the packets of an acknowledgement's blocks to have arrived. As those that duplicates
    /// report, they do not open the window (RFC 5681, section 3.2, step 1).
    fn report_blocks(&mut self, world: &World, sacking: &Sacking) {
        let r = usize::from(sacking.ack.path);
        let sender = &mut self.paths[r].sender;
        let packets = sender.on_blocks(sacking.ack.cumulative, &sacking.blocks);
        if packets > 0 {
            self.controller.on_ack(
                r,
                &Ack {
                    now: seconds(world.now),
                    sent_at: seconds(sacking.ack.sent_at),
                    packets,
                    rtt: None,
                    queue_delay: None,
                    window_limited: false,
                },
            );
        }
    }

    /// An acknowledgement reaches the sender over links.
    pub fn on_ack_packet(&mut self, world: &mut World, packet: &Packet) {
        let way_back = self.paths[usize::from(packet.path)].way_back.as_mut();
        if let Some(sacking) = way_back.and_then(|way_back| way_back.take(packet.sequence)) {
            self.report_blocks(world, &sacking);
            self.on_ack(world, &sacking.ack);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first and last packets of the blocks reported after each of these has arrived.
    fn reported(arrivals: &[PacketNumber]) -> Vec<Vec<(PacketNumber, PacketNumber)>> {
        let (mut way_back, mut receiver) = (WayBack::new(0), Reassembly::default());
        let report = |&sequence: &PacketNumber| {
            receiver.receive(sequence);
            let blocks = way_back.report(&receiver, sequence).iter();
            blocks.map(|block| (block.start, block.end - 1)).collect()
        };
        arrivals.iter().map(report).collect()
    }

    /// The third example of RFC 2018, section 5, in packets: of eight, those with odd numbers are
    /// lost; then the fourth arrives, and then the second.
    #[test]
    fn the_latest_block_is_reported_first() {
        assert_eq!(
            reported(&[0, 2, 4, 6, 3, 1]),
            [
                vec![],
                vec![(2, 2)],
                vec![(4, 4), (2, 2)],
                vec![(6, 6), (4, 4), (2, 2)],
                vec![(2, 4), (6, 6)],
                vec![(6, 6)],
            ]
        );
    }

    /// A block that is no longer reported is a part of the one that reaches it.
    #[test]
    fn a_block_is_all_that_has_arrived_around_a_packet() {
        let blocks = reported(&[1, 2, 5, 7, 9, 3, 4]);
        assert_eq!(blocks[4], [(9, 9), (7, 7), (5, 5)]);
        assert_eq!(blocks[5], [(1, 3), (9, 9), (7, 7)]);
        assert_eq!(blocks[6], [(1, 5), (9, 9), (7, 7)]);
    }

    #[test]
    fn acknowledgements_before_one_that_arrives_are_lost() {
        let mut way_back = WayBack::new(0);
        let sacking = |cumulative| Sacking {
            ack: Acknowledgement {
                sent_at: 0,
                connection: 0,
                cumulative,
                selective: 0,
                data_cumulative: 0,
                path: 0,
            },
            blocks: Vec::new(),
        };
        let numbers: Vec<PacketNumber> = (0..4).map(|n| way_back.push(sacking(n))).collect();
        assert_eq!(numbers, [0, 1, 2, 3]);
        let taken = way_back.take(2).map(|sacking| sacking.ack.cumulative);
        assert_eq!(taken, Some(2));
        assert_eq!(way_back.push(sacking(4)), 4);
        assert_eq!(way_back.sent.len(), 2, "3 and 4 are on their way");
    }
}
