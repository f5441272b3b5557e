//! PIE, which drops at random when a packet arrives (RFC 8033), and DualPI2: a queue of low delay
//! beside the classic one, whose marks are coupled (RFC 9332).

use crate::dice::Dice;
use crate::packet::{Arrival, Backlog, Fifo, Waiting};
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

/// Decision about a packet: PIE's when it arrives, DualPI2's when it leaves its queue.
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

// DualPI2: a queue of low delay beside the classic one, whose marks are coupled (RFC 9332).

/// With no more packets behind it in the L queue, the step marks none (`Th_len`, RFC 9332, appendix
/// A): at low rates a packet alone takes longer than the step.
const SHORT_PACKETS: u32 = 1;

/// The bytes of a packet by which the L queue is ahead after a pause.
const TYPICAL_BYTES: f64 = 1500.0;

/// Parameters of DualPI2.
#[derive(Clone, Debug, PartialEq)]
pub struct DualPi2 {
    /// The delay of the classic queue that it aims at, ps.
    pub target: Time,
    /// Time between two updates of the base probability, ps.
    pub tupdate: Time,
    /// Weight of the delay's distance from the target, per s.
    pub alpha: f64,
    /// Weight of the delay's change since the last update, per s.
    pub beta: f64,
    /// Factor k between the base probability and that of marks in the L queue.
    pub coupling: f64,
    /// The delay above which every packet of the L queue is marked, ps.
    pub step: Time,
    /// The share of the capacity that the classic queue has at least, from 0 to 1.
    pub classic_share: f64,
    /// Maximum number of packets that wait in both queues.
    pub limit_packets: u32,
}

impl Default for DualPi2 {
    /// The values of RFC 9332, appendix A, with the update time of Linux (section A.1), and the
    /// step, weight and limit of Linux.
    fn default() -> Self {
        DualPi2 {
            target: 15 * MILLISECOND,
            tupdate: 16 * MILLISECOND,
            alpha: 0.16,
            beta: 3.2,
            coupling: 2.0,
            step: MILLISECOND,
            classic_share: 0.1,
            limit_packets: 10_000,
        }
    }
}

/// A queue, and the likelihood that has accumulated since its last mark or drop.
#[derive(Clone, Debug)]
struct Queue<T> {
    fifo: Fifo<T>,
    count: f64,
}

impl<T> Queue<T> {
    fn new() -> Queue<T> {
        Queue {
            fifo: Fifo::default(),
            count: 0.0,
        }
    }

    /// True with this likelihood, evenly spaced (`recur`).
    fn recurs(&mut self, likelihood: f64) -> bool {
        self.count += likelihood;
        let due = self.count > 1.0;
        self.count -= f64::from(u8::from(due));
        due
    }

    /// How long its head has waited; 0 if it is empty.
    fn delay(&self, now: Time) -> Time {
        self.fifo.head_arrived().map_or(0, |arrived| now - arrived)
    }
}

/// A [`DualPi2`] and its queues. Names and order of steps are those of RFC 9332, appendix A.2.
///
/// The updates are computed at the next arrival or departure: between two of them the heads of the
/// queues stay the same.
#[derive(Clone, Debug)]
pub(crate) struct Coupled<T> {
    config: DualPi2,
    low: Queue<T>,
    classic: Queue<T>,
    /// The base probability p'.
    base: f64,
    /// The delay at the last update, ps.
    delay: Time,
    next_update: Time,
    /// Above 0 it is the classic queue's turn; bytes.
    credit: f64,
}

impl<T> Coupled<T> {
    pub(crate) fn new(config: DualPi2) -> Coupled<T> {
        Coupled {
            low: Queue::new(),
            classic: Queue::new(),
            base: 0.0,
            delay: 0,
            next_update: config.tupdate,
            credit: 0.0,
            config,
        }
    }

    pub(crate) fn backlog(&self) -> Backlog {
        let (low, classic) = (self.low.fifo.backlog(), self.classic.fifo.backlog());
        Backlog {
            packets: low.packets + classic.packets,
            bytes: low.bytes + classic.bytes,
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.backlog().packets >= self.config.limit_packets
    }

    /// Adds a packet to the L queue, if it is of `low` delay, or to the classic one.
    pub(crate) fn enqueue(&mut self, now: Time, packet: Waiting<T>, low: bool) {
        self.update(now);
        if self.backlog().packets == 0 {
            // In favour of the L queue.
            self.credit = (2.0 * self.config.classic_share - 1.0) * TYPICAL_BYTES;
        }
        let queue = if low {
            &mut self.low
        } else {
            &mut self.classic
        };
        queue.fifo.push(packet);
    }

    /// Takes the next packet to be transmitted; what is dropped goes to `dropped`.
    pub(crate) fn dequeue(
        &mut self,
        now: Time,
        dropped: &mut Vec<Waiting<T>>,
    ) -> Option<Waiting<T>> {
        self.update(now);
        loop {
            let low = self.is_turn_of_low();
            let queue = if low {
                &mut self.low
            } else {
                &mut self.classic
            };
            let mut packet = queue.fifo.pop()?;
            let verdict = match low {
                true => self.judge_low(now - packet.arrived),
                false => self.judge_classic(packet.ecn_capable),
            };
            match verdict {
                Verdict::Drop => {
                    dropped.push(packet);
                    continue;
                }
                Verdict::Mark => packet.marked = true,
                Verdict::Pass => {}
            }
            self.charge(low, packet.bytes);
            return Some(packet);
        }
    }

    /// Drops all that waits.
    pub(crate) fn drop_all(&mut self, dropped: &mut Vec<Waiting<T>>) {
        for queue in [&mut self.low, &mut self.classic] {
            dropped.extend(std::iter::from_fn(|| queue.fifo.pop()));
        }
    }

    /// Weighted round robin: the L queue, until the classic one has credit.
    fn is_turn_of_low(&self) -> bool {
        let (low, classic) = (self.low.fifo.backlog(), self.classic.fifo.backlog());
        low.packets > 0 && (classic.packets == 0 || self.credit <= 0.0)
    }

    /// Only packets that make the other queue wait count.
    fn charge(&mut self, low: bool, bytes: u32) {
        let (other, weight) = match low {
            true => (&self.classic, self.config.classic_share),
            false => (&self.low, self.config.classic_share - 1.0),
        };
        if other.fifo.backlog().packets > 0 {
            self.credit += weight * f64::from(bytes);
        }
    }

    /// A packet of the L queue is marked by its own delay or by the base probability; in overload,
    /// when all are marked, some are dropped as in the classic queue.
    fn judge_low(&mut self, waited: Time) -> Verdict {
        if self.is_overloaded() {
            return if self.low.recurs(self.base * self.base) {
                Verdict::Drop
            } else if self.low.recurs(1.0) {
                Verdict::Mark
            } else {
                Verdict::Pass
            };
        }
        let coupled = self.config.coupling * self.base;
        let long = self.low.fifo.backlog().packets > SHORT_PACKETS;
        let own = if long && waited >= self.config.step {
            1.0
        } else {
            0.0
        };
        match self.low.recurs(coupled.max(own)) {
            true => Verdict::Mark,
            false => Verdict::Pass,
        }
    }

    /// A packet of the classic queue is marked or dropped by the square of the base probability; in
    /// overload it is dropped, ECN or not.
    fn judge_classic(&mut self, ecn_capable: bool) -> Verdict {
        if !self.classic.recurs(self.base * self.base) {
            Verdict::Pass
        } else if ecn_capable && !self.is_overloaded() {
            Verdict::Mark
        } else {
            Verdict::Drop
        }
    }

    /// Whether marks cannot become more: all of the L queue are marked.
    fn is_overloaded(&self) -> bool {
        self.base >= (1.0 / self.config.coupling).min(1.0)
    }

    /// Makes the updates that are due.
    fn update(&mut self, now: Time) {
        while self.next_update <= now {
            let at_rest = self.base == 0.0 && self.delay == 0;
            if at_rest && self.backlog().packets == 0 {
                // More updates with empty queues would change nothing.
                let missed = (now - self.next_update) / self.config.tupdate + 1;
                self.next_update += missed * self.config.tupdate;
                return;
            }
            self.adjust(self.next_update);
            self.next_update += self.config.tupdate;
        }
    }

    /// The update of the base probability, by the longer of both delays (figure 8).
    fn adjust(&mut self, now: Time) {
        let delay = self.low.delay(now).max(self.classic.delay(now));
        let error = seconds(delay) - seconds(self.config.target);
        let change = seconds(delay) - seconds(self.delay);
        self.base += self.config.alpha * error + self.config.beta * change;
        self.base = self.base.clamp(0.0, 1.0);
        self.delay = delay;
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
