//! The sender's host, which is not a clock: it delays each packet by a random time.

use std::collections::VecDeque;

use anabranch_net::{Dice, Time};

use crate::calendar::Event;
use crate::connection::{Connection, World};
use crate::network::Packet;

/// A connection's packets that its host has not sent yet. They leave in order.
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
    /// A host that delays packets by up to `jitter`; `None` if it does not.
    pub fn new(jitter: Time, dice: impl FnOnce() -> Dice) -> Option<Box<Host>> {
        (jitter > 0).then(|| {
            Box::new(Host {
                dice: dice(),
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
        let Some(host) = &mut self.host else {
            return self.offer(world, packet);
        };
        if let Some(time) = host.take(world.now, packet) {
            let event = Event::Leave(self.number);
            world.network.calendar.push(time, event);
        }
    }

    /// The first packet leaves the host.
    pub fn on_leave(&mut self, world: &mut World) {
        let Some(host) = &mut self.host else {
            return;
        };
        let head = host.waiting.pop_front();
        if let Some(&(time, _)) = host.waiting.front() {
            let event = Event::Leave(self.number);
            world.network.calendar.push(time, event);
        }
        if let Some((_, packet)) = head {
            self.offer(world, packet);
        }
    }

    #[inline]
    fn offer(&mut self, world: &mut World, packet: Packet) {
        if let Err(cause) = world.network.send(world.now, packet) {
            self.on_drop(packet.path, cause);
        }
    }
}
