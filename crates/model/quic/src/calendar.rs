//! The calendar of pending events, earliest first.

use std::collections::BinaryHeap;

use anabranch_net::{Scheduled, Time};
use anabranch_scenario::users::Planned;

use crate::network::Packet;
use crate::transport::Side;

/// Operation on a path of every connection that a user has at that time.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The application opens it, unless it is open.
    Open,
    /// The application closes it until it opens it again, unless it is the last open path.
    Close,
    /// A NAT gives the sender another address and forgets the old one.
    Rebind,
}

/// Action at an event's time.
#[derive(Debug)]
pub(crate) enum Event {
    /// A packet leaves its sender's host, or reaches the end of a link or of its delay back.
    Hop(Packet),
    /// Packets have arrived over a link on which they may overtake one another.
    Overtaking(usize),
    /// The transmission starts of a packet that waits at a link with real queues.
    Start(usize),
    /// A source of media sends its next frame.
    Frame(u32),
    /// The receiver of a source's media reports.
    Feedback(u32),
    /// A report reaches a source of media.
    Report(u32),
    /// The timer of an end of a connection.
    Timer { connection: u32, side: Side },
    /// A path of a connection opens.
    OpenPath { connection: u32, path: usize },
    /// A test closes, opens or rebinds a path of a user's connections.
    Operate(usize, usize, Operation),
    /// A connection looks for dead paths.
    Watch(u32),
    /// A user's workload begins, resumes or has its next file.
    Begin(usize),
    /// A user's workload pauses.
    Pause(usize),
    /// The warm-up ends: totals are counted from here.
    WarmUp,
    /// A row per flow, path and link is recorded.
    Sample,
}

impl From<Planned> for Event {
    fn from(planned: Planned) -> Event {
        match planned {
            Planned::Begin(user) => Event::Begin(user as usize),
            Planned::Pause(user) => Event::Pause(user as usize),
            Planned::WarmUp => Event::WarmUp,
            Planned::Sample => Event::Sample,
        }
    }
}

/// Pending events in order of time, ties in the order of scheduling.
#[derive(Debug, Default)]
pub(crate) struct Calendar {
    heap: BinaryHeap<Scheduled<Event>>,
    scheduled: u64,
}

impl Calendar {
    /// Schedules `event` at `time`.
    pub fn push(&mut self, time: Time, event: Event) {
        let order = self.scheduled;
        self.scheduled += 1;
        self.heap.push(Scheduled { time, order, event });
    }

    /// Removes the next event, if that is not after `until`.
    pub fn pop(&mut self, until: Time) -> Option<(Time, Event)> {
        let next = self.heap.peek().filter(|entry| entry.time <= until);
        next?;
        self.heap.pop().map(|entry| (entry.time, entry.event))
    }
}
