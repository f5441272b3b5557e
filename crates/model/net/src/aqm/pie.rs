//! PIE, which drops at random when a packet arrives (RFC 8033).

use crate::arrival::Arrival;
use crate::dice::Dice;
use crate::time::{MILLISECOND, Time, seconds};

/// Above this drop probability ECN-capable packets are dropped, too (RFC 8033, section 5.1).
const MARK_UP_TO: f64 = 0.1;

/// Derandomized, a packet passes while the accumulated probability is below the first, and does not
/// from the second on (RFC 8033, section 5.4).
const PASSES_BELOW: f64 = 0.85;
const PASSES_UP_TO: f64 = 8.5;

/// The adjustment of a small probability is divided by this: below the first number, by the second
/// (RFC 8033, section 4.2).
const SCALES: [(f64, f64); 6] = [
    (1e-6, 2048.0),
    (1e-5, 512.0),
    (1e-4, 128.0),
    (1e-3, 32.0),
    (1e-2, 8.0),
    (1e-1, 2.0),
];

/// Parameters of PIE.
#[derive(Clone, Debug, PartialEq)]
pub struct Pie {
    /// The delay that it aims at, ps.
    pub target: Time,
    /// Time between two updates of the drop probability, ps.
    pub tupdate: Time,
    /// Weight of the delay's distance from the target, per s.
    pub alpha: f64,
    /// Weight of the delay's change since the last update, per s.
    pub beta: f64,
    /// How long a burst passes undropped when the queue was short before, ps.
    pub max_burst: Time,
    /// Maximum number of waiting packets.
    pub limit_packets: u32,
    /// Space drops and marks evenly (RFC 8033, section 5.4), as Linux does.
    pub derandomize: bool,
    /// Mark packets that are ECN-capable instead of dropping them.
    pub ecn: bool,
}

impl Default for Pie {
    /// The values of RFC 8033, sections 4.1, 4.2 and 4.4, and the limit of Linux.
    fn default() -> Self {
        Pie {
            target: 15 * MILLISECOND,
            tupdate: 15 * MILLISECOND,
            alpha: 0.125,
            beta: 1.25,
            max_burst: 150 * MILLISECOND,
            limit_packets: 1000,
            derandomize: false,
            ecn: true,
        }
    }
}

/// Decision of PIE about an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    Mark,
    Drop,
}

/// A [`Pie`] and its state.
///
/// The updates are computed at the next arrival. Between two arrivals nothing enters the queue, so
/// the delay at the time of an update is what is left of the time until the link is free, and 0 if
/// no packet waits.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    pie: Pie,
    probability: f64,
    /// The sum of the probabilities of arrivals since the last drop or mark.
    accumulated: f64,
    /// The delay at the last update, ps.
    delay: Time,
    burst_left: Time,
    next_update: Time,
    /// When the transmission of the last packet admitted starts: none waits from then on.
    empty_at: Time,
    largest_bytes: u32,
}

impl Control {
    pub(crate) fn new(pie: Pie) -> Control {
        Control {
            probability: 0.0,
            accumulated: 0.0,
            delay: 0,
            burst_left: pie.max_burst,
            next_update: pie.tupdate,
            empty_at: 0,
            largest_bytes: 0,
            pie,
        }
    }

    pub(crate) fn limit_packets(&self) -> u32 {
        self.pie.limit_packets
    }

    /// Judges an arrival (RFC 8033, section 4.1, with the safeguards).
    pub(crate) fn judge(&mut self, arrival: &Arrival, dice: &mut Dice) -> Verdict {
        self.update(arrival);
        self.largest_bytes = self.largest_bytes.max(arrival.bytes);
        let short = arrival.backlog.bytes <= 2 * u64::from(self.largest_bytes);
        let calm = self.delay < self.pie.target / 2 && self.probability < 0.2;
        let verdict = if self.burst_left > 0 || calm || short || !self.hits(dice) {
            Verdict::Pass
        } else if arrival.ecn_capable && self.pie.ecn && self.probability <= MARK_UP_TO {
            Verdict::Mark
        } else {
            return Verdict::Drop;
        };
        self.empty_at = arrival.free_at.max(arrival.now);
        verdict
    }

    /// Whether an arrival is to be dropped or marked.
    fn hits(&mut self, dice: &mut Dice) -> bool {
        if !self.pie.derandomize {
            return dice.chance(self.probability);
        }
        self.accumulated += self.probability;
        let hits = self.accumulated >= PASSES_UP_TO
            || self.accumulated >= PASSES_BELOW && dice.chance(self.probability);
        if hits || self.probability == 0.0 {
            self.accumulated = 0.0;
        }
        hits
    }

    /// Makes the updates that were due before an arrival.
    fn update(&mut self, arrival: &Arrival) {
        while self.next_update <= arrival.now {
            if self.is_at_rest() && arrival.free_at <= self.next_update {
                // More updates with an empty queue would change nothing.
                let missed = (arrival.now - self.next_update) / self.pie.tupdate + 1;
                self.next_update += missed * self.pie.tupdate;
                return;
            }
            let delay = match self.next_update < self.empty_at {
                true => arrival.free_at.saturating_sub(self.next_update),
                false => 0,
            };
            self.adjust(delay);
            self.next_update += self.pie.tupdate;
        }
    }

    fn is_at_rest(&self) -> bool {
        self.probability == 0.0 && self.delay == 0 && self.burst_left == self.pie.max_burst
    }

    /// The update of the drop probability and of the burst allowance (RFC 8033, sections 4.2, 4.4).
    fn adjust(&mut self, delay: Time) {
        let (target, before) = (self.pie.target, self.delay);
        let error = self.pie.alpha * (seconds(delay) - seconds(target));
        let mut change = error + self.pie.beta * (seconds(delay) - seconds(before));
        let p = self.probability;
        if let Some((_, scale)) = SCALES.iter().find(|(below, _)| p < *below) {
            change /= scale;
        } else {
            change = change.min(0.02);
        }
        self.probability += change;
        if delay == 0 && before == 0 {
            self.probability *= 0.98;
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        self.delay = delay;
        let calm = delay < target / 2 && before < target / 2;
        self.burst_left = if calm && self.probability == 0.0 {
            self.pie.max_burst
        } else {
            self.burst_left.saturating_sub(self.pie.tupdate)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8033, section 4.2: by a fiftieth at each update, if there was no delay at this and at
    /// the last one. A delay below the target is no reason.
    #[test]
    fn the_drop_probability_decays_where_nothing_waits() {
        let mut control = Control::new(Pie {
            alpha: 0.0,
            beta: 0.0,
            ..Pie::default()
        });
        control.probability = 0.05;
        let after = [MILLISECOND, MILLISECOND, 0, 0, 0].map(|delay| {
            control.adjust(delay);
            control.probability
        });
        assert_eq!(after[..3], [0.05; 3]);
        assert_eq!(after[3..], [0.05 * 0.98, 0.05 * 0.98 * 0.98]);
    }
}
