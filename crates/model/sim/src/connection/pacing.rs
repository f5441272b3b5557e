//! Paths whose rule acts by delivery rates: the notes of outstanding packets, and pacing.
//!
//! A path that must wait has no room: its window is closed to what is in flight until the pacing
//! timer expires. Paths of other rules have none of this.

use std::collections::VecDeque;

use anabranch_control::Stamp;
use anabranch_net::Time;
use anabranch_scenario::time::{from_seconds, seconds};

use crate::calendar::Event;
use crate::connection::timers::{Timer, TimerEvent};
use crate::connection::{Connection, World};
use crate::network::{Acknowledgement, PacketNumber};

/// A packet that is not known to have arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub stamp: Stamp,
    /// Whether it is known to be lost since it was sent last.
    lost: bool,
    /// Whether it was sent more than once, so that its RTT is not known.
    pub again: bool,
}

/// The place of a packet that has arrived, of which nothing is noted any more.
const ARRIVED: u32 = u32::MAX;

/// The outstanding packets of a path, and when it may send.
#[derive(Debug, Default)]
pub(crate) struct Packets {
    /// The places in `sent` of packets by sequence number, from `first` on. They are apart because
    /// many packets may have arrived above one that is lost again and again.
    places: VecDeque<u32>,
    sent: Vec<Sent>,
    /// Places without a packet.
    free: Vec<u32>,
    /// The number of the first outstanding packet.
    first: PacketNumber,
    /// When the next packet may be sent (`C.next_send_time`).
    pub next_send: Time,
    pub timer: Timer,
}

impl Packets {
    /// Notes a packet that is sent, for the first time or again.
    pub fn note_sent(&mut self, sequence: PacketNumber, stamp: Stamp) {
        let index = (sequence - self.first) as usize;
        let again = index < self.places.len();
        if !again {
            self.places.push_back(ARRIVED);
        }
        let sent = Sent {
            stamp,
            lost: false,
            again,
        };
        let place = &mut self.places[index];
        if *place == ARRIVED {
            *place = self.free.pop().unwrap_or(self.sent.len() as u32);
        }
        match self.sent.get_mut(*place as usize) {
            Some(before) => *before = sent,
            None => self.sent.push(sent),
        }
    }

    /// The packet, if it was not known to have arrived.
    pub fn arrives(&mut self, sequence: PacketNumber) -> Option<Sent> {
        let index = sequence.checked_sub(self.first)? as usize;
        let place = std::mem::replace(self.places.get_mut(index)?, ARRIVED);
        let sent = self.sent.get(place as usize)?;
        self.free.push(place);
        Some(*sent)
    }

    /// Forgets the packets below `una`; reports those that were not known to have arrived.
    pub fn advance(&mut self, una: PacketNumber, mut report: impl FnMut(&Sent)) {
        while self.first < una
            && let Some(place) = self.places.pop_front()
        {
            self.first += 1;
            if let Some(sent) = self.sent.get(place as usize) {
                report(sent);
                self.free.push(place);
            }
        }
    }

    /// The packet, if it was not known to be lost.
    pub fn is_lost(&mut self, sequence: PacketNumber) -> Option<Stamp> {
        let index = sequence.checked_sub(self.first)? as usize;
        let sent = self.sent.get_mut(*self.places.get(index)? as usize)?;
        let before = std::mem::replace(&mut sent.lost, true);
        (!before).then_some(sent.stamp)
    }
}

impl Connection {
    /// Sets the window of path `r` to the controller's, or closes it if the path must wait.
    #[cold]
    pub(super) fn open_window(&mut self, now: Time, r: usize) {
        let path = &mut self.paths[r];
        path.window = self.controller.window(r) as u32;
        let waits = path.packets.as_ref().is_some_and(|it| now < it.next_send);
        if waits {
            path.window = path.window.min(path.sender.in_flight());
        }
    }

    /// Notes a packet that is sent, the scoreboard's already, and when the next one may be.
    #[cold]
    pub(super) fn note_sent(
        &mut self,
        world: &mut World,
        r: usize,
        sequence: PacketNumber,
        bytes: u16,
    ) {
        let path = &mut self.paths[r];
        let Some(packets) = &mut path.packets else {
            return;
        };
        let (now, size) = (
            seconds(world.now),
            f64::from(bytes) / f64::from(world.tcp.packet_bytes),
        );
        let before = f64::from(path.sender.in_flight() - 1);
        let stamp = self.controller.on_packet_sent(r, now, size, before);
        packets.note_sent(sequence, stamp);
        let gap_s = size / self.controller.pacing_rate(r);
        packets.next_send = packets.next_send.max(world.now) + from_seconds(gap_s);
        if packets.next_send > world.now {
            path.window = path.window.min(path.sender.in_flight());
            let time = packets.timer.start(packets.next_send);
            self.schedule(world, Event::Pace, r, time);
        }
    }

    /// An event of a path's pacing timer.
    pub fn on_pacing_timer(&mut self, world: &mut World, r: usize) {
        let packets = self.paths[r].packets.as_mut();
        let event = packets.map(|packets| packets.timer.on_event(world.now));
        match event.or_else(|| self.program_paces(world.now, r)) {
            Some(TimerEvent::Later(time)) => self.schedule(world, Event::Pace, r, Some(time)),
            Some(TimerEvent::Expired) => {
                self.open_window(world.now, r);
                self.fill_windows(world);
            }
            Some(TimerEvent::Stale) | None => {}
        }
    }

    /// Reports the packets that an acknowledgement shows to have arrived or to be lost, after the
    /// scoreboard has processed it, and opens the window.
    #[cold]
    pub(super) fn report_deliveries(&mut self, world: &World, r: usize, ack: &Acknowledgement) {
        let path = &mut self.paths[r];
        let Some(packets) = &mut path.packets else {
            return;
        };
        let now = seconds(world.now);
        // The RTT of the packet sent last (section 5.5.7.1), or the echoed time of the first one.
        let echoed = seconds(ack.sent_at);
        let mut sent_at = echoed;
        let mut report = |sent: &Sent| {
            self.controller.on_packet_delivered(r, now, &sent.stamp);
            sent_at = match sent.again {
                false => sent.stamp.send_time,
                true => echoed,
            };
        };
        packets.advance(path.sender.una(), &mut report);
        if path.way_back.is_some() {
            let known = path.sender.una()..path.sender.next();
            for sequence in known.filter(|&sequence| path.sender.has_arrived(sequence)) {
                packets.arrives(sequence).iter().for_each(&mut report);
            }
        } else if path.sender.has_arrived(ack.selective) {
            packets.arrives(ack.selective).iter().for_each(report);
        }
        self.report_losses(world.now, r);
        let in_flight = self.paths[r].sender.in_flight().into();
        self.controller
            .on_packets_processed(r, now, Some(now - sent_at), in_flight);
        self.open_window(world.now, r);
    }

    /// Reports the packets that the scoreboard has declared lost.
    #[cold]
    pub(super) fn report_losses(&mut self, now: Time, r: usize) {
        let path = &mut self.paths[r];
        let Some(packets) = &mut path.packets else {
            return;
        };
        if !path.sender.has_lost() {
            return;
        }
        let mut from = path.sender.una();
        while let Some(sequence) = path.sender.first_lost(from) {
            if let Some(stamp) = packets.is_lost(sequence) {
                self.controller.on_packet_lost(r, seconds(now), &stamp);
            }
            from = sequence + 1;
        }
    }

    /// The application has no data for the paths that have room.
    pub(super) fn note_app_limited(&mut self) {
        if self.data_next < self.data_end {
            return; // The receive window limits the sender (section 4.1.1.3.1).
        }
        for (r, path) in self.paths.iter().enumerate() {
            if path.packets.is_some() && path.has_room() {
                let in_flight = path.sender.in_flight().into();
                self.controller.on_app_limited(r, in_flight);
            }
        }
    }
}
