//! A link whose delay changes.

use crate::arrival::Backlog;
use crate::counters::Counters;
use crate::fate::Fate;
use crate::link::Link;
use crate::steps::Steps;
use crate::time::Time;

/// A [`Link`] that delays packets by more than its smallest delay: by what holds when the last bit
/// of a packet leaves. Where the delay falls, packets wait for those before them: their order
/// stays.
#[derive(Clone, Debug)]
pub struct WanderingLink {
    link: Link,
    /// The delay beyond the smallest, ps.
    more: Steps,
    delay: Time,
    /// When the last packet arrives.
    last: Time,
}

impl WanderingLink {
    /// The link of the smallest delay, and by how much more it delays packets, ps.
    pub fn new(link: Link, more: Steps) -> WanderingLink {
        WanderingLink {
            delay: link.delay(),
            link,
            more,
            last: 0,
        }
    }

    /// As [`Link::offer`], or [`Link::offer_ecn_capable`].
    pub fn offer(&mut self, now: Time, bytes: u32, ecn_capable: bool) -> (Fate, bool) {
        let (fate, marked) = match ecn_capable {
            true => self.link.offer_ecn_capable(now, bytes),
            false => (self.link.offer(now, bytes), false),
        };
        let Fate::Delivered { at } = fate else {
            return (fate, marked);
        };
        self.last = self.last.max(at + self.more.at(at - self.delay) as Time);
        (Fate::Delivered { at: self.last }, marked)
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
