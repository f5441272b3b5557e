//! CoDel, which drops when a packet leaves the queue (RFC 8289).

use crate::aqm::fifo::{Fifo, Waiting};
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
