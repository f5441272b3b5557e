//! Arrivals of data over the paths, by which the receiver suspects one of them.

use std::time::Duration;

use tokio::time::Instant;

/// Least data that arrives over a path between two observations while data flows, bytes.
const FLOW: u64 = 5_000;

/// Least time without an arrival that makes a path suspect, unless a round-trip time is longer: a
/// window may arrive at once.
const QUIET: Duration = Duration::from_millis(50);

/// Time after an arrival for which data flows.
const FLOWS: Duration = Duration::from_secs(1);

/// Arrivals over the paths, for suspicion by the receiver: the sender may be `far`, of whose
/// timeouts `near` knows nothing.
#[derive(Debug, Default)]
pub struct Arrivals(Vec<Arrival>);

#[derive(Clone, Copy, Debug, Default)]
struct Arrival {
    bytes: u64,
    /// Time without an arrival that makes the path suspect.
    quiet: Duration,
    /// Time at which data last flowed, since the path was last suspected.
    flowed: Option<Instant>,
}

impl Arrivals {
    /// Whether data has arrived lately.
    pub fn flow(&self, now: Instant) -> bool {
        let mut flowed = self.0.iter().filter_map(|arrival| arrival.flowed);
        flowed.any(|flowed| now < flowed + FLOWS)
    }

    /// Whether data arrives over a path, since it was last suspected.
    pub fn arrives(&self, path: usize) -> bool {
        self.0.get(path).is_some_and(|it| it.flowed.is_some())
    }

    /// Returns the paths over which arrivals have stopped although data flowed, and flowed longer
    /// over another one. Each is returned once, until data flows again. `paths` has the bytes
    /// received over each, and its smallest round-trip time, if it is known.
    pub fn observe(&mut self, paths: &[(u64, Option<Duration>)], now: Instant) -> Vec<usize> {
        self.0.resize(paths.len(), Arrival::default());
        for (arrival, (received, base_rtt)) in self.0.iter_mut().zip(paths) {
            // A path that is opened anew counts on.
            let more = received.saturating_sub(arrival.bytes);
            arrival.bytes = *received;
            arrival.quiet = base_rtt.map_or(QUIET, |base| base.max(QUIET));
            match arrival.flowed {
                _ if more >= FLOW => arrival.flowed = Some(now),
                Some(_) if more > 0 => arrival.flowed = Some(now),
                _ => {}
            }
        }
        let latest = self.0.iter().filter_map(|arrival| arrival.flowed).max();
        let is_late = |arrival: &Arrival| {
            let flowed = arrival.flowed?;
            (now >= flowed + arrival.quiet && latest > Some(flowed)).then_some(())
        };
        let late = |(index, arrival): (usize, &mut Arrival)| {
            is_late(arrival)?;
            arrival.flowed = None;
            Some(index)
        };
        self.0.iter_mut().enumerate().filter_map(late).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times, ms, at which paths are suspected, with their indices, if `arrives` gives the bytes
    /// that arrive over two paths in each 50 ms. The base RTT of the first, ms, is given.
    fn suspected_of(base_rtt: u64, arrives: impl Fn(u64) -> [u64; 2]) -> Vec<(u64, usize)> {
        let mut arrivals = Arrivals::default();
        let begin = Instant::now();
        let mut paths = [(0, Some(Duration::from_millis(base_rtt))), (0, None)];
        let mut suspected = Vec::new();
        for ms in (0..2000).step_by(50) {
            for ((received, _), more) in paths.iter_mut().zip(arrives(ms)) {
                *received += more;
            }
            let named = arrivals.observe(&paths, begin + Duration::from_millis(ms));
            suspected.extend(named.into_iter().map(|index| (ms, index)));
        }
        suspected
    }

    fn suspected_late(arrives: impl Fn(u64) -> [u64; 2]) -> Vec<(u64, usize)> {
        suspected_of(30, arrives)
    }

    #[test]
    fn a_path_is_suspected_once_if_data_flows_longer_over_another() {
        let until = |end: u64, ms: u64| if ms < end { FLOW } else { 0 };
        // The last data of path 0 arrives at 450 ms, and that of path 1 later.
        assert_eq!(
            suspected_late(|ms| [until(500, ms), until(700, ms)]),
            [(500, 0)]
        );
        assert_eq!(suspected_late(|ms| [until(500, ms), FLOW]), [(500, 0)]);
        assert_eq!(suspected_late(|ms| [FLOW, until(900, ms)]), [(900, 1)]);
        // The data has an end, or there was none.
        assert_eq!(suspected_late(|ms| [until(500, ms), until(500, ms)]), []);
        assert_eq!(suspected_late(|ms| [until(500, ms), 0]), []);
        assert_eq!(suspected_late(|_| [FLOW - 1, FLOW]), []);
        // It flows again, and stops again.
        let twice = |ms| [if ms / 500 % 2 == 0 { FLOW } else { 0 }, FLOW];
        assert_eq!(suspected_late(twice), [(500, 0), (1500, 0)]);
    }

    #[test]
    fn a_window_per_round_trip_is_no_reason() {
        let window = |ms| [if ms % 600 == 0 { FLOW } else { 0 }, FLOW];
        assert_eq!(suspected_of(600, window), []);
        assert_eq!(suspected_of(300, window)[0], (300, 0));
    }
}
