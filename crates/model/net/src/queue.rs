//! Admission of packets to a link's queue.

use crate::aqm::codel::Codel;
use crate::aqm::dualpi2::DualPi2;
use crate::aqm::fq_codel::FqCodel;
use crate::aqm::pie::{self, Pie, Verdict};
use crate::aqm::red::{Averager, Red};
use crate::arrival::Arrival;
use crate::dice::Dice;
use crate::fate::Cause;
use crate::policer::{Bucket, Policer};

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
