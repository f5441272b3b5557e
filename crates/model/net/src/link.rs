//! A link: queue, transmitter, wire; and one that delays packets by different times.

use std::collections::VecDeque;
use std::ops::Range;

use crate::dice::Dice;
use crate::impairments::{Displacement, Impairments, Loss, Wire};
use crate::packet::{
    ATTOBITS_PER_BYTE, Arrival, Attobits, Backlog, Cause, Counters, Fate, Transmission,
};
use crate::queue::{Admission, Queue};
use crate::rate::{Rate, Server};
use crate::steps::Outages;
use crate::time::Time;

/// Parameters of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkConfig {
    /// Rate.
    pub rate: Rate,
    /// One-way propagation delay, ps: the smallest, if it changes.
    pub delay: Time,
    /// Delays beyond that, of an [`ImpairedLink`](crate::ImpairedLink).
    pub impairments: Impairments,
    /// Queueing discipline.
    pub queue: Queue,
    /// Losses on the wire.
    pub loss: Loss,
    /// When it is down: disjoint intervals `[from, to)` in increasing order, ps.
    pub down: Vec<(Time, Time)>,
}

impl LinkConfig {
    /// A link of constant rate that never fails, with an unlimited queue.
    pub fn constant(bits_per_second: f64, delay: Time) -> LinkConfig {
        LinkConfig {
            rate: Rate::Constant { bits_per_second },
            delay,
            impairments: Impairments::default(),
            queue: Queue::DropTail {
                packets: None,
                bytes: None,
            },
            loss: Loss::None,
            down: Vec::new(),
        }
    }

    /// The longest delay of a packet, without queues, ps.
    pub fn longest_delay(&self) -> Time {
        let repeated = match &self.loss {
            Loss::Repeated(arq) => Time::from(arq.retries) * arq.delay,
            _ => 0,
        };
        self.delay + self.impairments.longest() + repeated
    }

    /// Whether it is an [`ImpairedLink`](crate::ImpairedLink).
    pub fn is_impaired(&self) -> bool {
        self.impairments != Impairments::default() || matches!(self.loss, Loss::Repeated(_))
    }
}

/// One direction of a link: packets wait in a queue, are transmitted one after the other, and
/// travel for the propagation delay. Packets are delivered in the order in which they were offered.
///
/// While the link is down, arriving packets are lost. When it goes down, so are those that wait
/// and the one in transmission: all that have not been transmitted before that moment. Such a
/// packet is dropped when it is offered, so it never occupies the queue. Packets that
/// are propagating arrive. Service resumes when the link is up again.
///
/// All randomness comes from one generator per link (xoshiro256++), so the same configuration,
/// seed and offers give the same fates, bit by bit, on every machine.
#[derive(Clone, Debug)]
pub struct Link {
    delay: Time,
    server: Server,
    admission: Admission,
    wire: Wire,
    outages: Outages,
    dice: Dice,
    /// Transmission start and bytes of each packet accepted, in order. Those whose transmission
    /// has started are removed at the next call.
    waiting: VecDeque<(Time, u32)>,
    waiting_bytes: u64,
    /// The packets that the wire loses and that are not transmitted yet: places of their first and
    /// last bytes among all bytes let in.
    lost: VecDeque<Range<u64>>,
    counters: Counters,
    now: Time,
}

impl Link {
    /// An idle link at time 0.
    ///
    /// # Panics
    /// If a constant rate is not within 1 to 10^12 bit/s, a probability is not within [0, 1],
    /// RED's thresholds are out of order, the queue is that of a
    /// [`QueuedLink`](crate::QueuedLink), or down intervals are empty, overlap or are out of order:
    /// the caller checks user input.
    pub fn new(config: LinkConfig, seed: u64) -> Link {
        let mean_mbps = config.rate.mean_mbps();
        Link {
            delay: config.delay,
            server: Server::new(config.rate),
            admission: Admission::new(config.queue, mean_mbps),
            wire: Wire::new(config.loss),
            outages: Outages::new(config.down),
            dice: Dice::new(seed),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            lost: VecDeque::new(),
            counters: Counters::default(),
            now: 0,
        }
    }

    /// Offers one packet of `bytes` at `now`, which must not be earlier than at the last call, and
    /// returns its fate.
    #[inline]
    pub fn offer(&mut self, now: Time, bytes: u32) -> Fate {
        self.decide(now, bytes, false).0
    }

    /// As [`offer`](Self::offer), of a packet that may be marked instead of dropped (ECT, RFC
    /// 3168); returns also whether it is marked (CE).
    #[inline(never)]
    pub fn offer_ecn_capable(&mut self, now: Time, bytes: u32) -> (Fate, bool) {
        self.decide(now, bytes, true)
    }

    /// Inlined always: `offer` is on the path of every packet, and its packets are never marked.
    #[inline(always)]
    fn decide(&mut self, now: Time, bytes: u32, ecn_capable: bool) -> (Fate, bool) {
        match self.transmit(now, bytes, ecn_capable) {
            Ok((Transmission { start, end }, marked)) => {
                self.counters.count_arrived(bytes);
                self.counters.count_transmitted(bytes, start - now, marked);
                let at = end + self.delay;
                (Fate::Delivered { at }, marked)
            }
            Err(cause) => {
                self.counters.count_arrived(bytes);
                self.counters.count_lost(bytes, cause);
                if cause == Cause::Random {
                    self.count_lost(now, bytes);
                }
                (Fate::Dropped(cause), false)
            }
        }
    }

    /// How much retransmissions have delayed the last packet that got through, ps.
    pub(crate) fn repeated(&self) -> Time {
        self.wire.repeated()
    }

    /// The generator of all its randomness.
    pub(crate) fn dice(&mut self) -> &mut Dice {
        &mut self.dice
    }

    /// The packets that wait at `now`, which must not be earlier than at the last call.
    pub fn queue(&mut self, now: Time) -> Backlog {
        self.advance(now);
        Backlog {
            packets: self.waiting.len() as u32,
            bytes: self.waiting_bytes,
        }
    }

    /// Totals from the creation of the link to `now`, which must not be earlier than at the last
    /// call.
    pub fn counters(&mut self, now: Time) -> Counters {
        self.advance(now);
        let transmitted = self.transmitted(now);
        let lost = self.counters.dropped(Cause::Random).bytes;
        let left = |lost: &Range<u64>| attobits(lost.end) - transmitted.max(attobits(lost.start));
        self.forget_transmitted(now);
        let lost_until_now = attobits(lost) - self.lost.iter().map(left).sum::<Attobits>();
        let mut counters = self.counters.clone();
        counters.delivered = transmitted - lost_until_now;
        counters
    }

    /// Bytes of the packets let into the queue or the transmitter.
    fn let_in(&self) -> u64 {
        self.counters.accepted.bytes + self.counters.dropped(Cause::Random).bytes
    }

    /// Data transmitted, including data lost on the wire.
    fn transmitted(&self, now: Time) -> Attobits {
        attobits(self.let_in()) - self.server.backlog(now)
    }

    #[cold]
    fn count_lost(&mut self, now: Time, bytes: u32) {
        let end = self.let_in();
        self.lost.push_back(end - u64::from(bytes)..end);
        self.forget_transmitted(now);
    }

    fn forget_transmitted(&mut self, now: Time) {
        let transmitted = self.transmitted(now);
        while let Some(lost) = self.lost.front()
            && attobits(lost.end) <= transmitted
        {
            self.lost.pop_front();
        }
    }

    /// The packet's transmission, and whether the packet is marked.
    #[inline(always)]
    fn transmit(
        &mut self,
        now: Time,
        bytes: u32,
        ecn_capable: bool,
    ) -> Result<(Transmission, bool), Cause> {
        let backlog = self.queue(now);
        if self.outages.down_at(now) {
            return Err(Cause::Down);
        }
        let arrival = Arrival {
            now,
            bytes,
            ecn_capable,
            waits: self.server.waits(now),
            free_at: self.server.free_at(),
            backlog,
        };
        let marked = self.admission.admit(arrival, &mut self.dice)? && ecn_capable;
        let transmission = self
            .server
            .serve(now, bytes, self.outages.next())
            .ok_or(Cause::Down)?;
        self.waiting.push_back((transmission.start, bytes));
        self.waiting_bytes += u64::from(bytes);
        if self.wire.loses(transmission.end, &mut self.dice) {
            return Err(Cause::Random);
        }
        Ok((transmission, marked))
    }

    fn advance(&mut self, now: Time) {
        debug_assert!(
            now >= self.now,
            "time went back from {} to {now} ps",
            self.now
        );
        self.now = now;
        while let Some(&(start, bytes)) = self.waiting.front()
            && start <= now
        {
            self.waiting.pop_front();
            self.waiting_bytes -= u64::from(bytes);
        }
    }
}

fn attobits(bytes: u64) -> Attobits {
    Attobits::from(bytes) * ATTOBITS_PER_BYTE
}

// A link that delays packets by different times.

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
