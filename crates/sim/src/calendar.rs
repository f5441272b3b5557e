//! The calendar of pending events, earliest first.
//!
//! A link's packets leave in order, so a link has one pending event, not one per packet in
//! flight: the heap is as large as the number of links and timers.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use anabranch_net::Time;

/// What happens at an event's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The first packet on a link reaches the end of the link.
    Link(u32),
    /// The first acknowledgement on a return line reaches its sender.
    Return(u32),
    /// The retransmission timer of a path.
    Timeout { connection: u32, path: u16 },
    /// The timers of RACK of a path.
    Rack { connection: u32, path: u16 },
    /// The first packet of a path that waits in the sender's host leaves it.
    Leave { connection: u32, path: u16 },
    /// The delayed-ACK timer of a path.
    DelayedAck { connection: u32, path: u16 },
    /// The timer after which an idle path sends the oldest data again.
    Resend(u32),
    /// A user's workload begins, resumes or has its next file.
    Begin(u32),
    /// A user's workload pauses.
    Pause(u32),
    /// Another path of a user opens.
    OpenPath(u32),
    /// A gateway samples its buffer, to adjust kappa.
    Adjust(u32),
    /// The warm-up ends: totals are counted from here.
    WarmUp,
    /// One row per flow, path and link is recorded.
    Sample,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    time: Time,
    /// Breaks ties: of two events at the same time, the one scheduled first comes first.
    order: u64,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    /// Reversed, because the standard heap keeps its largest entry on top.
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        (other.time, other.order).cmp(&(self.time, self.order))
    }
}

/// Pending events in order of time, ties in the order of scheduling.
#[derive(Debug, Default)]
pub(crate) struct Calendar {
    heap: BinaryHeap<Entry>,
    scheduled: u64,
}

impl Calendar {
    /// Schedules `event` at `time`.
    #[inline]
    pub fn push(&mut self, time: Time, event: Event) {
        self.scheduled += 1;
        self.heap.push(Entry {
            time,
            order: self.scheduled,
            event,
        });
    }

    /// The next event and its time, if that is not after `until`.
    #[inline]
    pub fn due(&self, until: Time) -> Option<(Time, Event)> {
        self.heap
            .peek()
            .filter(|entry| entry.time <= until)
            .map(|entry| (entry.time, entry.event))
    }

    /// Removes the next event, or moves it to `again` if it recurs: one pass through the heap
    /// instead of two. Inlined always: it is on the path of every event.
    #[inline(always)]
    pub fn advance(&mut self, again: Option<Time>) {
        let Some(mut top) = self.heap.peek_mut() else {
            return;
        };
        match again {
            Some(time) => {
                self.scheduled += 1;
                *top = Entry {
                    time,
                    order: self.scheduled,
                    event: top.event,
                };
            }
            None => {
                PeekMut::pop(top);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(calendar: &mut Calendar) -> Vec<(Time, Event)> {
        let mut seen = Vec::new();
        while let Some(next) = calendar.due(Time::MAX) {
            seen.push(next);
            calendar.advance(None);
        }
        seen
    }

    #[test]
    fn events_come_in_order_of_time_and_ties_in_order_of_scheduling() {
        let mut calendar = Calendar::default();
        for (time, link) in [(5, 0), (3, 1), (5, 2), (3, 3)] {
            calendar.push(time, Event::Link(link));
        }
        let links: Vec<_> = drain(&mut calendar)
            .into_iter()
            .map(|(_, event)| event)
            .collect();
        assert_eq!(links, [1, 3, 0, 2].map(Event::Link));
    }

    #[test]
    fn a_recurring_event_goes_behind_those_already_scheduled_for_its_new_time() {
        let mut calendar = Calendar::default();
        calendar.push(1, Event::Link(0));
        calendar.push(2, Event::Link(1));
        calendar.advance(Some(2));
        assert_eq!(
            drain(&mut calendar),
            [(2, Event::Link(1)), (2, Event::Link(0))]
        );
    }

    #[test]
    fn nothing_is_due_before_its_time() {
        let mut calendar = Calendar::default();
        calendar.push(7, Event::Sample);
        assert_eq!(calendar.due(6), None);
        assert_eq!(calendar.due(7), Some((7, Event::Sample)));
    }
}
