//! The sender's host, which is not a clock: it delays each packet of a path by a random time.

use std::collections::VecDeque;

use anabranch_net::{Dice, Time};

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
    pub fn take(&mut self, now: Time, packet: Packet) -> Option<Time> {
        let delay = (self.dice.uniform() * self.jitter as f64) as Time;
        self.last = self.last.max(now + delay);
        self.waiting.push_back((self.last, packet));
        (self.waiting.len() == 1).then_some(self.last)
    }

    /// Gives the packet that leaves first, and the time at which the next one leaves.
    pub fn release(&mut self) -> (Option<Packet>, Option<Time>) {
        let head = self.waiting.pop_front().map(|(_, packet)| packet);
        (head, self.waiting.front().map(|&(time, _)| time))
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
            bits: Default::default(),
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
