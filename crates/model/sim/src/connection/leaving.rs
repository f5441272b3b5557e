//! Packets leave the sender's host for the network.

use anabranch_net::Time;

use crate::calendar::Event;
use crate::connection::{Connection, World};
use crate::network::Packet;

impl Connection {
    /// Hands a packet to the host, or to the network if the host delays nothing.
    #[inline]
    pub(super) fn emit(&mut self, world: &mut World, packet: Packet) {
        if self.paths[usize::from(packet.path)].host.is_some() {
            self.delay(world, packet);
        } else {
            self.offer(world, packet);
        }
    }

    #[cold]
    fn delay(&mut self, world: &mut World, packet: Packet) {
        let Some(host) = &mut self.paths[usize::from(packet.path)].host else {
            return;
        };
        if let Some(time) = host.take(world.now, packet) {
            self.schedule_leave(world, packet.path, time);
        }
    }

    /// The first packet of path `r` leaves the host.
    pub fn on_leave(&mut self, world: &mut World, r: u16) {
        let Some(host) = &mut self.paths[usize::from(r)].host else {
            return;
        };
        let (head, next) = host.release();
        if let Some(time) = next {
            self.schedule_leave(world, r, time);
        }
        if let Some(packet) = head {
            self.offer(world, packet);
        }
    }

    fn schedule_leave(&self, world: &mut World, path: u16, time: Time) {
        let event = Event::Leave {
            connection: self.number,
            path,
        };
        world.network.calendar.push(time, event);
    }

    #[inline(always)]
    fn offer(&mut self, world: &mut World, packet: Packet) {
        if let Err(cause) = world.network.send(world.now, packet) {
            self.on_drop(packet.path, cause);
        }
    }
}
