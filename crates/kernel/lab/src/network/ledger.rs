//! Counts a path's packets, retransmissions, losses and deliveries at the links, because the kernel
//! does not report them.

use std::collections::{BTreeMap, HashMap};
use std::mem;

use anabranch_net::{Cause, Time};
use anabranch_scenario::recorder::PathTotals;
use anabranch_scenario::time::seconds;

use crate::network::packet::Segment;

/// Counters of one path, over all connections that use it. A segment is `sent`, then either `lost`
/// or `delivered`.
#[derive(Debug, Default)]
pub struct Ledger {
    totals: PathTotals,
    /// Streams by source port.
    streams: HashMap<u16, Stream>,
}

/// The byte stream of one connection, with sequence numbers of 64 bits, which don't wrap.
#[derive(Debug)]
struct Stream {
    /// The next byte to be sent for the first time.
    next: u64,
    /// Ranges that links dropped and that have not arrived since: number of bytes by first byte.
    missing: BTreeMap<u64, u32>,
    loss: Option<LossEvent>,
    /// Whether a packet has arrived marked since the sender last said that it has reduced.
    is_marked: bool,
}

/// Losses to which the sender responds with one reduction of its window.
#[derive(Debug)]
struct LossEvent {
    /// The first byte lost.
    first: u64,
    /// The next byte to be sent when the first lost byte was retransmitted; losses below it are
    /// part of the event (RFC 6675). `None` before that.
    recovery_point: Option<u64>,
}

/// The bytes of a segment in their stream.
#[derive(Clone, Copy, Debug)]
pub struct SequenceRange {
    port: u16,
    first: u64,
    bytes: u32,
    /// Whether the bytes are sent for the first time.
    is_new: bool,
}

impl Ledger {
    /// The counters so far.
    pub fn totals(&self) -> PathTotals {
        self.totals
    }

    /// The sender sends a segment. Returns `None` if it has no payload.
    pub fn sent(&mut self, segment: &Segment) -> Option<SequenceRange> {
        if segment.is_syn {
            let stream = Stream::new(segment.sequence.wrapping_add(1));
            self.streams.insert(segment.port, stream);
        }
        if segment.bytes == 0 {
            return None;
        }
        let stream = self
            .streams
            .entry(segment.port)
            .or_insert_with(|| Stream::new(segment.sequence));
        let range = stream.send(segment);
        let answers = segment.has_reduced && mem::take(&mut stream.is_marked);
        self.totals.mark_events += u64::from(answers);
        self.totals.sent_packets += 1;
        self.totals.retransmitted_packets += u64::from(!range.is_new);
        Some(range)
    }

    /// A link drops a segment.
    pub fn lost(&mut self, range: &SequenceRange, cause: Cause) {
        self.totals.lost[cause as usize] += 1;
        if let Some(stream) = self.streams.get_mut(&range.port) {
            self.totals.loss_events += u64::from(stream.lose(range));
        }
    }

    /// A segment reaches the receiver, `delay` after it was sent.
    pub fn delivered(&mut self, range: &SequenceRange, delay: Time, is_marked: bool) {
        if is_marked {
            self.totals.marked_packets += 1;
            let stream = self.streams.get_mut(&range.port);
            stream
                .into_iter()
                .for_each(|stream| stream.is_marked = true);
        }
        let bytes = match self.streams.get_mut(&range.port) {
            Some(stream) if !range.is_new => stream.repair(range),
            _ => u64::from(range.bytes),
        };
        if bytes > 0 {
            self.totals.delivered_packets += 1;
            self.totals.delivered_bytes += bytes;
            self.totals.one_way_sum_s += seconds(delay);
        }
    }
}

impl Stream {
    fn new(sequence: u32) -> Stream {
        Stream {
            next: (1 << 32) + u64::from(sequence),
            missing: BTreeMap::new(),
            loss: None,
            is_marked: false,
        }
    }

    fn send(&mut self, segment: &Segment) -> SequenceRange {
        let ahead = segment.sequence.wrapping_sub(self.next as u32) as i32;
        let first = self.next.wrapping_add_signed(i64::from(ahead));
        let is_new = ahead >= 0;
        let end = first + u64::from(segment.bytes);
        self.next = self.next.max(end);
        if let Some(loss) = &mut self.loss
            && (first..end).contains(&loss.first)
            && loss.recovery_point.is_none()
        {
            loss.recovery_point = Some(self.next);
        }
        SequenceRange {
            port: segment.port,
            first,
            bytes: segment.bytes,
            is_new,
        }
    }

    /// Records a lost range. Returns whether it starts a new loss event.
    fn lose(&mut self, range: &SequenceRange) -> bool {
        self.missing.insert(range.first, range.bytes);
        let is_part = |loss: &LossEvent| {
            let point = loss.recovery_point;
            point.is_none_or(|point| range.first < point)
        };
        if self.loss.as_ref().is_some_and(is_part) {
            return false;
        }
        self.loss = Some(LossEvent {
            first: range.first,
            recovery_point: None,
        });
        true
    }

    /// Records the arrival of a retransmission. Returns how many of its bytes had not arrived
    /// before.
    fn repair(&mut self, range: &SequenceRange) -> u64 {
        let end = range.first + u64::from(range.bytes);
        let arrived: Vec<u64> = self
            .missing
            .range(range.first..end)
            .map(|(&first, _)| first)
            .collect();
        arrived
            .iter()
            .filter_map(|first| self.missing.remove(first))
            .map(u64::from)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A segment of 100 bytes; sequence numbers wrap soon after number 0.
    fn segment(number: u32) -> Segment {
        Segment {
            port: 9,
            sequence: (u32::MAX - 149).wrapping_add(number * 100),
            bytes: 100,
            is_syn: false,
            has_reduced: false,
        }
    }

    fn send(ledger: &mut Ledger, number: u32) -> SequenceRange {
        let segment = segment(number);
        ledger.sent(&segment).expect("the segment has payload")
    }

    fn deliver(ledger: &mut Ledger, number: u32) {
        let range = send(ledger, number);
        ledger.delivered(&range, 2_000_000_000, false);
    }

    fn lose(ledger: &mut Ledger, number: u32) {
        let range = send(ledger, number);
        ledger.lost(&range, Cause::Overflow);
    }

    #[test]
    fn a_retransmitted_loss_is_delivered_once() {
        let mut ledger = Ledger::default();
        deliver(&mut ledger, 0);
        lose(&mut ledger, 1);
        deliver(&mut ledger, 2);
        deliver(&mut ledger, 1);
        deliver(&mut ledger, 2); // spurious retransmission
        let totals = ledger.totals();
        assert_eq!((totals.sent_packets, totals.retransmitted_packets), (5, 2));
        assert_eq!((totals.delivered_packets, totals.delivered_bytes), (3, 300));
        assert_eq!(totals.lost_packets(), 1);
        assert!((totals.one_way_delay_ms() - 2.0).abs() < 1e-9);
    }

    #[test]
    fn losses_of_one_window_are_one_event() {
        let mut ledger = Ledger::default();
        deliver(&mut ledger, 0);
        lose(&mut ledger, 1);
        deliver(&mut ledger, 2);
        lose(&mut ledger, 3);
        lose(&mut ledger, 1); // the retransmission is lost too; the next new segment is 4
        deliver(&mut ledger, 1);
        deliver(&mut ledger, 3);
        assert_eq!(ledger.totals().loss_events, 1);
        lose(&mut ledger, 4);
        assert_eq!(ledger.totals().loss_events, 2);
    }

    /// The sender says with its first new packet that it has reduced; also after losses.
    #[test]
    fn the_marks_of_one_window_are_one_event() {
        let mut ledger = Ledger::default();
        for number in 0..3 {
            let range = send(&mut ledger, number);
            ledger.delivered(&range, 2_000_000_000, number > 0);
        }
        let totals = ledger.totals();
        assert_eq!((totals.marked_packets, totals.mark_events), (2, 0));
        for number in 3..5 {
            let reduced = Segment {
                has_reduced: true,
                ..segment(number)
            };
            ledger.sent(&reduced);
        }
        assert_eq!(ledger.totals().mark_events, 1);
    }

    #[test]
    fn a_syn_starts_a_new_stream() {
        let mut ledger = Ledger::default();
        lose(&mut ledger, 5);
        let syn = Segment {
            port: 9,
            sequence: 1000,
            bytes: 0,
            is_syn: true,
            has_reduced: false,
        };
        assert!(ledger.sent(&syn).is_none());
        let first = Segment {
            sequence: 1001,
            bytes: 10,
            is_syn: false,
            ..syn
        };
        assert!(ledger.sent(&first).is_some_and(|range| range.is_new));
        assert_eq!(ledger.totals().retransmitted_packets, 0);
    }
}
