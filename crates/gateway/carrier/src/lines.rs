//! Lines in the log that somebody else causes.

use std::time::Duration;

use tokio::time::Instant;

/// Lines about one cause in the log: at most a burst at once, and then one in each interval.
#[derive(Clone, Debug)]
pub struct Lines {
    burst: u32,
    interval: Duration,
    /// Time from which on the whole burst may be logged again.
    full_at: Option<Instant>,
    unlogged: u64,
}

impl Lines {
    /// This many at once, and then one in each interval.
    pub fn new(burst: u32, interval: Duration) -> Lines {
        Lines {
            burst,
            interval,
            full_at: None,
            unlogged: 0,
        }
    }

    /// Lines about what a peer with a key does.
    pub fn of_peer() -> Lines {
        Lines::new(32, Duration::from_secs(10))
    }

    /// Counts a line. Returns the number that were not logged before it, if it is to be logged.
    pub fn count(&mut self, now: Instant) -> Option<u64> {
        let full_at = self.full_at.map_or(now, |at| at.max(now)) + self.interval;
        if full_at > now + self.burst * self.interval {
            self.unlogged += 1;
            return None;
        }
        self.full_at = Some(full_at);
        Some(std::mem::take(&mut self.unlogged))
    }
}

/// One line a minute.
impl Default for Lines {
    fn default() -> Lines {
        Lines::new(1, Duration::from_secs(60))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_logged_and_then_a_line_in_each_interval_with_the_number_of_others() {
        let start = Instant::now();
        let mut lines = Lines::of_peer();
        // 4300 a second for 12 s, as in a log that was filled: 32 at once, and the one after 10 s.
        let logged =
            (0..52_000_u32).filter_map(|i| lines.count(start + i * Duration::from_micros(230)));
        let logged: Vec<u64> = logged.collect();
        assert_eq!(logged.len(), 33);
        let others: u64 = logged.iter().sum();
        assert_eq!(33 + others + lines.unlogged, 52_000);
        let mut minute = Lines::default();
        assert_eq!(minute.count(start), Some(0));
        assert_eq!(minute.count(start + Duration::from_secs(59)), None);
        assert_eq!(minute.count(start + Duration::from_secs(60)), Some(1));
    }
}
