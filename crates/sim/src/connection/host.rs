//! The sender's host, which is not a clock: it delays each packet of a path by a random time.

use std::collections::VecDeque;

use anabranch_net::{Dice, Time};

use crate::calendar::Event;
use crate::connection::{Connection, World};
use crate::network::Packet;

/// A path's packets that the host has not sent yet. They leave in order.
#[derive(Debug)]
pub(crate) struct Host {
    dice: Dice,
    /// The longest delay.
    jitter: Time,
    /// The packets and when they leave.
    waiting: VecDeque<(Time, Packet)>,
    /// When the last packet leaves.
    last: Time,
}

impl Host {
    /// A host that delays packets by up to `jitter`, random from `seed`; `None` if it does not.
    pub fn new(jitter: Time, seed: u64) -> Option<Box<Host>> {
        (jitter > 0).then(|| {
            Box::new(Host {
                dice: Dice::new(seed),
                jitter,
                waiting: VecDeque::new(),
                last: 0,
            })
        })
    }

    /// Takes a packet; gives the time at which an event must be scheduled, unless one is pending.
    fn take(&mut self, now: Time, packet: Packet) -> Option<Time> {
        let delay = (self.dice.uniform() * self.jitter as f64) as Time;
        self.last = self.last.max(now + delay);
        self.waiting.push_back((self.last, packet));
        (self.waiting.len() == 1).then_some(self.last)
    }
}

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
        let head = host.waiting.pop_front();
        if let Some(&(time, _)) = host.waiting.front() {
            self.schedule_leave(world, r, time);
        }
        if let Some((_, packet)) = head {
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

    #[inline]
    fn offer(&mut self, world: &mut World, packet: Packet) {
        if let Err(cause) = world.network.send(world.now, packet) {
            self.on_drop(packet.path, cause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets in pairs, 7 units apart, delayed by up to 20.
    #[test]
    fn packets_are_delayed_by_at_most_the_jitter_and_leave_in_order() {
        let mut host = Host::new(20, 1).expect("jitter");
        let packet = |sequence| Packet {
            sent_at: 0,
            connection: 0,
            sequence,
            data_sequence: sequence,
            hop: 0,
            path: 0,
            bytes: 1,
        };
        let times: Vec<Time> = (0..1000).map(|number| number / 2 * 7).collect();
        let scheduled = (0..1000).filter(|&number| {
            let event_at = host.take(times[number], packet(number as u64));
            event_at.is_some()
        });
        assert_eq!(scheduled.count(), 1, "one event is pending at a time");
        let leaving: Vec<Time> = host.waiting.iter().map(|&(time, _)| time).collect();
        assert!(leaving.is_sorted());
        let delays = leaving
            .iter()
            .zip(&times)
            .map(|(leaves, sent)| leaves - sent);
        let longest = delays.max();
        assert_eq!(longest, Some(19));
        assert!(Host::new(0, 1).is_none());
    }
}
