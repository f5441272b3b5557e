//! A connection's acknowledgements on the links of their way back.

use anabranch_control::Ack;
use anabranch_scenario::time::seconds;

use crate::calendar::Event;
use crate::connection::way_back::Sacking;
use crate::connection::{Connection, World};
use crate::network::{Acknowledgement, Packet};

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
