//! Packets that links dropped, those that overtake others, and those that are no data.

use anabranch_net::Cause;

use super::Simulation;
use crate::network::{Kind, Packet, PacketNumber};

impl Simulation {
    /// Tells connections of the packets that a link with real queues dropped.
    pub(super) fn account_drops(&mut self, link: u32) {
        for (packet, cause) in self.network.take_dropped(link) {
            self.account_drop(packet, cause);
        }
    }

    /// A link dropped a packet.
    #[inline]
    pub(super) fn account_drop(&mut self, packet: Packet, cause: Cause) {
        match packet.kind() {
            Kind::Data => {
                let connection = &mut self.connections[packet.connection as usize];
                connection.on_drop(packet.path, cause);
            }
            Kind::Ack => {
                let connection = &mut self.connections[packet.connection as usize];
                connection.on_ack_drop(packet.path, packet.sequence);
            }
            Kind::Media => return self.lose_media(&packet, cause),
        }
        self.retire_if_over(packet.connection);
    }

    /// Packets have arrived over a link on which they may overtake one another.
    #[inline(never)]
    pub(super) fn arrive_overtaking(&mut self, link: u32) {
        while let Some(packet) = self.network.overtaking(link, self.now) {
            self.arrive(packet);
        }
    }

    #[cold]
    pub(super) fn arrive_other(&mut self, packet: &Packet) {
        match packet.kind() {
            Kind::Media => self.receive_media(packet),
            _ => self.arrive_back(packet.connection, packet.path, packet.sequence),
        }
    }

    /// An acknowledgement reaches the sender over links.
    #[cold]
    pub(super) fn arrive_back(&mut self, number: u32, path: u16, ack: PacketNumber) {
        self.connect(number, |connection, world| {
            connection.on_returned(world, path, ack);
        });
        self.retire_if_over(number);
    }
}
