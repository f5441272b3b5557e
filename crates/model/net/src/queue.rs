//! Admission of packets to a link's queue: by its length, by random early detection, or by a
//! policer.

use crate::codel::{Codel, FqCodel};
use crate::dice::Dice;
use crate::packet::{ATTOBITS_PER_BYTE, Arrival, Attobits, Cause};
use crate::pie;
use crate::pie::{DualPi2, Pie, Verdict};
use crate::time::Time;

/// The queueing discipline of a link. All but the last three are first in, first out, and decide
/// when a packet arrives.
#[derive(Clone, Debug, PartialEq)]
pub enum Queue {
    /// A packet that would have to wait is dropped if a limit would be exceeded with it.
    DropTail {
        /// Maximum number of waiting packets; None: no limit.
        packets: Option<u32>,
        /// Maximum number of waiting bytes; None: no limit.
        bytes: Option<u64>,
    },
    /// Random early detection.
    Red(Red),
    /// PIE: drops at random, by a probability that holds the delay at a target.
    Pie(Pie),
    /// Policer: drops what exceeds a token bucket; what conforms waits without limit.
    Policer(Policer),
    /// CoDel: drops at the head while the delay stays above a target. Of a
    /// [`QueuedLink`](crate::QueuedLink) only.
    Codel(Codel),
    /// Flows take turns, each with CoDel. Of a [`QueuedLink`](crate::QueuedLink) only.
    FqCodel(FqCodel),
    /// A queue of low delay for scalable flows beside the classic one. Of a
    /// [`QueuedLink`](crate::QueuedLink) only.
    DualPi2(DualPi2),
}

impl Queue {
    /// Name in a scenario.
    pub fn name(&self) -> &'static str {
        match self {
            Queue::DropTail { .. } => "drop_tail",
            Queue::Red(_) => "red",
            Queue::Pie(_) => "pie",
            Queue::Policer(_) => "policer",
            Queue::Codel(_) => "codel",
            Queue::FqCodel(_) => "fq_codel",
            Queue::DualPi2(_) => "dualpi2",
        }
    }

    /// Whether it decides when packets leave, as only a [`QueuedLink`](crate::QueuedLink) can.
    pub fn decides_on_departure(&self) -> bool {
        matches!(
            self,
            Queue::Codel(_) | Queue::FqCodel(_) | Queue::DualPi2(_)
        )
    }
}

/// A [`Queue`] and its state.
#[derive(Clone, Debug)]
pub(crate) enum Admission {
    DropTail { packets: u32, bytes: u64 },
    Red(Averager),
    Pie(Box<pie::Control>),
    Policer(Box<Bucket>),
}

impl Admission {
    /// `mean_mbps` is the rate of the link.
    ///
    /// # Panics
    /// If a parameter of RED is invalid, or the queue is that of a `QueuedLink`.
    pub(crate) fn new(queue: Queue, mean_mbps: f64) -> Admission {
        match queue {
            Queue::DropTail { packets, bytes } => Admission::DropTail {
                packets: packets.unwrap_or(u32::MAX),
                bytes: bytes.unwrap_or(u64::MAX),
            },
            Queue::Red(red) => Admission::Red(Averager::new(red, mean_mbps)),
            Queue::Pie(pie) => Admission::Pie(Box::new(pie::Control::new(pie))),
            Queue::Policer(policer) => Admission::Policer(Box::new(Bucket::new(&policer))),
            Queue::Codel(_) | Queue::FqCodel(_) | Queue::DualPi2(_) => {
                panic!("{queue:?} needs a QueuedLink")
            }
        }
    }

    /// Admits a packet, and says whether it is marked, or returns why not.
    #[inline(always)]
    pub(crate) fn admit(&mut self, arrival: Arrival, dice: &mut Dice) -> Result<bool, Cause> {
        match self {
            Admission::DropTail { packets, bytes } => fits(&arrival, *packets, *bytes, false),
            other => {
                // Moved, so that the arrival at a drop-tail queue need not be in memory.
                other.admit_early(&{ arrival }, dice)
            }
        }
    }

    /// The same for queues that may drop a packet although there is room.
    #[inline(never)]
    fn admit_early(&mut self, arrival: &Arrival, dice: &mut Dice) -> Result<bool, Cause> {
        let mut marked = false;
        let packets = match self {
            Admission::DropTail { .. } => unreachable!("decided above"),
            Admission::Red(averager) => {
                let probability = averager.drop_probability(arrival);
                if dice.chance(probability) {
                    averager.passed = 0.0;
                    marked = arrival.ecn_capable && averager.marks();
                    if !marked {
                        return Err(Cause::Red);
                    }
                }
                averager.limit_packets()
            }
            Admission::Pie(control) => {
                match control.judge(arrival, dice) {
                    Verdict::Pass => {}
                    Verdict::Mark => marked = true,
                    Verdict::Drop => return Err(Cause::Aqm),
                }
                control.limit_packets()
            }
            Admission::Policer(bucket) => match bucket.admits(arrival) {
                true => u32::MAX,
                false => return Err(Cause::Overflow),
            },
        };
        fits(arrival, packets, u64::MAX, marked)
    }
}

/// Admits a packet if it need not wait, or within these limits on what waits.
#[inline(always)]
fn fits(arrival: &Arrival, packets: u32, bytes: u64, marked: bool) -> Result<bool, Cause> {
    let backlog = arrival.backlog;
    let full = backlog.packets >= packets
        || bytes.saturating_sub(backlog.bytes) < u64::from(arrival.bytes);
    if arrival.waits && full {
        Err(Cause::Overflow)
    } else {
        Ok(marked)
    }
}

// Random early detection as the testbed of the OLIA draft states it.

/// Size of the packets that an idle link could have transmitted.
const TYPICAL_BYTES: u32 = 1500;

/// Random early detection with a drop probability in three pieces: 0 up to `min_packets`, linear
/// to `mid_probability` at `mid_packets`, linear to 1 at `max_packets` (OLIA draft, Sec. 3; after
/// Floyd and Jacobson 1993).
#[derive(Clone, Debug, PartialEq)]
pub struct Red {
    /// Queue up to which no packet is dropped.
    pub min_packets: f64,
    /// Queue at which the slope changes.
    pub mid_packets: f64,
    /// Queue from which every packet is dropped.
    pub max_packets: f64,
    /// Drop probability at `mid_packets`.
    pub mid_probability: f64,
    /// Weight of an arrival in the moving average of the queue, within (0, 1]; None: the
    /// instantaneous queue is used.
    pub average_weight: Option<f64>,
    /// Maximum number of waiting packets, for any average.
    pub limit_packets: u32,
    /// Mark packets that are ECN-capable instead of dropping them, below `max_packets` (RFC 3168,
    /// section 7).
    pub ecn: bool,
    /// Space drops, or marks, by the packets since the last one: with a probability p they are 1 to
    /// 1/p packets apart, each distance as likely, so that a share 2p/(1 + p) is dropped (Floyd and
    /// Jacobson 1993, Sec. 7, method 2; Click's RED). Otherwise each packet is dropped
    /// independently of the others, a share p.
    pub uniform: bool,
}

impl Red {
    /// The queue of the OLIA draft, Sec. 3: thresholds of 25, 50 and 100 packets at 10 Mbps, in
    /// proportion to the rate; probability 0.1 at the middle one. The instantaneous queue is used,
    /// and at most as many packets as the highest threshold may wait.
    pub fn scaled(rate_mbps: f64) -> Red {
        let scale = rate_mbps / 10.0;
        Red {
            min_packets: 25.0 * scale,
            mid_packets: 50.0 * scale,
            max_packets: 100.0 * scale,
            mid_probability: 0.1,
            average_weight: None,
            limit_packets: (100.0 * scale).round() as u32,
            ecn: true,
            uniform: false,
        }
    }

    /// Probability that an arrival is dropped when `queue` packets wait, instantaneous or average.
    pub fn drop_probability(&self, queue: f64) -> f64 {
        if queue <= self.min_packets {
            0.0
        } else if queue <= self.mid_packets {
            let share = (queue - self.min_packets) / (self.mid_packets - self.min_packets);
            share * self.mid_probability
        } else if queue < self.max_packets {
            let share = (queue - self.mid_packets) / (self.max_packets - self.mid_packets);
            self.mid_probability + share * (1.0 - self.mid_probability)
        } else {
            1.0
        }
    }

    /// The points between which [`drop_probability`](Self::drop_probability) is linear: queue and
    /// probability. Before the first it is 0, after the last 1.
    pub fn curve(&self) -> [(f64, f64); 3] {
        [self.min_packets, self.mid_packets, self.max_packets]
            .map(|queue| (queue, self.drop_probability(queue)))
    }

    fn is_valid(&self) -> bool {
        let ordered = 0.0 <= self.min_packets
            && self.min_packets <= self.mid_packets
            && self.mid_packets <= self.max_packets;
        let weight = self.average_weight.unwrap_or(1.0);
        ordered && (0.0..=1.0).contains(&self.mid_probability) && 0.0 < weight && weight <= 1.0
    }
}

/// A [`Red`] and its moving average.
#[derive(Clone, Debug)]
pub(crate) struct Averager {
    red: Red,
    average: f64,
    /// Packets since the last drop or mark, while the probability was above 0.
    passed: f64,
    /// When the average last took a sample, ps.
    sampled_at: Time,
    /// Transmission time of a typical packet, ps.
    typical: f64,
}

impl Averager {
    /// # Panics
    /// If thresholds are out of order, the probability is outside [0, 1] or the weight outside
    /// (0, 1].
    pub(crate) fn new(red: Red, mean_mbps: f64) -> Averager {
        assert!(red.is_valid(), "invalid parameters of RED: {red:?}");
        let typical = f64::from(TYPICAL_BYTES * 8) * 1e6 / mean_mbps;
        Averager {
            red,
            average: 0.0,
            passed: 0.0,
            sampled_at: 0,
            typical,
        }
    }

    pub(crate) fn limit_packets(&self) -> u32 {
        self.red.limit_packets
    }

    /// Whether ECN-capable packets are marked instead of dropped at the present average.
    pub(crate) fn marks(&self) -> bool {
        self.red.ecn && self.average < self.red.max_packets
    }

    /// Takes an arrival's sample of the queue and gives the probability of dropping it. While the
    /// link is idle the average decays as if typical packets had met an empty queue all that time
    /// (Floyd and Jacobson 1993, Sec. 4).
    pub(crate) fn drop_probability(&mut self, arrival: &Arrival) -> f64 {
        let queue = f64::from(arrival.backlog.packets);
        match self.red.average_weight {
            None => self.average = queue,
            Some(weight) => {
                let idle_since = self.sampled_at.max(arrival.free_at);
                if arrival.now > idle_since {
                    let missed = (arrival.now - idle_since) as f64 / self.typical;
                    // The system's pow differs between machines.
                    self.average *= libm::pow(1.0 - weight, missed);
                }
                self.average += weight * (queue - self.average);
            }
        }
        self.sampled_at = arrival.now;
        let probability = self.red.drop_probability(self.average);
        if self.red.uniform {
            self.spaced(probability)
        } else {
            probability
        }
    }

    /// The probability of dropping a packet after those that passed (Floyd and Jacobson 1993, Sec.
    /// 7), and counts it as passed.
    fn spaced(&mut self, probability: f64) -> f64 {
        if probability == 0.0 {
            self.passed = 0.0;
            return 0.0;
        }
        let left = 1.0 - self.passed * probability;
        self.passed += 1.0;
        if left > probability {
            probability / left
        } else {
            1.0
        }
    }
}

// A policer: a token bucket without a queue of its own.

/// A token bucket that fills at a rate up to a burst, full at first. A packet for which it has too
/// few tokens is dropped; any other takes its size out of it (RFC 2697, with one colour).
#[derive(Clone, Debug, PartialEq)]
pub struct Policer {
    /// Rate at which tokens arrive, bit/s, kept to a millionth.
    pub bits_per_second: f64,
    /// The most tokens, bytes.
    pub burst_bytes: u32,
}

/// A [`Policer`] and its tokens. Time and rate make whole numbers of attobits, so nothing drifts.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    /// Attobits per picosecond.
    rate: Attobits,
    most: Attobits,
    tokens: Attobits,
    filled_at: Time,
}

impl Bucket {
    pub(crate) fn new(policer: &Policer) -> Bucket {
        let most = Attobits::from(policer.burst_bytes) * ATTOBITS_PER_BYTE;
        Bucket {
            rate: (policer.bits_per_second * 1e6).round() as Attobits,
            most,
            tokens: most,
            filled_at: 0,
        }
    }

    /// Whether a packet conforms; if so, its tokens are taken.
    pub(crate) fn admits(&mut self, arrival: &Arrival) -> bool {
        let new = self.rate * Attobits::from(arrival.now - self.filled_at);
        self.filled_at = arrival.now;
        self.tokens = (self.tokens + new).min(self.most);
        let needed = Attobits::from(arrival.bytes) * ATTOBITS_PER_BYTE;
        let conforms = needed <= self.tokens;
        if conforms {
            self.tokens -= needed;
        }
        conforms
    }
}
