//! A connection's acknowledgements on the links of their way back.

use crate::calendar::Event;
use crate::connection::way_back::Sacking;
use crate::connection::{Connection, World};
use crate::ecn::Bits;
use crate::network::{Acknowledgement, Packet, PacketNumber};

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
            return world.answer_captured(path.route.return_line, ack, &blocks);
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
    pub fn on_returned(&mut self, world: &mut World, r: u16, number: PacketNumber) {
        let path = &mut self.paths[usize::from(r)];
        let way_back = path.way_back.as_mut();
        let Some(Sacking { ack, blocks }) = way_back.and_then(|way| way.take(number)) else {
            return;
        };
        world.capture_ack(world.now, world.now, &ack, &blocks);
        path.sender.on_blocks(ack.cumulative, &blocks);
        self.on_ack(world, &ack);
    }
}
