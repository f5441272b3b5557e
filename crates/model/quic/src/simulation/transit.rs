//! Packets over links: sent, lost or arrived.

use anabranch_net::{Cause, Step};
use anabranch_scenario::time::seconds;

use super::Simulation;
use crate::network::{Content, Event, Hop, Packet};
use crate::transport::{Datagram, Side, UDP_HEADERS};

impl Simulation {
    /// Sends a datagram of the sender of a connection.
    pub(super) fn send(&mut self, number: u32, datagram: Datagram) {
        let Some(connection) = &mut self.connections[number as usize] else {
            return;
        };
        let leaves_at = connection.host.leaves_at(self.now, datagram.path);
        let packet = self.packet(number, Side::Receiver, datagram);
        let Some(packet) = packet else { return };
        self.totals[packet.row].sent_packets += 1;
        if leaves_at == self.now {
            self.hop(packet);
        } else {
            self.calendar.push(leaves_at, Event::Hop(packet));
        }
    }

    /// Sends a datagram of the receiver of a connection.
    pub(super) fn acknowledge(&mut self, number: u32, datagram: Datagram) {
        let Some(packet) = self.packet(number, Side::Sender, datagram) else {
            return;
        };
        let route = &self.routes[packet.flow][packet.path];
        if !route.back.is_empty() {
            return self.hop(packet);
        }
        let delay = route.return_delay + self.reordering.delay();
        self.calendar.push(self.now + delay, Event::Hop(packet));
    }

    fn packet(&self, number: u32, to: Side, datagram: Datagram) -> Option<Packet> {
        let user = self.connections[number as usize].as_ref()?.user;
        let slot = &self.slots[user];
        let flow = slot.flow as usize;
        Some(Packet {
            sent_at: self.now,
            connection: number,
            flow,
            path: datagram.path,
            row: slot.first_path as usize + datagram.path,
            bytes: datagram.bytes.len() as u32 + UDP_HEADERS,
            hops: 0,
            ecn_capable: datagram.ecn_capable,
            scalable: self.scalable[flow],
            marked: false,
            content: Content::Datagram(to, datagram),
        })
    }

    /// A packet goes to the next link, or to its end.
    pub(super) fn hop(&mut self, packet: Packet) {
        let route = &self.routes[packet.flow][packet.path];
        match self.links.offer(self.now, route, packet) {
            Hop::Arrived(packet) => self.arrive(packet),
            Hop::At(_, Step::Arrives(at, packet)) => {
                let at = at + self.reordering.delay();
                self.calendar.push(at, Event::Hop(packet));
            }
            Hop::At(link, Step::Overtaking(at)) => {
                self.calendar.push(at, Event::Overtaking(link));
            }
            Hop::At(link, Step::Waits(start)) => {
                if let Some(time) = start {
                    self.calendar.push(time, Event::Start(link));
                }
                self.lose_dropped(link);
            }
            Hop::At(_, Step::Lost(packet, cause)) => self.lose(&packet, cause),
        }
    }

    /// Packets have arrived over a link on which they may overtake one another.
    pub(super) fn overtaking(&mut self, link: usize) {
        while let Some((_, packet)) = self.links.leave(self.now, link) {
            self.hop(packet);
        }
    }

    /// The transmission is due of a packet that waits at a link.
    pub(super) fn start(&mut self, link: usize) {
        if let Some((at, packet)) = self.links.leave(self.now, link) {
            let at = at + self.reordering.delay();
            self.calendar.push(at, Event::Hop(packet));
        }
        if let Some(time) = self.links.next_leave(link) {
            self.calendar.push(time, Event::Start(link));
        }
        self.lose_dropped(link);
    }

    fn lose_dropped(&mut self, link: usize) {
        for (packet, cause) in self.links.take_dropped(link) {
            self.lose(&packet, cause);
        }
    }

    /// A link dropped a packet. Those to the sender are counted by the link only.
    fn lose(&mut self, packet: &Packet, cause: Cause) {
        match packet.content {
            Content::Datagram(Side::Sender, _) => return,
            Content::Datagram(Side::Receiver, _) => {}
            Content::Media { frame, .. } => {
                let source = &mut self.media[packet.connection as usize];
                source.settle(self.now, frame, true);
            }
        }
        self.totals[packet.row].lost[cause as usize] += 1;
    }

    fn arrive(&mut self, packet: Packet) {
        if let Content::Datagram(Side::Sender, mut datagram) = packet.content {
            datagram.marked = packet.marked;
            return self.receive(packet.connection, Side::Sender, datagram);
        }
        let totals = &mut self.totals[packet.row];
        totals.delivered_packets += 1;
        totals.marked_packets += u64::from(packet.marked);
        totals.one_way_sum_s += seconds(self.now - packet.sent_at);
        match packet.content {
            Content::Datagram(side, mut datagram) => {
                datagram.marked = packet.marked;
                self.receive(packet.connection, side, datagram);
            }
            Content::Media {
                frame,
                number,
                payload,
            } => {
                totals.delivered_bytes += payload;
                let source = &mut self.media[packet.connection as usize];
                source.on_packet(self.now, packet.sent_at, number, payload);
                source.settle(self.now, frame, false);
                self.users[source.way.user as usize].0 += payload;
            }
        }
    }
}
