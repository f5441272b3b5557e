//! A link of the kind that its configuration needs.

use crate::impairments::Overtaking;
use crate::link::{ImpairedLink, Link, LinkConfig};
use crate::packet::{Backlog, Cause, Counters, Fate};
use crate::queued_link::{Offer, QueuedLink};
use crate::time::Time;

/// A packet that a link can mark instead of dropping it (CE, RFC 3168).
pub trait Mark {
    /// Marks it.
    fn mark(&mut self);
}

/// A link of the kind that its configuration needs, and the packets that only it knows: those that
/// wait in a [`QueuedLink`], and those that may overtake one another.
#[derive(Clone, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "nearly every link is of the larger kind"
)]
pub enum AnyLink<T> {
    /// Packets keep their order, and their fate is known when they are offered.
    Plain(Link),
    /// Packets wait, and their fate is known when their transmission starts.
    Queued(Box<QueuedLink<T>>),
    /// Packets have delays of their own.
    Impaired(Box<Impaired<T>>),
}

/// An [`ImpairedLink`] and the packets on it.
#[derive(Clone, Debug)]
pub struct Impaired<T> {
    link: ImpairedLink,
    /// The packets on their way, if they may overtake one another.
    overtaking: Option<Overtaking<T>>,
}

/// Fate of a packet that is offered to an [`AnyLink`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<T> {
    /// The packet arrives at this time, after those before it.
    Arrives(Time, T),
    /// The link has it: [`AnyLink::leave`] must be called at this time.
    Overtaking(Time),
    /// It waits in the link, or was dropped ([`AnyLink::take_dropped`]); if this is the first that
    /// waits, [`AnyLink::leave`] must be called at this time.
    Waits(Option<Time>),
    /// The packet is lost.
    Lost(T, Cause),
}

impl<T: Mark> AnyLink<T> {
    /// An idle link at time 0.
    ///
    /// # Panics
    /// As [`Link::new`], [`QueuedLink::new`] or [`ImpairedLink::new`].
    pub fn new(config: &LinkConfig, seed: u64) -> AnyLink<T> {
        if let Some(link) = QueuedLink::new(config, seed) {
            return AnyLink::Queued(Box::new(link));
        }
        if !config.is_impaired() {
            return AnyLink::Plain(Link::new(config.clone(), seed));
        }
        AnyLink::Impaired(Box::new(Impaired {
            link: ImpairedLink::new(config.clone(), seed),
            overtaking: config.impairments.may_reorder().then(Overtaking::default),
        }))
    }

    /// Offers one packet at `now`, which must not be earlier than at the last call. A packet that
    /// is marked and returned at once is marked there.
    pub fn offer(&mut self, now: Time, offer: Offer<T>) -> Step<T> {
        let (bytes, capable) = (offer.bytes, offer.ecn_capable);
        let (fate, marked, behind, overtaking) = match self {
            AnyLink::Queued(link) => {
                let planned = link.next_start().is_some();
                link.offer(now, offer);
                return Step::Waits(link.next_start().filter(|_| !planned));
            }
            AnyLink::Plain(link) => {
                let (fate, marked) = match capable {
                    true => link.offer_ecn_capable(now, bytes),
                    false => (link.offer(now, bytes), false),
                };
                (fate, marked, 0, None)
            }
            AnyLink::Impaired(impaired) => {
                let crossing = impaired.link.offer(now, bytes, capable);
                let overtaking = impaired.overtaking.as_mut();
                (crossing.fate, crossing.marked, crossing.behind, overtaking)
            }
        };
        let mut packet = offer.packet;
        if marked {
            packet.mark();
        }
        match (fate, overtaking) {
            (Fate::Dropped(cause), _) => Step::Lost(packet, cause),
            (Fate::Delivered { at }, None) => Step::Arrives(at, packet),
            (Fate::Delivered { at }, Some(overtaking)) => {
                overtaking.push(at, behind, packet);
                Step::Overtaking(at)
            }
        }
    }

    /// When [`leave`](Self::leave) must be called next; `None` while the link has no packet.
    pub fn next_leave(&self) -> Option<Time> {
        match self {
            AnyLink::Plain(_) => None,
            AnyLink::Queued(link) => link.next_start(),
            AnyLink::Impaired(impaired) => impaired.overtaking.as_ref()?.next(),
        }
    }

    /// A packet that the link has, with the time of its arrival: of packets that may overtake one
    /// another the next that has arrived at `now`, of those that wait the one whose transmission is
    /// due at `now`. `None`: there is none, or all that waited were dropped, or the wire loses it.
    pub fn leave(&mut self, now: Time) -> Option<(Time, T)> {
        match self {
            AnyLink::Plain(_) => None,
            AnyLink::Queued(link) => {
                let mut departure = link.start(now)?;
                if departure.marked {
                    departure.packet.mark();
                }
                Some((departure.at, departure.packet))
            }
            AnyLink::Impaired(impaired) => impaired.overtaking.as_mut()?.take(now),
        }
    }

    /// The packets dropped since the last call, beside those of [`Step::Lost`].
    pub fn take_dropped(&mut self) -> impl Iterator<Item = (T, Cause)> {
        let dropped = match self {
            AnyLink::Queued(link) => Some(link.take_dropped()),
            _ => None,
        };
        dropped.into_iter().flatten()
    }

    /// Whether packets were dropped since the last call of [`take_dropped`](Self::take_dropped).
    pub fn has_dropped(&self) -> bool {
        matches!(self, AnyLink::Queued(link) if link.has_dropped())
    }

    /// Totals until `now`.
    pub fn counters(&mut self, now: Time) -> Counters {
        match self {
            AnyLink::Plain(link) => link.counters(now),
            AnyLink::Queued(link) => link.counters(now),
            AnyLink::Impaired(impaired) => impaired.link.counters(now),
        }
    }

    /// The packets that wait at `now`.
    pub fn queue(&mut self, now: Time) -> Backlog {
        match self {
            AnyLink::Plain(link) => link.queue(now),
            AnyLink::Queued(link) => link.queue(),
            AnyLink::Impaired(impaired) => impaired.link.queue(now),
        }
    }
}
