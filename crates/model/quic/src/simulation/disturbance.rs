//! Operations of tests on a run that a scenario has no keys for: on paths, and datagrams that
//! overtake others.

use anabranch_net::{Dice, Time};
use anabranch_scenario::time::from_seconds;

use super::Simulation;
use crate::calendar::{Event, Operation};

/// Delays datagrams at random, so that later ones overtake them.
#[derive(Debug, Default)]
pub(super) struct Reordering(Option<(Dice, f64, Time)>);

impl Reordering {
    /// How much later than due a datagram arrives.
    pub fn delay(&mut self) -> Time {
        let Some((dice, probability, longest)) = &mut self.0 else {
            return 0;
        };
        if dice.uniform() < *probability {
            (dice.uniform() * *longest as f64) as Time
        } else {
            0
        }
    }
}

#[doc(hidden)]
impl Simulation {
    /// Applies `operation` to path `path` of user `user` at `time_s`.
    pub fn operate_at(&mut self, time_s: f64, user: usize, path: usize, operation: Operation) {
        let event = Event::Operate(user, path, operation);
        self.calendar.push(from_seconds(time_s), event);
    }

    /// From now on each datagram is delayed with `probability`, at each link and on its way back,
    /// by up to `longest_s`.
    pub fn reorder(&mut self, probability: f64, longest_s: f64) {
        let dice = Dice::new(self.seed);
        self.reordering = Reordering(Some((dice, probability, from_seconds(longest_s))));
    }

    pub(super) fn operate(&mut self, user: usize, path: usize, operation: Operation) {
        for number in 0..self.connections.len() as u32 {
            self.act(number, |connection, now| {
                if connection.user == user {
                    match operation {
                        Operation::Open => connection.pair.open_path(now, path),
                        Operation::Close => connection.pair.close_path(now, path),
                        Operation::Rebind => connection.pair.rebind(path),
                    }
                }
            });
        }
    }
}
