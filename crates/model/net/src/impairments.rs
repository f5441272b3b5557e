//! Effects of a link on packets beyond its rate, its queue and a constant delay.

use crate::steps::Steps;
use crate::time::Time;

mod bursts;
pub(crate) mod loss;
pub(crate) mod overtaking;

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
