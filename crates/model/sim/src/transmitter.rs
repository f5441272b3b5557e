//! A link of either kind.

use anabranch_net::{
    Backlog, Counters, ImpairedLink, Link, LinkConfig, Overtaking, QueuedLink, Time,
};

/// A link that decides a packet's fate when it is offered, or when it leaves its queue.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "nearly every link is of the larger kind"
)]
pub(crate) enum Transmitter<P> {
    Fifo(Link),
    Queued(Box<QueuedLink<P>>),
    /// No link: packets that pass are captured.
    Tap,
    Impaired(Box<Impaired<P>>),
}

/// A link that delays packets by different times.
#[derive(Debug)]
pub(crate) struct Impaired<P> {
    pub link: ImpairedLink,
    /// The packets on their way, if they may overtake one another.
    pub overtaking: Option<Overtaking<P>>,
}

impl<P> Transmitter<P> {
    /// An idle link at time 0.
    pub fn new(config: &LinkConfig, seed: u64) -> Transmitter<P> {
        if let Some(link) = QueuedLink::new(config, seed) {
            return Transmitter::Queued(Box::new(link));
        }
        if !config.is_impaired() {
            return Transmitter::Fifo(Link::new(config.clone(), seed));
        }
        Transmitter::Impaired(Box::new(Impaired {
            link: ImpairedLink::new(config.clone(), seed),
            overtaking: config.impairments.may_reorder().then(Overtaking::default),
        }))
    }

    /// Totals until `now`.
    pub fn counters(&mut self, now: Time) -> Counters {
        match self {
            Transmitter::Fifo(link) => link.counters(now),
            Transmitter::Queued(link) => link.counters(now),
            Transmitter::Tap => Counters::default(),
            Transmitter::Impaired(impaired) => impaired.link.counters(now),
        }
    }

    /// The packets that wait at `now`.
    pub fn queue(&mut self, now: Time) -> Backlog {
        match self {
            Transmitter::Fifo(link) => link.queue(now),
            Transmitter::Queued(link) => link.queue(),
            Transmitter::Tap => Backlog::default(),
            Transmitter::Impaired(impaired) => impaired.link.queue(now),
        }
    }
}
