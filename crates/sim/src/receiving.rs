//! A connection's receiving side: what arrives, and what is acknowledged.

use anabranch_net::Time;

use crate::calendar::Event;
use crate::connection::{Connection, World};
use crate::network::{Ack, Packet};
use anabranch_scenario::time::{SECOND, seconds};

/// How long an acknowledgement may be delayed: Linux's shortest (RFC 5681 allows 500 ms).
const ACK_DELAY: Time = SECOND / 25;

impl Connection {
    /// A packet reaches the receiver; true if it completes a file.
    #[inline]
    pub fn on_packet(&mut self, world: &mut World, packet: &Packet) -> bool {
        let was_complete = self.is_complete();
        let subflow = &mut self.subflows[usize::from(packet.subflow)];
        let had_hole = subflow.receiver.has_hole();
        let expected = packet.sequence == subflow.receiver.next();
        let new = subflow.receiver.receive(packet.sequence)
            && (!self.several || self.data_receiver.receive(packet.data_sequence));
        if new {
            let totals = &mut subflow.totals;
            totals.delivered_packets += 1;
            totals.delivered_bytes += u64::from(packet.bytes - world.tcp.header_bytes);
            totals.one_way_sum_s += seconds(world.now - packet.sent_at);
        }
        let may_wait = world.tcp.delayed_acks && expected && !had_hole;
        if may_wait && subflow.held.is_none() && !self.is_complete() {
            self.delay_ack(world, packet);
        } else {
            let first = self.subflows[usize::from(packet.subflow)].held.take();
            self.acknowledge(
                world,
                packet.subflow,
                packet.sequence,
                first.unwrap_or(packet.sent_at),
            );
        }
        match &self.gateway {
            None => !was_complete && self.is_complete(),
            Some(gateway) => gateway.has_file(self.data_received()),
        }
    }

    fn delay_ack(&mut self, world: &mut World, packet: &Packet) {
        let subflow = &mut self.subflows[usize::from(packet.subflow)];
        subflow.held = Some(packet.sent_at);
        subflow.held_until = world.now + ACK_DELAY;
        self.in_network -= 1;
        let event = Event::DelayedAck {
            connection: self.number,
            subflow: packet.subflow,
        };
        world.network.calendar.push(world.now + ACK_DELAY, event);
    }

    /// The delayed-acknowledgement timer runs out.
    pub fn on_ack_delay(&mut self, world: &mut World, r: u16) {
        // As for the other timer: this may be another connection by now.
        let Some(subflow) = self.subflows.get_mut(usize::from(r)) else {
            return;
        };
        if subflow.held_until != world.now {
            return;
        }
        if let Some(sent_at) = subflow.held.take() {
            let last = subflow.receiver.next() - 1;
            self.in_network += 1;
            self.acknowledge(world, r, last, sent_at);
        }
    }

    #[inline]
    fn acknowledge(&mut self, world: &mut World, r: u16, selective: u32, sent_at: Time) {
        let data_cumulative = self.data_received();
        let subflow = &self.subflows[usize::from(r)];
        let ack = Ack {
            sent_at,
            connection: self.number,
            cumulative: subflow.receiver.next(),
            selective,
            data_cumulative,
            subflow: r,
        };
        world
            .network
            .answer(world.now, subflow.route.return_line, ack);
    }
}
