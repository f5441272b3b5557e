//! FQ-CoDel: flows take turns, and CoDel controls the queue of each (RFC 8290).

use std::collections::VecDeque;

use crate::aqm::codel::{Codel, Control};
use crate::aqm::fifo::{Fifo, Waiting};
use crate::arrival::Backlog;
use crate::time::Time;

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
