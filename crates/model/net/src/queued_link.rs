//! A link whose packets wait in real queues: their fate is decided when they leave.

use crate::codel;
use crate::codel::{Codel, Scheduler};
use crate::dice::Dice;
use crate::impairments::Wire;
use crate::link::LinkConfig;
use crate::packet::{ATTOBITS_PER_BYTE, Attobits, Backlog, Cause, Counters, Fifo, Waiting};
use crate::pie::Coupled;
use crate::queue::Queue;
use crate::rate::Server;
use crate::steps::Outages;
use crate::time::Time;

/// A packet offered to a [`QueuedLink`].
#[derive(Clone, Copy, Debug)]
pub struct Offer<T> {
    /// Value that the link returns when the packet leaves it.
    pub packet: T,
    /// Size in bytes, headers included.
    pub bytes: u32,
    /// Flow: packets of one flow stay in order.
    pub flow: u64,
    /// Whether it may be marked instead of dropped (ECT, RFC 3168).
    pub ecn_capable: bool,
    /// Whether DualPI2 may mark it early and often, so that it waits in the queue of low delay:
    /// ECT(1) or CE (RFC 9331). Without effect if it is not ECN-capable.
    pub low_delay: bool,
}

/// A packet whose transmission has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure<T> {
    /// Value that was offered.
    pub packet: T,
    /// When its last bit arrives at the other end, ps.
    pub at: Time,
    /// Whether this link marked it (CE, RFC 3168).
    pub marked: bool,
}

/// One direction of a link with CoDel, FQ-CoDel or DualPI2. As [`Link`](crate::Link), but for this:
///
/// - A packet may be dropped when it leaves the queue, and flows overtake one another. Its fate is
///   therefore known only when its transmission starts, and the caller, who has the clock, says
///   when that is: [`start`](Self::start) must be called at each time that
///   [`next_start`](Self::next_start) gives.
/// - Packets dropped, of any cause, are in [`take_dropped`](Self::take_dropped) after each call.
#[derive(Clone, Debug)]
pub struct QueuedLink<T> {
    delay: Time,
    server: Server,
    discipline: Discipline<T>,
    wire: Wire,
    outages: Outages,
    dice: Dice,
    next_start: Option<Time>,
    /// Whether the wire loses the last packet whose transmission started.
    loses_last: bool,
    dropped: Vec<(T, Cause)>,
    /// Packets that the discipline drops; kept to reuse its memory.
    early: Vec<Waiting<T>>,
    counters: Counters,
}

#[derive(Clone, Debug)]
enum Discipline<T> {
    Codel(Codel, Fifo<T>, codel::Control),
    FqCodel(Scheduler<T>),
    DualPi2(Box<Coupled<T>>),
}

impl<T> QueuedLink<T> {
    /// An idle link at time 0; `None` if the queue of `config` decides on arrival: then it is a
    /// [`Link`](crate::Link).
    ///
    /// # Panics
    /// As [`Link::new`](crate::Link::new), and if there are no queues.
    pub fn new(config: &LinkConfig, seed: u64) -> Option<QueuedLink<T>> {
        let discipline = match &config.queue {
            Queue::Codel(codel) => {
                Discipline::Codel(codel.clone(), Fifo::default(), codel::Control::default())
            }
            Queue::FqCodel(fq_codel) => {
                assert!(fq_codel.flows > 0, "FQ-CoDel has no queues");
                Discipline::FqCodel(Scheduler::new(fq_codel.clone(), seed))
            }
            Queue::DualPi2(dualpi2) => Discipline::DualPi2(Box::new(Coupled::new(dualpi2.clone()))),
            Queue::DropTail { .. } | Queue::Red(_) | Queue::Pie(_) | Queue::Policer(_) => {
                return None;
            }
        };
        Some(QueuedLink {
            delay: config.delay,
            server: Server::new(config.rate.clone()),
            discipline,
            wire: Wire::new(config.loss.clone()),
            outages: Outages::new(config.down.clone()),
            dice: Dice::new(seed),
            next_start: None,
            loses_last: false,
            dropped: Vec::new(),
            early: Vec::new(),
            counters: Counters::default(),
        })
    }

    /// Offers one packet at `now`, which must not be earlier than at the last call.
    pub fn offer(&mut self, now: Time, offer: Offer<T>) {
        self.counters.count_arrived(offer.bytes);
        let waiting = Waiting {
            packet: offer.packet,
            bytes: offer.bytes,
            arrived: now,
            ecn_capable: offer.ecn_capable,
            marked: false,
        };
        if self.outages.down_at(now) {
            return self.drop(waiting, Cause::Down);
        }
        match &mut self.discipline {
            Discipline::Codel(codel, fifo, _) => {
                let full = fifo.backlog().packets >= codel.limit_packets;
                if full && self.server.waits(now) {
                    return self.drop(waiting, Cause::Overflow);
                }
                fifo.push(waiting);
            }
            Discipline::FqCodel(scheduler) => {
                scheduler.enqueue(offer.flow, waiting, &mut self.early);
            }
            Discipline::DualPi2(queues) => {
                if queues.is_full() {
                    return self.drop(waiting, Cause::Overflow);
                }
                queues.enqueue(now, waiting, offer.low_delay && offer.ecn_capable);
            }
        }
        self.drop_early(Cause::Overflow);
        if self.next_start.is_none() {
            // An opportunity of a trace serves what arrived before it.
            let trace = self.server.is_trace();
            self.plan(now + Time::from(trace));
        }
    }

    /// When the next transmission can start; `None` while no packet waits.
    pub fn next_start(&self) -> Option<Time> {
        self.next_start
    }

    /// Starts the transmission that is due at `now`; `None` if all packets were dropped, or the
    /// wire loses this one.
    pub fn start(&mut self, now: Time) -> Option<Departure<T>> {
        debug_assert_eq!(self.next_start, Some(now), "no transmission is due");
        let head = match &mut self.discipline {
            Discipline::Codel(codel, fifo, control) => {
                control.dequeue(codel, now, fifo, &mut self.early)
            }
            Discipline::FqCodel(scheduler) => scheduler.dequeue(now, &mut self.early),
            Discipline::DualPi2(queues) => queues.dequeue(now, &mut self.early),
        };
        self.drop_early(Cause::Aqm);
        let departure = head.and_then(|head| self.transmit(now, head));
        self.plan(now);
        departure
    }

    /// The packets dropped since the last call.
    pub fn take_dropped(&mut self) -> impl Iterator<Item = (T, Cause)> {
        self.dropped.drain(..)
    }

    /// Whether packets were dropped since the last call of [`take_dropped`](Self::take_dropped).
    pub fn has_dropped(&self) -> bool {
        !self.dropped.is_empty()
    }

    /// The packets that wait.
    pub fn queue(&self) -> Backlog {
        match &self.discipline {
            Discipline::Codel(_, fifo, _) => fifo.backlog(),
            Discipline::FqCodel(scheduler) => scheduler.backlog(),
            Discipline::DualPi2(queues) => queues.backlog(),
        }
    }

    /// Totals from the creation of the link to `now`, which must not be earlier than at the last
    /// call. Packets are counted as accepted when their transmission starts.
    pub fn counters(&self, now: Time) -> Counters {
        let mut counters = self.counters.clone();
        let left = if self.loses_last {
            0
        } else {
            self.server.backlog(now)
        };
        counters.delivered = Attobits::from(counters.accepted.bytes) * ATTOBITS_PER_BYTE - left;
        counters
    }

    fn transmit(&mut self, now: Time, head: Waiting<T>) -> Option<Departure<T>> {
        let Some(transmission) = self.server.start(now, head.bytes, self.outages.next()) else {
            self.drop(head, Cause::Down);
            return None;
        };
        self.loses_last = self.wire.loses(transmission.end, &mut self.dice);
        if self.loses_last {
            self.drop(head, Cause::Random);
            return None;
        }
        let wait = transmission.start - head.arrived;
        self.counters
            .count_transmitted(head.bytes, wait, head.marked);
        Some(Departure {
            packet: head.packet,
            at: transmission.end + self.delay,
            marked: head.marked,
        })
    }

    /// Sets the time of the next start. If the link goes down before, all that waits is lost.
    fn plan(&mut self, now: Time) {
        let start = self.server.ready(now);
        if start >= self.outages.next() {
            self.drop_all();
        }
        self.next_start = (self.queue().packets > 0).then_some(start);
    }

    #[cold]
    fn drop_all(&mut self) {
        match &mut self.discipline {
            Discipline::Codel(_, fifo, _) => self.early.extend(std::iter::from_fn(|| fifo.pop())),
            Discipline::FqCodel(scheduler) => scheduler.drop_all(&mut self.early),
            Discipline::DualPi2(queues) => queues.drop_all(&mut self.early),
        }
        self.drop_early(Cause::Down);
    }

    fn drop_early(&mut self, cause: Cause) {
        for packet in self.early.drain(..) {
            self.counters.count_lost(packet.bytes, cause);
            self.dropped.push((packet.packet, cause));
        }
    }

    fn drop(&mut self, packet: Waiting<T>, cause: Cause) {
        self.counters.count_lost(packet.bytes, cause);
        self.dropped.push((packet.packet, cause));
    }
}
