//! Limits of a path: its rate, its share of the tunnel's data, and the bound of its queue.

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

/// Bound of a path's queue while another path works.
///
/// A link with a long queue, which loss-based rules fill, holds up the streams of all paths: their
/// data waits for what is in this queue. Data in flight is therefore bounded by what the path
/// delivers in its smallest round-trip time and [`QUEUE`] (Little's law).
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

/// Most bytes by which a path with a weight below 1 may be ahead of its share.
const AHEAD: f64 = 65_536.0;

/// Credit, bytes, at which a path that had used up its share is used again.
const WORTHWHILE: f64 = 16_384.0;

/// Limits of a path: its rate, and its share of the bytes of all paths.
#[derive(Clone, Debug)]
pub(super) struct Share {
    pub weight: f64,
    /// Largest rate, bytes per second.
    pub rate: Option<f64>,
    /// Bytes that do not count, because they were sent while no path of weight 1 worked.
    free: f64,
    pub used_up: bool,
}

impl Share {
    /// Share with this configuration.
    pub fn new(weight: f64, rate_mbps: Option<f64>) -> Share {
        Share {
            weight,
            rate: rate_mbps.map(|rate| rate * 1e6 / 8.0),
            free: 0.0,
            used_up: false,
        }
    }

    /// Bytes that the path may send now, if it has sent `own` and the paths of weight 1 `full`.
    pub fn credit(&mut self, own: u64, full: u64) -> f64 {
        let credit = self.free + self.weight * full as f64 + AHEAD - own as f64;
        self.used_up = credit < if self.used_up { WORTHWHILE } else { 0.0 };
        credit
    }

    /// Suspends the limits: bytes sent meanwhile do not count later.
    pub fn pause(&mut self, own: u64, full: u64) {
        self.free = own as f64 - self.weight * full as f64;
        self.used_up = false;
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

    #[test]
    fn a_share_is_relative_to_the_paths_of_weight_1() {
        let mut share = Share::new(0.1, None);
        assert_eq!(share.credit(0, 0), AHEAD);
        // 0.1 x 10^6 + 65536 - 165536 = 0.
        assert_eq!(share.credit(165_536, 1_000_000), 0.0);
        assert!(!share.used_up);
        assert!(share.credit(165_537, 1_000_000) < 0.0 && share.used_up);
        // A little more does not make it worthwhile; 16384 / 0.1 bytes do.
        assert!(share.credit(165_537, 1_100_000) > 0.0 && share.used_up);
        share.credit(165_537, 1_170_000);
        assert!(!share.used_up);
        // While it was alone it sent 10^7 bytes, which do not count.
        share.pause(10_165_537, 1_170_000);
        assert!((share.credit(10_165_537, 1_170_000) - AHEAD).abs() < 1e-6);
    }
}
