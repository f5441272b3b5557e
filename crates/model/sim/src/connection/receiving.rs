//! The receiver of a connection: arrivals, and acknowledgements on a return line or over links.
//!
//! Over links they queue and are lost. A lost acknowledgement takes its information with it, so
//! each repeats what those before it said: the cumulative number, and the blocks of packets above
//! it that arrived last, three beside a timestamp (RFC 2018). The sender's scoreboard takes both
//! (RFC 6675).

use std::collections::VecDeque;
use std::ops::Range;

use anabranch_net::Time;
use anabranch_scenario::time::{SECOND, seconds};

use crate::calendar::Event;
use crate::connection::numbers::Reassembly;
use crate::connection::tcp::Tcp;
use crate::connection::{Connection, World};
use crate::ecn::Bits;
use crate::network::{Acknowledgement, Packet, PacketNumber};

/// The longest delay of an acknowledgement: Linux' shortest (RFC 5681 allows 500 ms).
const ACK_DELAY: Time = SECOND / 25;

/// Packets that are acknowledged at once at the start and after idle (`TCP_MAX_QUICKACKS`).
pub(crate) const QUICK_ACKS: u32 = 16;

/// SACK blocks that fit beside a timestamp into TCP's 40 bytes of options (RFC 2018, section 3).
const BLOCKS: usize = 3;

/// Bytes of a SACK option and its padding without blocks.
const FIXED: u16 = 4;
/// Bytes of a SACK block.
const EACH: u16 = 8;

/// An acknowledgement and its SACK blocks, the latest first.
#[derive(Debug)]
pub(crate) struct Sacking {
    pub ack: Acknowledgement,
    pub blocks: Vec<Range<PacketNumber>>,
}

impl Sacking {
    /// Bytes that the blocks add to an acknowledgement without them.
    pub fn option_bytes(&self) -> u16 {
        match self.blocks.len() as u16 {
            0 => 0,
            count => FIXED + count * EACH,
        }
    }
}

/// The links of a path's acknowledgements, and those that are on their way.
#[derive(Debug, Default)]
pub(crate) struct WayBack {
    /// Index of the first hop in the network's table.
    pub first_hop: u32,
    /// The acknowledgements from number `first` on, which is on its way; `None` for one that has
    /// arrived or is lost.
    sent: VecDeque<Option<Sacking>>,
    /// The number of the first acknowledgement that is on its way.
    first: PacketNumber,
    /// The blocks last reported, the latest first.
    recent: Vec<Range<PacketNumber>>,
}

impl WayBack {
    /// A way back without acknowledgements.
    pub fn new(first_hop: u32) -> WayBack {
        WayBack {
            first_hop,
            ..WayBack::default()
        }
    }

    /// The blocks to report when `sequence` has arrived: first the one around it, then those that
    /// were reported before (RFC 2018, section 4).
    pub fn report(
        &mut self,
        receiver: &Reassembly,
        sequence: PacketNumber,
    ) -> &[Range<PacketNumber>] {
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
    pub fn push(&mut self, sacking: Sacking) -> PacketNumber {
        self.sent.push_back(Some(sacking));
        self.first + self.sent.len() as PacketNumber - 1
    }

    /// Takes the acknowledgement of this number, which arrives or is lost.
    pub fn take(&mut self, number: PacketNumber) -> Option<Sacking> {
        let place = number.checked_sub(self.first)? as usize;
        let taken = self.sent.get_mut(place)?.take();
        while self.sent.front().is_some_and(Option::is_none) {
            self.sent.pop_front();
            self.first += 1;
        }
        taken
    }
}

impl Connection {
    /// A packet reaches the receiver; true if it completes a file. Inlined always, as its callers.
    #[inline(always)]
    pub fn on_packet(&mut self, world: &mut World, packet: &Packet) -> bool {
        let was_complete = self.is_complete();
        let new = if self.is_plain && !world.tcp.keys.delayed_acks {
            let (new, ack) = self.arrive(world.tcp, world.now, packet);
            let line = self.paths[usize::from(packet.path)].route.return_line;
            world.network.answer(world.now, line, ack);
            new
        } else {
            self.on_any_packet(world, packet)
        };
        match &self.files {
            None => !was_complete && self.is_complete(),
            Some(files) => new && files.has_file(self.data_received()),
        }
    }

    /// A packet of a path without extras arrives: whether it is new, and its acknowledgement.
    #[inline(always)]
    pub fn arrive(&mut self, tcp: &Tcp, now: Time, packet: &Packet) -> (bool, Acknowledgement) {
        let r = usize::from(packet.path);
        let path = &mut self.paths[r];
        let new = path.receiver.receive(packet.sequence);
        if new && (!self.several || self.data_receiver.receive(packet.data_sequence)) {
            let totals = &mut path.totals;
            totals.delivered_packets += 1;
            totals.delivered_bytes += u64::from(packet.bytes - tcp.header_bytes);
            totals.one_way_sum_s += seconds(now - packet.sent_at);
        }
        let mut ack = path.acknowledgement(self.number, r, packet.sequence, packet.sent_at);
        if self.several {
            ack.data_cumulative = self.data_receiver.next();
        }
        if !new {
            ack.ecn.set(Bits::DUPLICATE);
        }
        (new, ack)
    }

    /// As [`on_packet`](Self::on_packet), of any path: acknowledges the packet now, or later if it
    /// was expected and there was no hole.
    #[inline(never)]
    fn on_any_packet(&mut self, world: &mut World, packet: &Packet) -> bool {
        let r = usize::from(packet.path);
        let path = &mut self.paths[r];
        let in_order = !path.receiver.has_hole() && packet.sequence == path.receiver.next();
        if let Some(ecn) = &mut path.ecn {
            path.totals.marked_packets += u64::from(ecn.receive(packet.bits));
            path.echo = ecn.of_ack();
        }
        let (new, mut ack) = self.arrive(world.tcp, world.now, packet);
        let keys = &world.tcp.keys;
        let may_wait = keys.delayed_acks && in_order;
        let may_wait = may_wait && !(keys.quick_acks && self.is_quick(world, r));
        let held = self.paths[r].held;
        if may_wait && held.is_none() && !self.is_complete() {
            self.delay_ack(world, r, packet);
        } else {
            ack.sent_at = held.unwrap_or(packet.sent_at);
            self.acknowledge(world, ack);
        }
        new
    }

    /// Whether the acknowledgement of a packet that arrives must not wait: one of the first of the
    /// connection, or after a silence longer than the timeout (Linux' `tcp_event_data_recv`).
    fn is_quick(&mut self, world: &World, r: usize) -> bool {
        let path = &mut self.paths[r];
        if world.now - path.last_arrived > path.rto.timeout(world.tcp) {
            path.quick_acks = QUICK_ACKS;
        }
        path.last_arrived = world.now;
        let quick = path.quick_acks > 0;
        path.quick_acks = path.quick_acks.saturating_sub(1);
        quick
    }

    fn delay_ack(&mut self, world: &mut World, r: usize, packet: &Packet) {
        let path = &mut self.paths[r];
        path.held = Some(packet.sent_at);
        path.held_until = world.now + ACK_DELAY;
        self.in_network -= 1;
        self.schedule(world, Event::DelayedAck, r, Some(world.now + ACK_DELAY));
    }

    /// The delayed-acknowledgement timer expires.
    pub fn on_ack_delay(&mut self, world: &mut World, r: usize) {
        let path = &self.paths[r];
        if path.held_until != world.now {
            return;
        }
        if let Some(sent_at) = path.held {
            let last = path.receiver.next() - 1;
            let mut ack = path.acknowledgement(self.number, r, last, sent_at);
            ack.data_cumulative = self.data_received();
            self.in_network += 1;
            self.acknowledge(world, ack);
        }
    }

    /// Sends an acknowledgement, after which none waits.
    fn acknowledge(&mut self, world: &mut World, ack: Acknowledgement) {
        let path = &mut self.paths[usize::from(ack.path)];
        path.held = None;
        if path.way_back.is_some() {
            self.send_back(world, ack);
        } else {
            world.network.answer(world.now, path.route.return_line, ack);
        }
    }
}

/// Acknowledgements over the links of their way back.
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
        if world.network.route(way_back.first_hop).is_empty() {
            let line = path.route.return_line;
            let arrives = world.now + world.network.return_delay(line);
            world.capture_ack(arrives, &ack, &blocks);
            return world.network.answer(world.now, line, ack);
        }
        let sacking = Sacking { ack, blocks };
        let bytes = world.tcp.ack_bytes + sacking.option_bytes();
        let packet = Packet {
            sent_at: world.now,
            connection: ack.connection,
            sequence: way_back.push(sacking),
            data_sequence: 0,
            hop: way_back.first_hop,
            path: ack.path,
            bytes,
            bits: Bits::ACK,
        };
        if world.network.send(world.now, packet).is_err() {
            self.on_ack_drop(packet.path, packet.sequence);
            if self.is_over() {
                world
                    .network
                    .calendar
                    .push(world.now, Event::Over(self.number));
            }
        }
    }

    /// The acknowledgement of this number reaches the sender of a path over links.
    pub fn on_returned(&mut self, world: &mut World, r: usize, number: PacketNumber) {
        let path = &mut self.paths[r];
        let way_back = path.way_back.as_mut();
        let Some(Sacking { ack, blocks }) = way_back.and_then(|way| way.take(number)) else {
            return;
        };
        world.capture_ack(world.now, &ack, &blocks);
        path.sender.on_blocks(ack.cumulative, &blocks);
        self.on_ack(world, &ack);
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
    fn acknowledgements_are_taken_in_any_order_and_once() {
        let mut way_back = WayBack::new(0);
        let sacking = |cumulative| Sacking {
            ack: Acknowledgement {
                cumulative,
                ..Acknowledgement::default()
            },
            blocks: Vec::new(),
        };
        let numbers: Vec<PacketNumber> = (0..4).map(|n| way_back.push(sacking(n))).collect();
        assert_eq!(numbers, [0, 1, 2, 3]);
        let taken = [2, 0, 2, 1, 0].map(|number| {
            let taken = way_back.take(number);
            taken.map(|sacking| sacking.ack.cumulative)
        });
        assert_eq!(taken, [Some(2), Some(0), None, Some(1), None]);
        assert_eq!(way_back.push(sacking(4)), 4);
        assert_eq!(way_back.sent.len(), 2, "3 and 4 are on their way");
    }
}
