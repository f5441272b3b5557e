//! Media beside connections: datagrams of their own, which no QUIC connection has.

use anabranch_control::nada::DELTA;
use anabranch_scenario::media::{Source, Way};
use anabranch_scenario::time::from_seconds;

use super::Simulation;
use crate::calendar::Event;
use crate::network::{Content, Packet};

impl Simulation {
    /// A user begins to send media.
    pub(super) fn begin_media(&mut self, user: usize) {
        let way = Way::new(&self.scenario, user as u32, &self.slots[user]);
        let Some((way, media)) = way else {
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
        let flow = self.slots[source.way.user as usize].flow as usize;
        if let Some(time) = source.time_after(frame) {
            self.calendar.push(time, Event::Frame(number));
        }
        for payload in sizes {
            let source = &mut self.media[number as usize];
            let packet = Packet {
                sent_at: self.now,
                connection: number,
                flow,
                path: 0,
                row,
                bytes: u32::from(source.way.header_bytes) + payload as u32,
                hops: 0,
                ecn_capable: false,
                scalable: false,
                marked: false,
                content: Content::Media {
                    frame,
                    number: source.number_packet(),
                    payload,
                },
            };
            self.totals[row].sent_packets += 1;
            self.hop(packet);
        }
    }

    /// The receiver of media sends a report, and later the next one.
    pub(super) fn send_feedback(&mut self, number: u32) {
        if let Some(time) = self.media[number as usize].report(self.now) {
            self.calendar.push(time, Event::Report(number));
        }
        self.schedule_feedback(number);
    }

    fn schedule_feedback(&mut self, number: u32) {
        let time = self.now + from_seconds(DELTA);
        self.calendar.push(time, Event::Feedback(number));
    }
}
