//! Media: frames are sent, arrive or are lost, and reports return.

use anabranch_control::nada::DELTA;
use anabranch_net::Cause;
use anabranch_scenario::media::{Source, Way, rows};
use anabranch_scenario::time::{from_seconds, seconds};

use super::Simulation;
use crate::calendar::Event;
use crate::ecn::Bits;
use crate::network::Packet;

/// The path of packets of media, which no connection has: queues that separate flows tell them from
/// a connection of the same number.
const PATH: u16 = u16::MAX;

impl Simulation {
    /// A user begins to send media.
    pub(super) fn begin_media(&mut self, user: u32) {
        let slot = &self.users[user as usize].slot;
        let Some((way, media)) = Way::new(&self.scenario, user, slot) else {
            return;
        };
        let counts_from = from_seconds(self.scenario.measure.warmup_s.get());
        let source = Source::new(media, way, self.now, counts_from);
        let number = self.media.len() as u32;
        if source.has_feedback() {
            self.schedule_feedback(number);
        }
        self.media.push(source);
        self.send_frame(number);
    }

    /// A source sends its next frame, all packets at once.
    pub(super) fn send_frame(&mut self, number: u32) {
        let source = &mut self.media[number as usize];
        let (frame, sizes) = source.next_frame(self.now);
        let row = source.way.path_row;
        let flow = self.users[source.way.user as usize].slot.flow as usize;
        let hop = self.plans[flow].routes[0].first_hop;
        if let Some(time) = source.time_after(frame) {
            self.network.calendar.push(time, Event::Frame(number));
        }
        for size in sizes {
            let source = &mut self.media[number as usize];
            let packet = Packet {
                sent_at: self.now,
                connection: number,
                sequence: source.number_packet(),
                data_sequence: frame,
                hop,
                path: PATH,
                bytes: source.way.header_bytes + size as u16,
                bits: Bits::MEDIA,
            };
            self.retired[row].sent_packets += 1;
            if let Err(cause) = self.network.send(self.now, packet) {
                self.lose_media(&packet, cause);
            }
        }
    }

    /// A packet of media reaches its receiver.
    pub(super) fn receive_media(&mut self, packet: &Packet) {
        let source = &mut self.media[packet.connection as usize];
        let bytes = u64::from(packet.bytes - source.way.header_bytes);
        source.on_packet(self.now, packet.sent_at, packet.sequence, bytes);
        source.settle(self.now, packet.data_sequence, false);
        let totals = &mut self.retired[source.way.path_row];
        totals.delivered_packets += 1;
        totals.delivered_bytes += bytes;
        totals.one_way_sum_s += seconds(self.now - packet.sent_at);
        self.users[source.way.user as usize].received_bytes += bytes;
    }

    /// A link dropped a packet of media.
    #[cold]
    pub(super) fn lose_media(&mut self, packet: &Packet, cause: Cause) {
        let source = &mut self.media[packet.connection as usize];
        source.settle(self.now, packet.data_sequence, true);
        self.retired[source.way.path_row].lost[cause as usize] += 1;
    }

    /// The receiver of media sends a report, and later the next one.
    pub(super) fn send_feedback(&mut self, number: u32) {
        if let Some(time) = self.media[number as usize].report(self.now) {
            self.network.calendar.push(time, Event::Report(number));
        }
        self.schedule_feedback(number);
    }

    fn schedule_feedback(&mut self, number: u32) {
        let time = self.now + from_seconds(DELTA);
        self.network.calendar.push(time, Event::Feedback(number));
    }

    /// Fills the table of media at the end of the run.
    pub(super) fn record_media(&mut self) {
        let slots: Vec<_> = self.users.iter().map(|user| user.slot.clone()).collect();
        for row in rows(&self.scenario, &slots, &mut self.media, self.now) {
            self.recorder.media(row);
        }
    }
}
