//! A connection of a user and the host that sends its packets.

use std::collections::VecDeque;

use anabranch_net::{Dice, Time};
use anabranch_scenario::recorder::PathTotals;

use crate::controller::PathReport;
use crate::transport::{Pair, Side};

/// A connection, its user and what it has delivered.
pub(crate) struct Connection {
    pub pair: Pair,
    pub user: usize,
    pub started_at: Time,
    /// Size of the file that it carries, bytes; `None`: data without limit.
    pub file: Option<u64>,
    /// Data delivered in order, bytes.
    pub received: u64,
    /// Messages that were not delivered yet.
    messages: VecDeque<Message>,
    /// The end of the last message among the data.
    submitted: u64,
    pub host: Host,
    /// When the next timer event of the sender and of the receiver is scheduled.
    timers: [Option<Time>; 2],
}

/// A message of an application.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub sent_at: Time,
    pub bytes: u64,
    /// Where it ends among the data of its connection.
    end: u64,
}

impl Connection {
    /// A connection that has just started.
    pub fn new(pair: Pair, user: usize, now: Time, file: Option<u64>, host: Host) -> Connection {
        Connection {
            pair,
            user,
            started_at: now,
            file,
            received: 0,
            messages: VecDeque::new(),
            submitted: 0,
            host,
            timers: [None; 2],
        }
    }

    /// Whether the last byte of its file was delivered.
    pub fn is_complete(&self) -> bool {
        self.file == Some(self.received)
    }

    /// Sends a message behind those before it.
    pub fn submit(&mut self, now: Time, bytes: u64) {
        self.submitted += bytes;
        self.messages.push_back(Message {
            sent_at: now,
            bytes,
            end: self.submitted,
        });
        self.pair.append(now, bytes);
    }

    /// Takes the next message whose last byte was delivered.
    pub fn deliver_message(&mut self) -> Option<Message> {
        let next = self.messages.front()?;
        (next.end <= self.received).then(|| self.messages.pop_front())?
    }

    /// Counts of the controllers of its paths.
    pub fn reports(&self) -> Vec<PathTotals> {
        let totals = |report: &PathReport| PathTotals {
            retransmitted_packets: report.declared_lost,
            loss_events: report.loss_events,
            mark_events: report.mark_events,
            timeouts: report.timeouts,
            rtt_sum_s: report.rtt_sum_s,
            rtt_samples: report.rtt_samples,
            ..PathTotals::default()
        };
        let controller = self.pair.controller();
        controller.read(|_, reports| reports.iter().map(totals).collect())
    }

    /// The time at which a timer event of an end must be scheduled, unless one is pending that
    /// comes earlier.
    pub fn timer_to_schedule(&mut self, now: Time, side: Side) -> Option<Time> {
        let next = self.pair.next_timer(side)?.max(now);
        let scheduled = &mut self.timers[side as usize];
        if scheduled.is_some_and(|time| time <= next) {
            return None;
        }
        *scheduled = Some(next);
        Some(next)
    }

    /// A timer event of an end occurred; whether the timer is due, and not moved to later.
    pub fn timer_is_due(&mut self, now: Time, side: Side) -> bool {
        let scheduled = &mut self.timers[side as usize];
        if *scheduled != Some(now) {
            return false;
        }
        *scheduled = None;
        self.pair.next_timer(side).is_some_and(|time| time <= now)
    }
}

/// The sender's host, which is not a clock: it delays each packet by a random time. The packets of
/// a path leave in order.
pub(crate) struct Host {
    dice: Dice,
    /// The longest delay.
    jitter: Time,
    /// When the last packet of each path leaves.
    last: Vec<Time>,
}

impl Host {
    /// A host that delays packets by up to `jitter`.
    pub fn new(jitter: Time, paths: usize, seed: u64) -> Host {
        Host {
            dice: Dice::new(seed),
            jitter,
            last: vec![0; paths],
        }
    }

    /// When a packet sent at `now` leaves.
    pub fn leaves_at(&mut self, now: Time, path: usize) -> Time {
        if self.jitter == 0 {
            return now;
        }
        let delay = (self.dice.uniform() * self.jitter as f64) as Time;
        self.last[path] = self.last[path].max(now + delay);
        self.last[path]
    }
}
