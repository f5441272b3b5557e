//! Acknowledgements that return over links: they queue there and are lost there.
//!
//! A lost acknowledgement takes its information with it, so each repeats what those before it said:
//! the cumulative number, and the blocks of packets above it that arrived last, three beside a
//! timestamp (RFC 2018). The sender's scoreboard takes both (RFC 6675).

use std::collections::VecDeque;
use std::ops::Range;

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

    /// An acknowledgement reaches the sender over links.
    pub fn on_ack_packet(&mut self, world: &mut World, packet: &Packet) {
        let way_back = self.paths[usize::from(packet.path)].way_back.as_mut();
        if let Some(sacking) = way_back.and_then(|way_back| way_back.take(packet.sequence)) {
            self.process_ack(world, &sacking.ack, &sacking.blocks);
        }
    }
}
