//! Packets on their way that overtake one another.

use std::collections::{BTreeMap, VecDeque};

use crate::time::Time;

/// A time, and a number that breaks ties: of two packets that arrive at the same time, the one with
/// the lower number is first.
type Place = (Time, u64);

/// The packets on an [`ImpairedLink`](crate::ImpairedLink) that may reorder them, in the order of
/// their arrivals.
#[derive(Clone, Debug)]
pub struct Overtaking<T> {
    packets: BTreeMap<Place, T>,
    /// The packets that arrive behind others, in the order of the offers.
    held: VecDeque<Held>,
    numbered: u64,
}

#[derive(Clone, Debug)]
struct Held {
    /// Where it is if no more packets overtake it.
    place: Place,
    /// How many have not overtaken it yet.
    left: u32,
    /// When the last of those that have arrives.
    last: Time,
}

impl<T> Default for Overtaking<T> {
    fn default() -> Self {
        Overtaking {
            packets: BTreeMap::new(),
            held: VecDeque::new(),
            numbered: 0,
        }
    }
}

impl<T> Overtaking<T> {
    /// Adds a packet that arrives at this time, or at this time at the latest if it does so behind
    /// others. [`take`](Self::take) gives it at this time or at that of another packet.
    pub fn push(&mut self, at: Time, behind: u32, packet: T) {
        let place = self.insert(at, packet);
        if behind == 0 {
            self.overtake(at);
        } else {
            self.held.push_back(Held {
                place,
                left: behind,
                last: 0,
            });
        }
    }

    /// When the next packet arrives.
    pub fn next(&self) -> Option<Time> {
        self.packets.first_key_value().map(|(&(at, _), _)| at)
    }

    /// Removes the next packet that has arrived at `now`; gives it with the time of its arrival.
    pub fn take(&mut self, now: Time) -> Option<(Time, T)> {
        let first = self.packets.first_entry()?;
        let at = first.key().0;
        (at <= now).then(|| (at, first.remove()))
    }

    fn insert(&mut self, at: Time, packet: T) -> Place {
        let place = (at, self.numbered);
        self.numbered += 1;
        self.packets.insert(place, packet);
        place
    }

    /// A packet that arrives at this time overtakes all that are held.
    fn overtake(&mut self, at: Time) {
        for held in &mut self.held {
            held.left -= 1;
            held.last = held.last.max(at);
        }
        // Packets that were held first are complete first.
        while let Some(held) = self.held.front()
            && held.left == 0
        {
            let Held { place, last, .. } = *held;
            self.held.pop_front();
            // It may have arrived already, or may do so before the last of the others.
            if last <= place.0
                && let Some(packet) = self.packets.remove(&place)
            {
                self.insert(last, packet);
            }
        }
    }
}
