//! Random loss on the wire.

use crate::dice::Dice;
use crate::impairments::bursts::in_bursts;
use crate::steps::Steps;
use crate::time::Time;

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
            other => all_lost(other.mean()),
        }
    }
}

/// A [`Loss`] and the state of its chain.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    loss: Loss,
    bad: bool,
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
