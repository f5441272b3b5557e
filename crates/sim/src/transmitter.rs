//! A link of either kind.

use anabranch_net::{Backlog, Counters, Link, LinkConfig, QueuedLink, Time, WanderingLink};

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
    Wandering(Box<WanderingLink>),
}

impl<P> Transmitter<P> {
    /// An idle link at time 0.
    pub fn new(config: &LinkConfig, seed: u64) -> Transmitter<P> {
        if let Some(link) = QueuedLink::new(config, seed) {
            return Transmitter::Queued(Box::new(link));
        }
        let link = Link::new(config.clone(), seed);
        match &config.more_delay {
            Some(more) => Transmitter::Wandering(Box::new(WanderingLink::new(link, more.clone()))),
            None => Transmitter::Fifo(link),
        }
    }

    /// Totals until `now`.
    pub fn counters(&mut self, now: Time) -> Counters {
        match self {
            Transmitter::Fifo(link) => link.counters(now),
            Transmitter::Queued(link) => link.counters(now),
            Transmitter::Tap => Counters::default(),
            Transmitter::Wandering(link) => link.counters(now),
        }
    }

    /// The packets that wait at `now`.
    pub fn queue(&mut self, now: Time) -> Backlog {
        match self {
            Transmitter::Fifo(link) => link.queue(now),
            Transmitter::Queued(link) => link.queue(),
            Transmitter::Tap => Backlog::default(),
            Transmitter::Wandering(link) => link.queue(now),
        }
    }
}
