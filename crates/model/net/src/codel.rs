//! CoDel, which drops when a packet leaves the queue (RFC 8289), and FQ-CoDel: flows take turns,
//! and CoDel controls the queue of each (RFC 8290).

use std::collections::VecDeque;

use crate::packet::{Backlog, Fifo, Waiting};
use crate::time::{MILLISECOND, Time};

/// A drop state that ended less than this many intervals ago is resumed (RFC 8289, section 5.6).
const RECENT_INTERVALS: Time = 16;

/// Parameters of CoDel.
#[derive(Clone, Debug, PartialEq)]
pub struct Codel {
    /// Acceptable standing delay of the queue, ps.
    pub target: Time,
    /// How long the delay must stay above the target before the first drop, ps: a worst-case RTT.
    pub interval: Time,
    /// Maximum number of waiting packets.
    pub limit_packets: u32,
    /// Mark packets that are ECN-capable instead of dropping them.
    pub ecn: bool,
}

impl Default for Codel {
    /// The values of RFC 8289, section 4.3 and 4.4, and the limit of Linux.
    fn default() -> Self {
        Codel {
            target: 5 * MILLISECOND,
            interval: 100 * MILLISECOND,
            limit_packets: 1000,
            ecn: true,
        }
    }
}

/// The state of CoDel for one queue; names and order of steps are those of RFC 8289, section 5.
#[derive(Clone, Debug, Default)]
pub(crate) struct Control {
    /// When the delay will have been above the target for an interval; `None` while it is below.
    first_above: Option<Time>,
    dropping: bool,
    drop_next: Time,
    count: u32,
    last_count: u32,
    /// The largest packet seen, bytes.
    max_packet: u32,
}

impl Control {
    /// Takes the next packet to be transmitted from `fifo`; what is dropped goes to `dropped`.
    pub(crate) fn dequeue<T>(
        &mut self,
        codel: &Codel,
        now: Time,
        fifo: &mut Fifo<T>,
        dropped: &mut Vec<Waiting<T>>,
    ) -> Option<Waiting<T>> {
        let (mut head, mut may_drop) = self.take(codel, now, fifo);
        if self.dropping {
            self.dropping = may_drop;
            while self.dropping && now >= self.drop_next {
                self.count += 1;
                if mark(codel, &mut head) {
                    self.drop_next = self.after(codel, self.drop_next);
                    break;
                }
                dropped.extend(head);
                (head, may_drop) = self.take(codel, now, fifo);
                self.dropping = may_drop;
                if may_drop {
                    self.drop_next = self.after(codel, self.drop_next);
                }
            }
        } else if may_drop {
            if !mark(codel, &mut head) {
                dropped.extend(head);
                (head, _) = self.take(codel, now, fifo);
            }
            self.begin_dropping(codel, now);
        }
        head
    }

    /// Enters the drop state, at the rate that controlled the queue if that was not long ago.
    fn begin_dropping(&mut self, codel: &Codel, now: Time) {
        self.dropping = true;
        let since_last = self.count - self.last_count;
        let recent = now.saturating_sub(self.drop_next) < RECENT_INTERVALS * codel.interval;
        self.count = if since_last > 1 && recent {
            since_last
        } else {
            1
        };
        self.last_count = self.count;
        self.drop_next = self.after(codel, now);
    }

    /// The control law: the next drop comes an interval over the square root of the drops later.
    fn after(&self, codel: &Codel, time: Time) -> Time {
        time + (codel.interval as f64 / f64::from(self.count).sqrt()) as Time
    }

    /// Takes the head of the queue, and whether its delay allows to drop it.
    fn take<T>(
        &mut self,
        codel: &Codel,
        now: Time,
        fifo: &mut Fifo<T>,
    ) -> (Option<Waiting<T>>, bool) {
        let Some(head) = fifo.pop() else {
            self.first_above = None;
            return (None, false);
        };
        self.max_packet = self.max_packet.max(head.bytes);
        let short = fifo.backlog().bytes <= u64::from(self.max_packet);
        if now - head.arrived < codel.target || short {
            self.first_above = None;
            return (Some(head), false);
        }
        let first_above = *self.first_above.get_or_insert(now + codel.interval);
        (Some(head), now >= first_above)
    }
}

/// Marks a packet, if it may be marked.
fn mark<T>(codel: &Codel, packet: &mut Option<Waiting<T>>) -> bool {
    match packet {
        Some(packet) if codel.ecn && packet.ecn_capable => {
            packet.marked = true;
            true
        }
        _ => false,
    }
}

// FQ-CoDel: flows take turns, and CoDel controls the queue of each (RFC 8290).

/// At most this many packets are dropped at once when the limit is exceeded (RFC 8290, section
/// 4.1).
const MOST_DROPPED: u32 = 64;

/// Parameters of FQ-CoDel.
#[derive(Clone, Debug, PartialEq)]
pub struct FqCodel {
    /// CoDel of each queue; its limit is that of all queues together.
    pub codel: Codel,
    /// Bytes that a queue may send before it is the next one's turn.
    pub quantum_bytes: u32,
    /// Number of queues, to which flows are hashed.
    pub flows: u32,
}

impl Default for FqCodel {
    /// The values of RFC 8290, section 5.2.
    fn default() -> Self {
        FqCodel {
            codel: Codel {
                limit_packets: 10_240,
                ..Codel::default()
            },
            quantum_bytes: 1514,
            flows: 1024,
        }
    }
}

/// The queue of the flows that are hashed to it.
#[derive(Clone, Debug)]
struct Queue<T> {
    fifo: Fifo<T>,
    control: Control,
    /// Bytes that it may still send in this turn.
    deficit: i64,
    /// Whether it is in one of the two lists.
    listed: bool,
}

/// A [`FqCodel`] and its queues.
#[derive(Clone, Debug)]
pub(crate) struct Scheduler<T> {
    config: FqCodel,
    queues: Vec<Queue<T>>,
    /// Queues that became active and have not used their first quantum, and the others.
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    backlog: Backlog,
    /// Makes the hash of this link differ from that of others.
    perturbation: u64,
}

impl<T> Scheduler<T> {
    pub(crate) fn new(config: FqCodel, perturbation: u64) -> Scheduler<T> {
        let empty = || Queue {
            fifo: Fifo::default(),
            control: Control::default(),
            deficit: 0,
            listed: false,
        };
        Scheduler {
            queues: (0..config.flows).map(|_| empty()).collect(),
            config,
            new: VecDeque::new(),
            old: VecDeque::new(),
            backlog: Backlog::default(),
            perturbation,
        }
    }

    pub(crate) fn backlog(&self) -> Backlog {
        self.backlog
    }

    /// Adds a packet of a flow. If there are too many, the longest queue loses its oldest.
    pub(crate) fn enqueue(&mut self, flow: u64, packet: Waiting<T>, dropped: &mut Vec<Waiting<T>>) {
        let number = (hash(flow ^ self.perturbation) % u64::from(self.config.flows)) as usize;
        let queue = &mut self.queues[number];
        self.backlog.packets += 1;
        self.backlog.bytes += u64::from(packet.bytes);
        queue.fifo.push(packet);
        if !queue.listed {
            queue.listed = true;
            queue.deficit = i64::from(self.config.quantum_bytes);
            self.new.push_back(number);
        }
        if self.backlog.packets > self.config.codel.limit_packets {
            self.shorten_longest(dropped);
        }
    }

    #[cold]
    fn shorten_longest(&mut self, dropped: &mut Vec<Waiting<T>>) {
        let bytes = |queue: &&mut Queue<T>| queue.fifo.backlog().bytes;
        let Some(longest) = self.queues.iter_mut().max_by_key(bytes) else {
            return;
        };
        let half = longest.fifo.backlog().packets / 2;
        let before = dropped.len();
        dropped.extend((0..half.clamp(1, MOST_DROPPED)).filter_map(|_| longest.fifo.pop()));
        self.forget(&dropped[before..]);
    }

    fn forget(&mut self, gone: &[Waiting<T>]) {
        self.backlog.packets -= gone.len() as u32;
        self.backlog.bytes -= gone.iter().map(|it| u64::from(it.bytes)).sum::<u64>();
    }

    /// Takes the next packet to be transmitted; what CoDel drops goes to `dropped`.
    pub(crate) fn dequeue(
        &mut self,
        now: Time,
        dropped: &mut Vec<Waiting<T>>,
    ) -> Option<Waiting<T>> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let number = *list.front()?;
            let queue = &mut self.queues[number];
            if queue.deficit <= 0 {
                queue.deficit += i64::from(self.config.quantum_bytes);
                list.pop_front();
                self.old.push_back(number);
                continue;
            }
            let before = dropped.len();
            let (codel, fifo) = (&self.config.codel, &mut queue.fifo);
            let taken = queue.control.dequeue(codel, now, fifo, dropped);
            self.forget(&dropped[before..]);
            if let Some(packet) = taken {
                self.queues[number].deficit -= i64::from(packet.bytes);
                self.forget(std::slice::from_ref(&packet));
                return Some(packet);
            }
            self.leave(number, is_new);
        }
    }

    /// Drops all that waits.
    pub(crate) fn drop_all(&mut self, dropped: &mut Vec<Waiting<T>>) {
        let before = dropped.len();
        for queue in &mut self.queues {
            dropped.extend(std::iter::from_fn(|| queue.fifo.pop()));
        }
        self.forget(&dropped[before..]);
    }

    /// An empty queue leaves its list. A new one is old first, so that a flow cannot stay new by
    /// sending one packet at a time (RFC 8290, section 4.2).
    fn leave(&mut self, number: usize, is_new: bool) {
        if is_new {
            self.new.pop_front();
        } else {
            self.old.pop_front();
        }
        if is_new && !self.old.is_empty() {
            self.old.push_back(number);
        } else {
            self.queues[number].listed = false;
        }
    }
}

/// Spreads flow numbers: the finalizer of SplitMix64 (Steele, Lea and Flood 2014).
fn hash(flow: u64) -> u64 {
    let mut x = flow.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
