//! Effects of a link on packets beyond its rate, its queue and a constant delay: loss on the
//! wire, and packets that overtake one another.

use std::collections::{BTreeMap, VecDeque};

use crate::dice::Dice;
use crate::steps::Steps;
use crate::time::Time;

/// Delays of packets beyond that of the link. Only an [`ImpairedLink`](crate::ImpairedLink) has
/// them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Impairments {
    /// The delay beyond the smallest, ps, which holds when the last bit of a packet leaves.
    pub more_delay: Option<Steps>,
    /// The longest random delay, ps: each packet has its own, uniform from 0 to this.
    pub jitter: Time,
    /// Whether packets overtake those that are delayed more. Otherwise they wait for those before
    /// them, as in a first-in, first-out queue.
    pub overtakes: bool,
    /// Packets displaced at random.
    pub reorder: Option<Reorder>,
}

impl Impairments {
    /// Whether packets may arrive in another order than they were offered.
    pub fn may_reorder(&self) -> bool {
        self.overtakes || self.reorder.is_some()
    }

    /// The longest delay of a packet, ps.
    pub(crate) fn longest(&self) -> Time {
        let more = self.more_delay.as_ref();
        let more = more.map_or(0.0, |steps| steps.values().fold(0.0, f64::max));
        let displaced = match self.reorder.as_ref().map(|reorder| &reorder.by) {
            Some(Displacement::Delay(by)) => *by,
            Some(Displacement::Packets { hold, .. }) => *hold,
            None => 0,
        };
        more as Time + self.jitter + displaced
    }
}

/// Packets displaced at random, each with the same probability, independently of the others.
#[derive(Clone, Debug, PartialEq)]
pub struct Reorder {
    /// The share of packets displaced, 0 to 1.
    pub share: f64,
    /// The distance.
    pub by: Displacement,
}

/// How far a packet is displaced.
#[derive(Clone, Debug, PartialEq)]
pub enum Displacement {
    /// It arrives this much later, ps, and no other packet waits for it.
    Delay(Time),
    /// It arrives immediately behind the last of as many packets that are offered after it, get
    /// through and are not displaced themselves: exactly these overtake it. In the terms of RFC
    /// 4737, section 5, it is n-reordered for n up to their number and no further.
    Packets {
        /// The number of these packets, at least 1.
        count: u32,
        /// It arrives after this much more delay, ps, if fewer have.
        hold: Time,
    },
}

// Random loss on the wire.

/// How packets are lost at random. The loss comes after the queue: a packet lost here has used
/// capacity like any other.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// Each packet is lost with the same probability, independently of the others.
    Bernoulli {
        /// Probability that a packet is lost, 0 to 1.
        probability: f64,
    },
    /// Every `packets`-th packet is lost: the deterministic loss of response functions.
    Periodic {
        /// The distance from one loss to the next, at least 1.
        packets: u64,
    },
    /// Each packet is lost with the probability that holds when it is transmitted.
    Steps(Steps),
    /// Losses in bursts: a Markov chain of two states that makes one step per packet, before that
    /// packet's loss is drawn. It begins in the good state (Gilbert 1960, Elliott 1963).
    ///
    /// In the long run the share `good_to_bad / (good_to_bad + bad_to_good)` of packets meets the
    /// bad state, in bursts of `1 / bad_to_good` packets on average.
    GilbertElliott {
        /// Probability per packet of a step from the good state to the bad one.
        good_to_bad: f64,
        /// Probability per packet of a step from the bad state to the good one.
        bad_to_good: f64,
        /// Probability that a packet is lost in the good state.
        loss_good: f64,
        /// Probability that a packet is lost in the bad state.
        loss_bad: f64,
    },
    /// A lost packet is sent again, by an [`ImpairedLink`](crate::ImpairedLink) only: a
    /// [`Link`](crate::Link) would deliver it without its delay.
    Repeated(Box<Arq>),
}

impl Loss {
    /// The share of packets lost in the long run. A chain without transitions stays in
    /// the good state.
    pub fn mean(&self) -> f64 {
        match *self {
            Loss::None => 0.0,
            Loss::Bernoulli { probability } => probability,
            Loss::Periodic { packets } => 1.0 / packets as f64,
            Loss::Steps(ref steps) => steps.mean(),
            Loss::GilbertElliott {
                good_to_bad,
                bad_to_good,
                loss_good,
                loss_bad,
            } => {
                let steps = good_to_bad + bad_to_good;
                let bad = if steps > 0.0 {
                    good_to_bad / steps
                } else {
                    0.0
                };
                loss_good + bad * (loss_bad - loss_good)
            }
            Loss::Repeated(ref arq) => arq.mean(),
        }
    }

    fn probabilities(&self) -> [f64; 4] {
        match *self {
            Loss::None => [0.0; 4],
            Loss::Bernoulli { probability } => [probability; 4],
            Loss::Periodic { .. } => [self.mean(); 4],
            Loss::Steps(ref steps) => {
                let largest = steps.values().fold(0.0, f64::max);
                [steps.smallest(), largest, largest, largest]
            }
            Loss::GilbertElliott {
                good_to_bad,
                bad_to_good,
                loss_good,
                loss_bad,
            } => [good_to_bad, bad_to_good, loss_good, loss_bad],
            Loss::Repeated(ref arq) => arq.loss.probabilities(),
        }
    }
}

/// A link that sends what its wire loses again (automatic repeat request, RFC 3366). Each
/// retransmission is lost as the loss model says, whose chain makes a step for it. It delays the
/// packet and takes nothing of the link's rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Arq {
    /// How transmissions are lost.
    pub loss: Loss,
    /// How often a packet is sent again before it is given up.
    pub retries: u32,
    /// Addition of each retransmission to the packet's delay, ps.
    pub delay: Time,
}

impl Arq {
    /// The share of packets lost in the long run: all their transmissions are.
    pub(crate) fn mean(&self) -> f64 {
        let all_lost = |p| libm::pow(p, f64::from(self.retries) + 1.0);
        match &self.loss {
            Loss::Steps(steps) => steps.map(all_lost).mean(),
            Loss::GilbertElliott {
                good_to_bad,
                bad_to_good,
                loss_good,
                loss_bad,
            } => in_bursts(
                [*good_to_bad, *bad_to_good],
                [*loss_good, *loss_bad],
                self.retries,
            ),
            // The transmission after a lost one is not the next to be lost.
            Loss::Periodic { packets } if *packets > 1 && self.retries > 0 => 0.0,
            other => all_lost(other.mean()),
        }
    }
}

/// A [`Loss`] and the state of its chain.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    loss: Loss,
    bad: bool,
    /// Packets since the last one that was lost by their number.
    passed: u64,
    repeater: Option<Box<Repeater>>,
}

impl Wire {
    /// # Panics
    /// If a probability is not within [0, 1].
    pub(crate) fn new(loss: Loss) -> Wire {
        assert!(
            loss.probabilities().iter().all(|p| (0.0..=1.0).contains(p)),
            "a probability of {loss:?} is not within [0, 1]"
        );
        let repeater = match &loss {
            Loss::Repeated(arq) => Some(Box::new(Repeater::new(arq))),
            _ => None,
        };
        Wire {
            loss,
            bad: false,
            passed: 0,
            repeater,
        }
    }

    /// How much retransmissions have delayed the last packet that was not lost.
    pub(crate) fn repeated(&self) -> Time {
        self.repeater.as_ref().map_or(0, |repeater| repeater.last)
    }

    /// Decides the fate of the next packet transmitted, whose transmission ends at this time.
    #[inline(always)]
    pub(crate) fn loses(&mut self, at: Time, dice: &mut Dice) -> bool {
        !matches!(self.loss, Loss::None) && self.loses_at_random(at, dice)
    }

    #[inline(never)]
    fn loses_at_random(&mut self, at: Time, dice: &mut Dice) -> bool {
        match self.loss {
            Loss::None => false,
            Loss::Bernoulli { probability } => dice.chance(probability),
            Loss::Periodic { packets } => {
                self.passed = (self.passed + 1) % packets;
                self.passed == 0
            }
            Loss::Steps(ref steps) => dice.chance(steps.at(at)),
            Loss::GilbertElliott {
                good_to_bad,
                bad_to_good,
                loss_good,
                loss_bad,
            } => {
                self.bad ^= dice.chance(if self.bad { bad_to_good } else { good_to_bad });
                dice.chance(if self.bad { loss_bad } else { loss_good })
            }
            Loss::Repeated(_) => {
                let repeater = self.repeater.as_mut();
                repeater.is_some_and(|repeater| repeater.loses(at, dice))
            }
        }
    }
}

/// An [`Arq`] and its state.
#[derive(Clone, Debug)]
pub(crate) struct Repeater {
    wire: Wire,
    retries: u32,
    delay: Time,
    /// How much the last packet was delayed, ps.
    pub last: Time,
}

impl Repeater {
    /// # Panics
    /// If a probability is not within [0, 1].
    pub(crate) fn new(arq: &Arq) -> Repeater {
        Repeater {
            wire: Wire::new(arq.loss.clone()),
            retries: arq.retries,
            delay: arq.delay,
            last: 0,
        }
    }

    /// Whether all transmissions of a packet are lost, the first of which ends at this time.
    pub(crate) fn loses(&mut self, at: Time, dice: &mut Dice) -> bool {
        let delays = (0..=Time::from(self.retries)).map(|again| again * self.delay);
        let arrived = { delays }.find(|delay| !self.wire.loses(at + delay, dice));
        self.last = arrived.unwrap_or(0);
        arrived.is_none()
    }
}

// Packets sent again while a chain of two states loses them.

/// The share of packets lost by a chain that makes a step per transmission. `after` is the state
/// after a packet by the state before it, good or bad first.
pub(super) fn in_bursts(leaves: [f64; 2], loss: [f64; 2], retries: u32) -> f64 {
    // Probability of a step and then a loss, or none, by the states before and after.
    let step = [[1.0 - leaves[0], leaves[0]], [leaves[1], 1.0 - leaves[1]]];
    let by = |share: [f64; 2]| step.map(|row| [row[0] * share[0], row[1] * share[1]]);
    let (lost, passed) = (by(loss), by(loss.map(|p| 1.0 - p)));
    let mut all_lost = [[1.0, 0.0], [0.0, 1.0]];
    let mut after = [[0.0; 2]; 2];
    for _ in 0..=retries {
        after = sum(after, product(all_lost, passed));
        all_lost = product(all_lost, lost);
    }
    after = sum(after, all_lost);
    let leaving = after[0][1] + after[1][0];
    let bad = if leaving > 0.0 {
        after[0][1] / leaving
    } else {
        0.0
    };
    let of = |state: usize| all_lost[state][0] + all_lost[state][1];
    (1.0 - bad) * of(0) + bad * of(1)
}

type Matrix = [[f64; 2]; 2];

fn product(a: Matrix, b: Matrix) -> Matrix {
    a.map(|row| [0, 1].map(|j| row[0] * b[0][j] + row[1] * b[1][j]))
}

fn sum(a: Matrix, b: Matrix) -> Matrix {
    [0, 1].map(|i| [0, 1].map(|j| a[i][j] + b[i][j]))
}

// Packets on their way that overtake one another.

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
