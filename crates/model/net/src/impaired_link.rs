//! A link that delays packets by different times.

use crate::arrival::Backlog;
use crate::counters::Counters;
use crate::fate::Fate;
use crate::impairments::{Displacement, Impairments};
use crate::link::{Link, LinkConfig};
use crate::time::Time;

/// Fate of a packet offered to an [`ImpairedLink`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// The fate. A packet that is displaced by a number of packets is delivered at the time given
    /// here at the latest.
    pub fate: Fate,
    /// Whether it is marked (CE, RFC 3168).
    pub marked: bool,
    /// Behind how many of the next packets it arrives; 0 if it is not displaced by packets. An
    /// [`Overtaking`](crate::Overtaking) counts them.
    pub behind: u32,
}

/// A [`Link`] with [`Impairments`] and the retransmissions of an [`Arq`](crate::Arq). A packet's
/// own delay is the sum of all these. For each packet that gets through the link's generator draws
/// first its jitter, then whether it is displaced; what is not configured draws nothing.
#[derive(Clone, Debug)]
pub struct ImpairedLink {
    link: Link,
    impairments: Impairments,
    delay: Time,
    /// When the last packet arrives of those that are not displaced, if they keep their order.
    last: Time,
}

impl ImpairedLink {
    /// An idle link at time 0.
    ///
    /// # Panics
    /// As [`Link::new`], and if a share is not within [0, 1].
    pub fn new(config: LinkConfig, seed: u64) -> ImpairedLink {
        let impairments = config.impairments.clone();
        let shares = impairments.reorder.iter().map(|reorder| reorder.share);
        for share in shares {
            assert!((0.0..=1.0).contains(&share), "{share} is not within [0, 1]");
        }
        ImpairedLink {
            delay: config.delay,
            link: Link::new(config, seed),
            impairments,
            last: 0,
        }
    }

    /// Offers one packet, as [`Link::offer`], or [`Link::offer_ecn_capable`].
    pub fn offer(&mut self, now: Time, bytes: u32, ecn_capable: bool) -> Crossing {
        let (fate, marked) = match ecn_capable {
            true => self.link.offer_ecn_capable(now, bytes),
            false => (self.link.offer(now, bytes), false),
        };
        let (fate, behind) = match fate {
            Fate::Delivered { at } => {
                let (at, behind) = self.delay(at);
                (Fate::Delivered { at }, behind)
            }
            Fate::Dropped(_) => (fate, 0),
        };
        Crossing {
            fate,
            marked,
            behind,
        }
    }

    /// When a packet arrives that would arrive at this time, and behind how many others.
    fn delay(&mut self, at: Time) -> (Time, u32) {
        let more = self.impairments.more_delay.as_ref();
        let more = more.map_or(0, |more| more.at(at - self.delay) as Time);
        let own = at + more + self.link.repeated() + self.jitter();
        let in_order = match self.impairments.overtakes {
            true => own,
            false => own.max(self.last),
        };
        match self.displacement() {
            None => {
                self.last = in_order;
                (in_order, 0)
            }
            Some(Displacement::Delay(by)) => (in_order + by, 0),
            Some(Displacement::Packets { count, hold }) => (in_order + hold, count),
        }
    }

    fn jitter(&mut self) -> Time {
        match self.impairments.jitter {
            0 => 0,
            longest => (self.link.dice().uniform() * longest as f64) as Time,
        }
    }

    fn displacement(&mut self) -> Option<Displacement> {
        let reorder = self.impairments.reorder.as_ref()?;
        let displaced = self.link.dice().chance(reorder.share);
        displaced.then(|| reorder.by.clone())
    }

    /// As [`Link::queue`].
    pub fn queue(&mut self, now: Time) -> Backlog {
        self.link.queue(now)
    }

    /// As [`Link::counters`].
    pub fn counters(&mut self, now: Time) -> Counters {
        self.link.counters(now)
    }
}
