//! DualPI2: a queue of low delay beside the classic one, whose marks are coupled (RFC 9332).

use crate::aqm::fifo::{Fifo, Waiting};
use crate::arrival::Backlog;
use crate::time::{MILLISECOND, Time, seconds};

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

/// Fate of a packet that leaves its queue.
enum Verdict {
    Pass,
    Mark,
    Drop,
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
