//! Windows of a tunnel's streams: the data that the peer may send before it is read.
//!
//! A stream has [`FIRST`] whatever the others do. A window grows with what its reader takes, from a
//! budget of the tunnel. A stream that waits for data holds none and returns its part of the
//! budget; one that is not read keeps its part, and is reset if the budget is used up, its client
//! holds more of it than others, and no other stream of this client was stalled longer.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::time::Duration;

use tokio::time::Instant;

/// Window of a new stream, bytes. Both ends know it.
pub const FIRST: u64 = 64 << 10;

/// Largest window, bytes.
pub const LARGEST: u64 = 2 << 20;

/// Most data beyond what was read while earlier data is missing, bytes.
pub const FURTHEST: u64 = 16 << 20;

/// A window grows if an eighth of it was read within this time. It therefore holds one to two
/// seconds of a stream's rate: what is lost on one path delays the data of all.
const FAST: Duration = Duration::from_millis(250);

/// A window shrinks if an eighth of it was read in no less than this time, or nothing arrived.
const SLOW: Duration = Duration::from_secs(5);

/// Time for which a stream must be stalled before it is reset in favour of a window that grows.
const PATIENCE: Duration = Duration::from_secs(5);

/// This time while more than the budget is used, by streams that were idle.
const LITTLE_PATIENCE: Duration = Duration::from_secs(1);

/// Least data that must be read of a stream within these times, bytes.
const PROGRESS: u64 = 32 << 10;

/// Interval of the search for stalled streams.
const PERIOD: Duration = Duration::from_millis(500);

/// Windows of a tunnel.
#[derive(Debug)]
pub struct Windows {
    /// Bytes that all windows may have beyond their [`FIRST`].
    budget: u64,
    used: u64,
    /// Whether a window could not grow since streams were last reset.
    is_short: bool,
    looked: Option<Instant>,
    streams: HashMap<u64, Window>,
}

/// Progress of a reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// Bytes taken.
    pub taken: u64,
    /// Bytes that have arrived and wait for earlier data.
    pub ahead: u64,
    /// Whether nothing that has arrived is left, and the reader waits for more.
    pub waits: bool,
}

#[derive(Debug)]
struct Window {
    client: u64,
    size: u64,
    /// Position up to which the peer may send.
    limit: u64,
    /// Position up to which data was read.
    taken: u64,
    /// Time at which the limit was last raised.
    raised: Instant,
    /// Time and position of the reader's last progress.
    moved: (Instant, u64),
    waits: bool,
    is_idle: bool,
}

impl Windows {
    /// Windows of no streams, which may together grow by `budget` bytes.
    pub fn new(budget: u64) -> Windows {
        Windows {
            budget,
            used: 0,
            is_short: false,
            looked: None,
            streams: HashMap::new(),
        }
    }

    /// Changes the budget. Windows that exceed it together shrink as they are read.
    pub fn set_budget(&mut self, budget: u64) {
        self.budget = budget;
    }

    /// Adds a stream with a window of [`FIRST`] bytes.
    pub fn open(&mut self, id: u64, now: Instant) {
        self.streams.insert(id, Window::new(now));
    }

    /// Says whose stream this is.
    pub fn belongs_to(&mut self, id: u64, client: u64) {
        if let Some(window) = self.streams.get_mut(&id) {
            window.client = client;
        }
    }

    /// Removes a stream.
    pub fn close(&mut self, id: u64) {
        if let Some(window) = self.streams.remove(&id) {
            self.used -= window.share();
        }
    }

    /// Records a reader's progress. Returns the position up to which the peer may send, if it has
    /// grown.
    pub fn read(&mut self, id: u64, read: Read, now: Instant) -> Option<u64> {
        let window = self.streams.get_mut(&id)?;
        let others = self.used - window.share();
        let spare = self.budget.saturating_sub(others);
        window.read(read, now);
        let before = window.limit;
        self.is_short |= !window.raise(read.ahead, spare, now);
        self.used = others + window.share();
        (window.limit > before).then_some(window.limit)
    }

    /// Removes and returns the streams that are to be reset. Must be called at least every second.
    pub fn relieve(&mut self, now: Instant) -> Vec<u64> {
        let mut stalled = Vec::new();
        if self.looked.is_some_and(|then| now < then + PERIOD) {
            return stalled;
        }
        self.looked = Some(now);
        self.streams.values_mut().for_each(|it| it.rest(now));
        self.used = self.streams.values().map(Window::share).sum();
        while self.used > self.budget
            && let Some(id) = self.longest_stalled(now, LITTLE_PATIENCE)
        {
            self.close(id);
            stalled.push(id);
        }
        if std::mem::take(&mut self.is_short)
            && stalled.is_empty()
            && let Some(id) = self.longest_stalled(now, PATIENCE)
        {
            self.close(id);
            stalled.push(id);
        }
        stalled
    }

    fn longest_stalled(&self, now: Instant, patience: Duration) -> Option<u64> {
        let mut held: HashMap<u64, u64> = HashMap::new();
        for window in self.streams.values() {
            *held.entry(window.client).or_default() += window.share();
        }
        let most = held.values().max();
        let is_stalled = |it: &Window| {
            let is_of_most = held.get(&it.client) == most;
            is_of_most && !it.waits && it.share() > 0 && now >= it.moved.0 + patience
        };
        let stalled = self.streams.iter().filter(|(_, it)| is_stalled(it));
        let longest = stalled.min_by_key(|(id, it)| (it.moved.0, **id));
        longest.map(|(id, _)| *id)
    }
}

impl Window {
    fn new(now: Instant) -> Window {
        Window {
            client: 0,
            size: FIRST,
            limit: FIRST,
            taken: 0,
            raised: now,
            moved: (now, 0),
            waits: true,
            is_idle: false,
        }
    }

    /// Used part of the budget, bytes.
    fn share(&self) -> u64 {
        match self.is_idle {
            true => 0,
            false => self.size.max(self.limit - self.taken) - FIRST,
        }
    }

    fn read(&mut self, read: Read, now: Instant) {
        self.taken += read.taken;
        if self.waits || self.taken - self.moved.1 >= PROGRESS {
            self.moved = (now, self.taken);
        }
        self.waits = read.waits;
        self.is_idle &= read.taken == 0 && read.ahead == 0;
    }

    /// Raises the limit when an eighth of the window was used, by at most `spare` beyond [`FIRST`].
    /// Returns whether that is enough. A window that is raised so early grows faster than slow
    /// start.
    fn raise(&mut self, ahead: u64, spare: u64, now: Instant) -> bool {
        let left = (self.limit - self.taken).saturating_sub(ahead);
        if left > self.size / 8 * 7 {
            return true;
        }
        let wanted = match now.saturating_duration_since(self.raised) {
            time if time < FAST => (2 * self.size).min(LARGEST),
            time if time < SLOW => self.size,
            _ => FIRST,
        };
        let most = FIRST + spare;
        self.size = wanted.min(most);
        let limit = self.taken + (ahead + self.size).min(FURTHEST).min(most);
        if limit > self.limit {
            self.limit = limit;
            self.raised = now;
        }
        self.size == wanted
    }

    /// Shrinks the window if nothing arrives.
    fn rest(&mut self, now: Instant) {
        if self.waits && now >= self.raised + SLOW {
            self.size = FIRST;
            self.is_idle = true;
        }
    }
}

/// The error of the reader of a stream that was reset.
pub fn stalled() -> io::Error {
    let message = "it was not read, and limits.tunnel_buffer_bytes is used up";
    io::Error::new(ErrorKind::QuotaExceeded, message)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn take(taken: u64) -> Read {
        Read {
            taken,
            ..Read::default()
        }
    }

    /// Reads everything that the peer may send, again and again. Returns the last limit.
    fn grow(windows: &mut Windows, id: u64, times: usize, now: Instant) -> u64 {
        let mut limit = FIRST;
        let mut taken = 0;
        for _ in 0..times {
            let read = take(limit - taken);
            taken = limit;
            limit = windows.read(id, read, now).unwrap_or(limit);
        }
        limit - taken
    }

    #[test]
    fn a_window_grows_with_what_is_read_and_shrinks_when_that_is_slow() {
        let mut now = Instant::now();
        let mut windows = Windows::new(64 << 20);
        windows.open(1, now);
        assert_eq!(windows.read(1, take(FIRST / 8 - 1), now), None);
        assert_eq!(windows.read(1, take(1), now), Some(FIRST / 8 + 2 * FIRST));
        windows.close(1);
        windows.open(2, now);
        assert_eq!(grow(&mut windows, 2, 9, now), LARGEST);
        assert_eq!(windows.used, LARGEST - FIRST);
        // Half of the window in 6 s.
        now += 6 * SECOND;
        assert_eq!(windows.read(2, take(LARGEST / 2), now), None);
        windows.read(2, take(LARGEST / 2), now);
        assert_eq!(windows.used, 0);
    }

    #[test]
    fn data_that_waits_for_earlier_data_extends_the_limit() {
        let now = Instant::now();
        let mut windows = Windows::new(64 << 20);
        windows.open(1, now);
        let mut limit = FIRST;
        while let Some(raised) = {
            let ahead = limit - 1;
            windows.read(1, Read { ahead, ..take(0) }, now)
        } {
            limit = raised;
        }
        assert_eq!(limit, FURTHEST);
    }

    #[test]
    fn an_idle_stream_returns_its_part_and_a_stalled_one_is_reset() {
        let mut now = Instant::now();
        let mut windows = Windows::new(2 * LARGEST);
        for id in 1..4 {
            windows.open(id, now);
        }
        grow(&mut windows, 1, 9, now);
        grow(&mut windows, 2, 9, now);
        let waits = |windows: &mut Windows, id, now| {
            let read = Read {
                waits: true,
                ..Read::default()
            };
            windows.read(id, read, now)
        };
        waits(&mut windows, 1, now);
        now += 6 * SECOND;
        assert!(windows.relieve(now).is_empty());
        assert_eq!(windows.used, LARGEST - FIRST);
        // The third grows as long as there is budget; then the second is reset.
        grow(&mut windows, 3, 9, now);
        now += SECOND;
        assert!(windows.relieve(now).is_empty());
        grow(&mut windows, 1, 9, now);
        now += SECOND;
        assert_eq!(windows.relieve(now), [2]);
        assert!(windows.used <= windows.budget);
    }

    #[test]
    fn the_client_that_holds_most_gives_way() {
        let mut now = Instant::now();
        let mut windows = Windows::new(4 * LARGEST);
        for id in 0..6 {
            windows.open(id, now);
        }
        windows.belongs_to(0, 7);
        // Reads all that the fifth may have.
        let want = |windows: &mut Windows, now| {
            let fifth = &windows.streams[&5];
            let all = fifth.limit - fifth.taken;
            windows.read(5, take(all), now);
        };
        // Client 7 has paused a download. Another has four, of which it reads a little.
        grow(&mut windows, 0, 9, now);
        for id in 1..5 {
            grow(&mut windows, id, 9, now);
        }
        for _ in 0..4 {
            now += 2 * SECOND;
            for id in 1..5 {
                windows.read(id, take(PROGRESS), now);
            }
            // A fifth one finds no room.
            want(&mut windows, now);
            want(&mut windows, now);
            assert!(windows.is_short);
            assert!(windows.relieve(now).iter().all(|id| *id != 0));
        }
        assert!(windows.streams.contains_key(&0));
        // Once the other does not read, it loses a stream, although 0 was stalled longer.
        now += 6 * SECOND;
        want(&mut windows, now);
        want(&mut windows, now);
        let reset = windows.relieve(now);
        assert!(!reset.is_empty() && !reset.contains(&0), "{reset:?}");
    }

    proptest! {
        /// Whatever readers do, each stream may always send, and memory is bounded.
        #[test]
        fn no_stream_is_frozen_and_no_more_than_the_budget_is_given(
            steps in prop::collection::vec(
                (0_u64..8, 0..=FURTHEST, 0_u64..3, any::<bool>(), 0_u64..3_000),
                1..300,
            ),
        ) {
            let budget = 4 << 20;
            let mut now = Instant::now();
            let mut windows = Windows::new(budget);
            (0..8).for_each(|id| windows.open(id, now));
            for (id, most, ahead, waits, pause_ms) in steps {
                now += Duration::from_millis(pause_ms);
                for reset in windows.relieve(now) {
                    windows.open(reset, now);
                }
                let window = &windows.streams[&id];
                let sent = window.limit - window.taken;
                let taken = most.min(sent);
                let ahead = (sent - taken) * ahead / 3;
                let waits = waits && ahead == 0;
                let (limit, was_idle) = (window.limit, windows.streams.values().any(|it| it.is_idle));
                let used = windows.used;
                let raised = windows.read(id, Read { taken, ahead, waits }, now);
                let window = &windows.streams[&id];
                prop_assert!(raised.is_none_or(|raised| raised > limit && raised == window.limit));
                prop_assert!(window.limit - window.taken <= FURTHEST);
                prop_assert!(window.limit - window.taken - ahead >= FIRST / 2 || ahead > 0);
                prop_assert!(window.limit - window.taken >= FIRST / 2);
                let shares = windows.streams.values().map(Window::share).sum::<u64>();
                prop_assert_eq!(windows.used, shares);
                prop_assert!(was_idle || used > budget || shares <= budget);
            }
            now += 60 * SECOND;
            let _ = windows.relieve(now);
            prop_assert!(windows.used <= budget);
        }
    }
}
