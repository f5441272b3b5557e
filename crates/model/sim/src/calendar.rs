//! The calendar of pending events, earliest first.
//!
//! A link's packets leave in order, so a link has one pending event, not one per packet in
//! flight; where packets may overtake one another each has its own. Timers are as many as flows,
//! and most are far away: they wait unsorted by slots of time, so that the heap is as large as the
//! number of links and of the timers of one slot.

use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BinaryHeap};

use anabranch_net::{Scheduled, Time};
use anabranch_scenario::users::Planned;

/// An event of a simulation; those of a path have the number of its connection and the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The first packet on a link reaches the end of the link.
    Link(u32),
    /// The first acknowledgement on a return line reaches its sender.
    Return(u32),
    /// Packets have arrived over a link on which they may overtake one another.
    Overtaking(u32),
    /// A transmission on a link with real queues can start.
    Start(u32),
    /// Such a link dropped packets while others were offered to it.
    Dropped(u32),
    /// The retransmission timer of a path.
    Timeout(u32, u16),
    /// The timers of RACK of a path.
    Rack(u32, u16),
    /// The first packet of a path that waits in the sender's host leaves it.
    Leave(u32, u16),
    /// The pacing timer of a path.
    Pace(u32, u16),
    /// A held path may be probed, or the answer to a probe has come.
    Probe(u32, u16),
    /// The delayed-ACK timer of a path.
    DelayedAck(u32, u16),
    /// The last packet of a connection was an acknowledgement that a link dropped.
    Over(u32),
    /// The timer after which an idle path sends the oldest data again.
    Resend(u32),
    /// A user's workload begins, resumes or has its next file.
    Begin(u32),
    /// A user's workload pauses.
    Pause(u32),
    /// Another path of a connection opens.
    OpenPath(u32),
    /// A gateway samples its buffer, to adjust kappa.
    Adjust(u32),
    /// A source of media sends its next frame.
    Frame(u32),
    /// The receiver of media sends a report.
    Feedback(u32),
    /// The report reaches its source.
    Report(u32),
    /// The warm-up ends: totals are counted from here.
    WarmUp,
    /// One row per flow, path and link is recorded.
    Sample,
}

impl From<Planned> for Event {
    fn from(planned: Planned) -> Event {
        match planned {
            Planned::Begin(user) => Event::Begin(user),
            Planned::Pause(user) => Event::Pause(user),
            Planned::WarmUp => Event::WarmUp,
            Planned::Sample => Event::Sample,
        }
    }
}

type Entry = Scheduled<Event>;

/// The binary logarithm of the length of a slot, ps: 1.07 ms.
const SLOT_BITS: u32 = 30;

/// Number of the next events that are looked at in advance, three levels of the heap.
const SOON: usize = 15;

/// Pending events in order of time, ties in the order of scheduling.
#[derive(Debug)]
pub(crate) struct Calendar {
    /// The events before `sorted_to`, and recurring ones.
    heap: BinaryHeap<Entry>,
    /// The end of the slots that are sorted.
    sorted_to: Time,
    /// The other events, by the number of their slot.
    later: BTreeMap<u64, Vec<Entry>>,
    /// The begin of the first of these slots.
    later_from: Time,
    /// Number of events scheduled so far.
    scheduled: u64,
}

impl Default for Calendar {
    fn default() -> Self {
        Calendar {
            heap: BinaryHeap::new(),
            sorted_to: 0,
            later: BTreeMap::new(),
            later_from: Time::MAX,
            scheduled: 0,
        }
    }
}

impl Calendar {
    /// Schedules `event` at `time`.
    #[inline]
    pub fn push(&mut self, time: Time, event: Event) {
        self.scheduled += 1;
        let entry = Entry {
            time,
            order: self.scheduled,
            event,
        };
        if time < self.sorted_to {
            self.heap.push(entry);
        } else {
            self.push_later(entry);
        }
    }

    fn push_later(&mut self, entry: Entry) {
        let slot = entry.time >> SLOT_BITS;
        self.later_from = self.later_from.min(slot << SLOT_BITS);
        self.later.entry(slot).or_default().push(entry);
    }

    /// Sorts the first slots, as long as one may have an event before the heap's next.
    #[cold]
    #[inline(never)]
    fn sort_slots(&mut self) {
        let may_be_later = |it: &Calendar| {
            let next = it.heap.peek();
            next.is_none_or(|entry| entry.time >= it.later_from)
        };
        while may_be_later(self)
            && let Some((slot, entries)) = self.later.pop_first()
        {
            self.heap.extend(entries);
            self.sorted_to = (slot + 1) << SLOT_BITS;
            let next = self.later.first_key_value();
            self.later_from = next.map_or(Time::MAX, |(slot, _)| slot << SLOT_BITS);
        }
    }

    /// The next event and its time, if that is not after `until`.
    #[inline(always)]
    pub fn due(&mut self, until: Time) -> Option<(Time, Event)> {
        if let Some(entry) = self.heap.peek()
            && entry.time < self.later_from
        {
            return (entry.time <= until).then_some((entry.time, entry.event));
        }
        self.sort_slots();
        let entry = self.heap.peek().filter(|entry| entry.time <= until)?;
        Some((entry.time, entry.event))
    }

    /// Events that come soon: the top of the heap, in no exact order.
    #[inline]
    pub fn soon(&self) -> impl Iterator<Item = Event> {
        self.heap
            .as_slice()
            .iter()
            .take(SOON)
            .map(|entry| entry.event)
    }

    /// Removes the event that [`due`](Self::due) gave, or moves it to `again` if it recurs: one
    /// pass through the heap instead of two. Inlined always: it is on the path of every event.
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
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a sorted map, with events in the same slot, in near ones and far away.
        #[test]
        fn slots_do_not_change_the_order(
            steps in prop::collection::vec((0u8..4, 0u32..45, 0u64..8), 1..300),
        ) {
            let (mut calendar, mut sorted) = (Calendar::default(), BTreeMap::new());
            let mut now = 0;
            for (number, (step, bits, digit)) in steps.into_iter().enumerate() {
                let time = now + (digit << bits);
                let order = number as u64;
                match step {
                    0 | 1 => {
                        calendar.push(time, Event::Adjust(number as u32));
                        sorted.insert((time, order), number as u32);
                    }
                    _ => {
                        let first = sorted.pop_first();
                        let expected = first.map(|((at, _), user)| (at, Event::Adjust(user)));
                        prop_assert_eq!(calendar.due(Time::MAX), expected);
                        let Some(((at, _), user)) = first else { continue };
                        now = at;
                        let again = (step == 3).then_some(now + (digit << bits));
                        calendar.advance(again);
                        if let Some(again) = again {
                            sorted.insert((again, order), user);
                        }
                    }
                }
            }
        }
    }

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
        assert_eq!(calendar.due(1), Some((1, Event::Link(0))));
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
