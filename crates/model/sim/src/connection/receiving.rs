//! The receiving side of a connection: arrivals and acknowledgements.

use anabranch_net::Time;
use anabranch_scenario::time::{SECOND, seconds};

use crate::calendar::Event;
use crate::connection::path_state::QUICK_ACKS;
use crate::connection::{Connection, World};
use crate::ecn::Bits;
use crate::network::{Acknowledgement, Packet, PacketNumber};

/// How long an acknowledgement may be delayed: Linux's shortest (RFC 5681 allows 500 ms).
const ACK_DELAY: Time = SECOND / 25;

impl Connection {
    /// A packet reaches the receiver; true if it completes a file. Inlined always, as its callers.
    #[inline(always)]
    pub fn on_packet(&mut self, world: &mut World, packet: &Packet) -> bool {
        let was_complete = self.is_complete();
        let path = &mut self.paths[usize::from(packet.path)];
        let had_hole = path.receiver.has_hole();
        let expected = packet.sequence == path.receiver.next();
        if !path.receiver.receive(packet.sequence) {
            self.on_duplicate(world, packet);
            return false;
        }
        if !self.several || self.data_receiver.receive(packet.data_sequence) {
            let totals = &mut path.totals;
            totals.delivered_packets += 1;
            totals.delivered_bytes += u64::from(packet.bytes - world.tcp.header_bytes);
            totals.one_way_sum_s += seconds(world.now - packet.sent_at);
        }
        if let Some(ecn) = &mut path.ecn {
            path.totals.marked_packets += u64::from(ecn.receive(packet.bits));
            path.echo = ecn.of_ack();
        }
        let may_wait = world.tcp.keys.delayed_acks && expected && !had_hole;
        let may_wait =
            may_wait && !(world.tcp.keys.quick_acks && self.is_quick(world, packet.path));
        let path = &self.paths[usize::from(packet.path)];
        if may_wait && path.held.is_none() && !self.is_complete() {
            self.delay_ack(world, packet);
        } else {
            let first = self.paths[usize::from(packet.path)].held.take();
            self.acknowledge(
                world,
                packet.path,
                packet.sequence,
                first.unwrap_or(packet.sent_at),
            );
        }
        match &self.gateway {
            None => !was_complete && self.is_complete(),
            Some(gateway) => gateway.has_file(self.data_received()),
        }
    }

    /// A packet that has arrived before reaches the receiver, which says so at once.
    #[cold]
    fn on_duplicate(&mut self, world: &mut World, packet: &Packet) {
        let path = &mut self.paths[usize::from(packet.path)];
        if let Some(ecn) = &mut path.ecn {
            path.totals.marked_packets += u64::from(ecn.receive(packet.bits));
            path.echo = ecn.of_ack();
        }
        let sent_at = path.held.take().unwrap_or(packet.sent_at);
        let echo = path.echo;
        path.echo.set(Bits::DUPLICATE);
        self.acknowledge(world, packet.path, packet.sequence, sent_at);
        self.paths[usize::from(packet.path)].echo = echo;
    }

    /// Whether the acknowledgement of a packet that arrives must not wait: one of the first of the
    /// connection, or after a silence longer than the timeout (Linux' `tcp_event_data_recv`).
    fn is_quick(&mut self, world: &World, r: u16) -> bool {
        let path = &mut self.paths[usize::from(r)];
        if world.now - path.last_arrived > path.rto.timeout(world.tcp) {
            path.quick_acks = QUICK_ACKS;
        }
        path.last_arrived = world.now;
        let quick = path.quick_acks > 0;
        path.quick_acks = path.quick_acks.saturating_sub(1);
        quick
    }

    fn delay_ack(&mut self, world: &mut World, packet: &Packet) {
        let path = &mut self.paths[usize::from(packet.path)];
        path.held = Some(packet.sent_at);
        path.held_until = world.now + ACK_DELAY;
        self.in_network -= 1;
        let event = Event::DelayedAck {
            connection: self.number,
            path: packet.path,
        };
        world.network.calendar.push(world.now + ACK_DELAY, event);
    }

    /// The delayed-acknowledgement timer expires.
    pub fn on_ack_delay(&mut self, world: &mut World, r: u16) {
        // As for the retransmission timer: this may be another connection by now.
        let Some(path) = self.paths.get_mut(usize::from(r)) else {
            return;
        };
        if path.held_until != world.now {
            return;
        }
        if let Some(sent_at) = path.held.take() {
            let last = path.receiver.next() - 1;
            self.in_network += 1;
            self.acknowledge(world, r, last, sent_at);
        }
    }

    #[inline(always)]
    fn acknowledge(&mut self, world: &mut World, r: u16, selective: PacketNumber, sent_at: Time) {
        let data_cumulative = self.data_received();
        let path = &self.paths[usize::from(r)];
        let ack = Acknowledgement {
            sent_at,
            connection: self.number,
            cumulative: path.receiver.next(),
            selective,
            data_cumulative,
            path: r,
            ecn: path.echo,
        };
        if path.way_back.is_some() {
            self.send_back(world, ack);
        } else {
            world.network.answer(world.now, path.route.return_line, ack);
        }
    }
}
