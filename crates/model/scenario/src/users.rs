//! The users of a scenario: when they start and stop, the random arrivals and sizes of what they
//! send, and the controllers of their connections. Every backend uses the same.

use std::sync::Arc;

use anabranch_control::{AnyController, AnyRule, Custom, External, Foreign, ForeignController};
use anabranch_net::time::from_seconds;
use anabranch_net::{Dice, Time};

use crate::model::flows::{Flow, Messages, Workload};
use crate::model::tcp::Tcp;
use crate::scenario::Scenario;
use crate::seed::{element_seed, kind};

/// A user of a flow: its index, its times and its random numbers.
#[derive(Clone, Debug)]
pub struct UserSlot {
    /// Index of the flow.
    pub flow: u32,
    /// Number within the flow.
    pub number: u32,
    /// The row of its first path in the record.
    pub first_path: u32,
    /// When it begins; a Poisson process begins with its first file, and messages with the first.
    pub start: Time,
    /// When it stops; `None`: at the end of the run.
    pub stop: Option<Time>,
    /// Random numbers of the user.
    pub dice: Dice,
    /// Messages that it has submitted.
    pub messages: u64,
}

/// Actions of a user when its workload begins or resumes, or has its next file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Begun {
    /// The file that it sends, bytes; `None`: data without limit.
    pub file: Option<u64>,
    /// When it pauses.
    pub pause: Option<Time>,
    /// When its next file arrives.
    pub next: Option<Time>,
}

impl UserSlot {
    /// Begins the user's workload at `now`; `None` if it has stopped.
    pub fn begin(&mut self, workload: &Workload, now: Time) -> Option<Begun> {
        if self.has_stopped(now) {
            return None;
        }
        let pause = match workload {
            Workload::OnOff { on_s, .. } => Some(now + from_seconds(on_s.get())),
            _ => None,
        };
        if let Workload::Messages(messages) = workload {
            return Some(self.submit(messages, now));
        }
        let next = next_gap(workload, &mut self.dice).map(|gap| now + gap);
        let file = next_size(workload, &mut self.dice);
        Some(Begun { file, pause, next })
    }

    /// The message that is due at `now`.
    fn submit(&mut self, messages: &Messages, now: Time) -> Begun {
        let number = self.messages;
        self.messages += 1;
        let wait = messages.time(number).zip(messages.time(number + 1));
        Begun {
            file: Some(messages.bytes(number)),
            pause: None,
            next: wait.map(|(this, next)| now + (next - this)),
        }
    }

    /// When the user resumes if it pauses at `now`; `None`: never.
    pub fn resumes(&self, workload: &Workload, now: Time) -> Option<Time> {
        match workload {
            Workload::OnOff { off_s, .. } if !self.has_stopped(now) => {
                Some(now + from_seconds(off_s.get()))
            }
            _ => None,
        }
    }

    /// Whether the user has stopped by `now`.
    fn has_stopped(&self, now: Time) -> bool {
        self.stop.is_some_and(|stop| stop <= now)
    }
}

/// An event that is planned before the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planned {
    /// The warm-up ends.
    WarmUp,
    /// The first sample is taken.
    Sample,
    /// The user of that number begins.
    Begin(u32),
    /// The user of that number stops.
    Pause(u32),
}

/// The planned events, in the order in which those at the same time happen: the warm-up ends before
/// any user begins, so that packets sent at that moment are counted.
pub fn planned(scenario: &Scenario, slots: &[UserSlot]) -> Vec<(Time, Planned)> {
    let measure = &scenario.measure;
    let mut events = vec![
        (from_seconds(measure.warmup_s.get()), Planned::WarmUp),
        (
            from_seconds(measure.sample_ms.get() * 1e-3),
            Planned::Sample,
        ),
    ];
    for (user, slot) in (0..).zip(slots) {
        events.push((slot.start, Planned::Begin(user)));
        events.extend(slot.stop.map(|stop| (stop, Planned::Pause(user))));
    }
    events
}

/// Congestion control that is not in the table of rules.
#[derive(Clone)]
pub enum Outside {
    /// A rule, such as one written in Python.
    Rule(Arc<dyn External>),
    /// Whole controllers, of another program.
    Controllers(Arc<dyn Foreign>),
}

/// The controller of a connection of each flow, without paths. Flows without an algorithm of their
/// own run `custom`, if there is one.
pub fn controllers(scenario: &Scenario, custom: Option<&Outside>) -> Vec<AnyController> {
    let flows = scenario.flows.iter().enumerate();
    let controllers = flows.map(|(index, flow)| match custom {
        Some(custom) if !scenario.has_own_algorithm(index) => {
            flow.custom_controller(custom, &scenario.tcp)
        }
        _ => flow.controller(&scenario.tcp),
    });
    controllers.collect()
}

fn initial_window(tcp: &Tcp) -> f64 {
    f64::from(tcp.initial_window_packets.get())
}

impl Flow {
    /// The controller of a connection, without paths.
    pub fn controller(&self, tcp: &Tcp) -> AnyController {
        self.prepared(self.algorithm.controller(0, initial_window(tcp)), tcp)
    }

    /// The same with what is not in the table.
    pub fn custom_controller(&self, custom: &Outside, tcp: &Tcp) -> AnyController {
        let (paths, window) = (self.paths.len(), initial_window(tcp));
        let controller = match custom {
            Outside::Rule(rule) => AnyRule::Custom(Custom(Arc::clone(rule))).controller(0, window),
            Outside::Controllers(library) => {
                let controller = ForeignController::new(Arc::clone(library), paths, window);
                AnyController::Foreign(Box::new(controller))
            }
        };
        self.prepared(controller, tcp)
    }

    fn prepared(&self, mut controller: AnyController, tcp: &Tcp) -> AnyController {
        controller.set_increase_per_round(tcp.increase_per_round);
        controller.set_increase_per_ack(tcp.increase_per_ack);
        if self.paths.len() > 1 {
            controller.set_smallest_ssthresh(f64::from(tcp.min_ssthresh_packets.get()));
        }
        controller
    }
}

/// Every user of every flow, in the order of the rows of a result.
pub fn user_slots(scenario: &Scenario, seed: u64) -> Vec<UserSlot> {
    let mut slots = Vec::new();
    let mut first_path = 0;
    for (index, flow) in scenario.flows.iter().enumerate() {
        for number in 0..flow.count.get() {
            let mut dice = Dice::new(element_seed(seed, kind::USERS, slots.len()));
            let spread_s = flow.start_spread_s.get() * dice.uniform();
            let start = from_seconds(flow.start_s.get() + spread_s);
            // A Poisson process begins with a gap, not with a file.
            let first = match &flow.workload {
                Workload::Messages(messages) => messages.time(0).unwrap_or(0),
                other => next_gap(other, &mut dice).unwrap_or(0),
            };
            slots.push(UserSlot {
                flow: index as u32,
                number,
                first_path,
                start: start + first,
                stop: flow.stop_s.map(|stop| from_seconds(stop.get())),
                dice,
                messages: 0,
            });
            first_path += flow.paths.len() as u32;
        }
    }
    slots
}

/// The time until the next file arrives; `None` if the workload has no arrivals.
fn next_gap(workload: &Workload, dice: &mut Dice) -> Option<Time> {
    match workload {
        Workload::Poisson { rate_per_s, .. } => {
            Some(from_seconds(dice.exponential() / rate_per_s.get()))
        }
        // The superposition of Poisson processes is a Poisson process.
        Workload::Gateway {
            clients,
            rate_per_s,
            ..
        } => {
            let rate_per_s = f64::from(clients.get()) * rate_per_s.get();
            Some(from_seconds(dice.exponential() / rate_per_s))
        }
        _ => None,
    }
}

/// The size of the next file in bytes; `None` if the workload has no files.
fn next_size(workload: &Workload, dice: &mut Dice) -> Option<u64> {
    let size = match workload {
        Workload::File { bytes } => return Some(bytes.get()),
        Workload::Poisson { size, .. } | Workload::Gateway { size, .. } => size,
        Workload::Bulk | Workload::OnOff { .. } | Workload::Messages(_) | Workload::Media(_) => {
            return None;
        }
    };
    Some(size.draw(dice))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(size: &str) -> Workload {
        toml::from_str::<std::collections::BTreeMap<String, Workload>>(&format!(
            "workload.poisson = {{ rate_per_s = 4, size.{size} }}"
        ))
        .map(|mut table| table.remove("workload").expect("the key is there"))
        .expect("a valid workload")
    }

    fn mean(values: impl Iterator<Item = f64>) -> f64 {
        let (sum, count) = values.fold((0.0, 0.0), |(sum, count), x| (sum + x, count + 1.0));
        sum / count
    }

    #[test]
    fn arrivals_are_poisson_and_sizes_have_their_mean() {
        let workload = workload("exponential = { mean_bytes = 1e5 }");
        let mut dice = Dice::new(1);
        // 40 000 draws: the standard error of an exponential's mean is 0.5 %.
        let gap = mean(
            (0..40_000)
                .filter_map(|_| next_gap(&workload, &mut dice))
                .map(|t| t as f64),
        );
        assert!((gap / 0.25e12 - 1.0).abs() < 0.02, "{gap}");
        let size = mean(
            (0..40_000)
                .filter_map(|_| next_size(&workload, &mut dice))
                .map(|n| n as f64),
        );
        assert!((size / 1e5 - 1.0).abs() < 0.02, "{size}");
    }

    #[test]
    fn a_pareto_tail_falls_with_its_shape() {
        // P(size > x) = (smallest / x)^shape; smallest = 1e5 / 3, so P(> 1e5) = 3^-1.5 = 0.19245.
        let workload = workload("pareto = { mean_bytes = 1e5, shape = 1.5 }");
        let mut dice = Dice::new(2);
        let draws = 40_000;
        let above = (0..draws)
            .filter(|_| next_size(&workload, &mut dice) > Some(100_000))
            .count();
        let share = above as f64 / f64::from(draws);
        assert!((share - 0.19245).abs() < 0.008, "{share}");
    }
}
