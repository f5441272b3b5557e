//! Retransmissions by a link of what its wire has lost (automatic repeat request, RFC 3366).

use crate::dice::Dice;
use crate::impairments::loss::{Loss, Wire};
use crate::time::Time;

/// A link that sends what its wire loses again. Each retransmission is lost as the loss model says,
/// whose chain makes a step for it. It delays the packet and takes nothing of the link's rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Arq {
    /// How transmissions are lost.
    pub loss: Loss,
    /// How often a packet is sent again before it is given up.
    pub retries: u32,
    /// What each retransmission adds to the packet's delay, ps.
    pub delay: Time,
}

impl Arq {
    /// The share of packets lost in the long run: all their transmissions are.
    pub(crate) fn mean(&self) -> f64 {
        let transmissions = self.retries as i32 + 1;
        match &self.loss {
            Loss::Steps(steps) => steps.map(|p| libm::pow(p, f64::from(transmissions))).mean(),
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
            other => libm::pow(other.mean(), f64::from(transmissions)),
        }
    }
}

/// The share of packets lost by a chain that makes a step per transmission. `after` is the state
/// after a packet by the state before it, good or bad first.
fn in_bursts(leaves: [f64; 2], loss: [f64; 2], retries: u32) -> f64 {
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

/// An [`Arq`] and its state.
#[derive(Clone, Debug)]
pub(crate) struct Repeater {
    wire: Wire,
    retries: u32,
    delay: Time,
    /// By how much the last packet was delayed.
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
