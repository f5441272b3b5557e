//! Bound of a path's queue while another path works.
//!
//! A link with a long queue, which loss-based rules fill, holds up the streams of all paths: their
//! data waits for what is in this queue. Data in flight is therefore bounded by what the path
//! delivers in its smallest round-trip time and [`QUEUE`] (Little's law).

use std::time::{Duration, Instant};

/// Longest queue, as a delay. A link with a usual queue of 100 ms is not bounded.
const QUEUE: Duration = Duration::from_millis(125);

/// Least bound, bytes: a path beside others in the same queue keeps a share.
const LEAST: u64 = 64 << 10;

/// Factor by which the bound grows in a round trip while the queue is shorter.
const GROWTH: f64 = 1.25;

/// Data in flight over a path, with its round-trip times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub bytes: u64,
    pub rtt: Duration,
    pub base_rtt: Duration,
}

/// Bound of one path.
#[derive(Debug, Default)]
pub(super) struct DelayBound {
    bytes: Option<u64>,
    /// Time from which on the round-trip time shows the last change.
    next: Option<Instant>,
}

impl DelayBound {
    /// Bytes that may be in flight now.
    pub fn allowed(&mut self, flight: Flight, now: Instant) -> u64 {
        if self.next.is_none_or(|next| now >= next) {
            self.next = Some(now + flight.rtt);
            let longest = flight.base_rtt + QUEUE;
            let ratio = longest.as_secs_f64() / flight.rtt.as_secs_f64().max(1e-6);
            self.bytes = match self.bytes {
                _ if ratio < 1.0 => Some(((flight.bytes as f64 * ratio) as u64).max(LEAST)),
                // The bound limits no more.
                Some(bytes) if flight.bytes < bytes / 2 => None,
                bytes => bytes.map(|bytes| (bytes as f64 * ratio.min(GROWTH)) as u64),
            };
        }
        self.bytes.unwrap_or(u64::MAX)
    }

    /// Lifts the bound, because no other path works.
    pub fn lift(&mut self) {
        *self = DelayBound::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Queue and allowance after this time, over a link of 1.5 MB/s, 70 ms and a queue without end,
    /// of a sender that fills what it may.
    fn queue_after(seconds: u32, window: u64) -> (Duration, u64) {
        const RATE: f64 = 1.5e6;
        let base_rtt = Duration::from_millis(70);
        let mut now = Instant::now();
        let mut bound = DelayBound::default();
        let mut flight = Flight {
            bytes: window,
            rtt: base_rtt,
            base_rtt,
        };
        for _ in 0..seconds * 40 {
            now += Duration::from_millis(25);
            let allowed = bound.allowed(flight, now);
            flight.bytes = window.min(allowed);
            flight.rtt = base_rtt.max(Duration::from_secs_f64(flight.bytes as f64 / RATE));
        }
        (flight.rtt - base_rtt, bound.allowed(flight, now))
    }

    #[test]
    fn a_queue_of_two_seconds_shrinks_to_an_eighth_of_one() {
        let (queue, _) = queue_after(10, 3_000_000);
        let expected = 0.9 * QUEUE.as_secs_f64()..1.1 * QUEUE.as_secs_f64();
        assert!(expected.contains(&queue.as_secs_f64()), "{queue:?}");
    }

    #[test]
    fn a_window_that_makes_a_short_queue_is_not_bounded() {
        // 0.16 s in flight: 90 ms of queue.
        let (queue, allowed) = queue_after(10, 240_000);
        assert_eq!((queue, allowed), (Duration::from_millis(90), u64::MAX));
    }

    #[test]
    fn a_path_in_the_queue_of_others_keeps_the_least() {
        let now = Instant::now();
        let mut bound = DelayBound::default();
        let flight = Flight {
            bytes: LEAST,
            rtt: Duration::from_secs(2),
            base_rtt: Duration::from_millis(70),
        };
        assert_eq!(bound.allowed(flight, now), LEAST);
        bound.lift();
        assert_eq!(bound.bytes, None);
    }
}
