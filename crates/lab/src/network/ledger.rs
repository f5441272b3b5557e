//! What became of a path's data, seen from the links: the sender is the kernel and does not say.

use std::collections::{BTreeMap, HashMap};

use anabranch_net::{Cause, Time};
use anabranch_scenario::recorder::PathTotals;
use anabranch_scenario::time::seconds;

use crate::network::packet::Segment;

/// Counts of one path, over all connections that use it. A segment is `sent`, then either `lost` or
/// `delivered`.
#[derive(Debug, Default)]
pub struct Ledger {
    totals: PathTotals,
    /// By the sender's port.
    streams: HashMap<u16, Stream>,
}

/// One connection's bytes. Sequence numbers are unfolded, so that they don't wrap.
#[derive(Debug)]
struct Stream {
    /// The first byte never sent.
    next: u64,
    /// What links dropped and has not arrived since: first byte to number of bytes.
    missing: BTreeMap<u64, u32>,
    loss: Option<LossEvent>,
}

/// Losses that the sender answers with one reduction of its window.
#[derive(Debug)]
struct LossEvent {
    /// The first byte lost.
    first: u64,
    /// What had been sent when the loss was repaired, as far as it has been: losses below this
    /// are part of the event (the "recovery point" of RFC 6675).
    until: Option<u64>,
}

/// Where a segment lies in its stream.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    port: u16,
    first: u64,
    bytes: u32,
    /// Whether these bytes were sent for the first time.
    fresh: bool,
}

impl Ledger {
    /// The counts so far.
    pub fn totals(&self) -> PathTotals {
        self.totals
    }

    /// A segment leaves the sender. `None` if it carries no data.
    pub fn sent(&mut self, segment: &Segment) -> Option<Place> {
        if segment.opens {
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
        let place = stream.send(segment);
        self.totals.sent_packets += 1;
        self.totals.retransmitted_packets += u64::from(!place.fresh);
        Some(place)
    }

    /// A link drops it.
    pub fn lost(&mut self, place: &Place, cause: Cause) {
        self.totals.lost[cause as usize] += 1;
        if let Some(stream) = self.streams.get_mut(&place.port) {
            self.totals.loss_events += u64::from(stream.lose(place));
        }
    }

    /// It reaches the receiver, `delay` after it left.
    pub fn delivered(&mut self, place: &Place, delay: Time) {
        let bytes = match self.streams.get_mut(&place.port) {
            Some(stream) if !place.fresh => stream.repair(place),
            _ => u64::from(place.bytes),
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
        }
    }

    fn send(&mut self, segment: &Segment) -> Place {
        let ahead = segment.sequence.wrapping_sub(self.next as u32) as i32;
        let first = self.next.wrapping_add_signed(i64::from(ahead));
        let fresh = ahead >= 0;
        let end = first + u64::from(segment.bytes);
        self.next = self.next.max(end);
        if let Some(loss) = &mut self.loss
            && (first..end).contains(&loss.first)
            && loss.until.is_none()
        {
            loss.until = Some(self.next);
        }
        Place {
            port: segment.port,
            first,
            bytes: segment.bytes,
            fresh,
        }
    }

    /// Whether this begins a new loss event.
    fn lose(&mut self, place: &Place) -> bool {
        self.missing.insert(place.first, place.bytes);
        let belongs = |loss: &LossEvent| loss.until.is_none_or(|until| place.first < until);
        if self.loss.as_ref().is_some_and(belongs) {
            return false;
        }
        self.loss = Some(LossEvent {
            first: place.first,
            until: None,
        });
        true
    }

    /// The bytes that a retransmission brings and that had not arrived before.
    fn repair(&mut self, place: &Place) -> u64 {
        let end = place.first + u64::from(place.bytes);
        let here: Vec<u64> = self
            .missing
            .range(place.first..end)
            .map(|(&first, _)| first)
            .collect();
        here.iter()
            .filter_map(|first| self.missing.remove(first))
            .map(u64::from)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments of 100 bytes on one connection: number 0 begins just before the numbers wrap.
    fn send(ledger: &mut Ledger, number: u32) -> Place {
        let segment = Segment {
            port: 9,
            sequence: (u32::MAX - 149).wrapping_add(number * 100),
            bytes: 100,
            opens: false,
        };
        ledger.sent(&segment).expect("it has data")
    }

    fn deliver(ledger: &mut Ledger, number: u32) {
        let place = send(ledger, number);
        ledger.delivered(&place, 2_000_000_000);
    }

    fn lose(ledger: &mut Ledger, number: u32) {
        let place = send(ledger, number);
        ledger.lost(&place, Cause::Overflow);
    }

    #[test]
    fn a_loss_that_is_repaired_counts_as_delivered_once() {
        let mut ledger = Ledger::default();
        deliver(&mut ledger, 0);
        lose(&mut ledger, 1);
        deliver(&mut ledger, 2);
        deliver(&mut ledger, 1);
        deliver(&mut ledger, 2); // sent again for nothing
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
        lose(&mut ledger, 1); // the repair is lost too; 4 is the first never sent by then
        deliver(&mut ledger, 1);
        deliver(&mut ledger, 3);
        assert_eq!(ledger.totals().loss_events, 1);
        lose(&mut ledger, 4);
        assert_eq!(ledger.totals().loss_events, 2);
    }

    #[test]
    fn a_connection_that_opens_forgets_the_one_before_it() {
        let mut ledger = Ledger::default();
        lose(&mut ledger, 5);
        let opening = Segment {
            port: 9,
            sequence: 1000,
            bytes: 0,
            opens: true,
        };
        assert!(ledger.sent(&opening).is_none());
        let first = Segment {
            sequence: 1001,
            bytes: 10,
            opens: false,
            ..opening
        };
        assert!(ledger.sent(&first).is_some_and(|place| place.fresh));
        assert_eq!(ledger.totals().retransmitted_packets, 0);
    }
}
