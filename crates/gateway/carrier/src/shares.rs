//! Parts of a tunnel's clients in what it sends. Datagrams go before the data of streams; so while
//! either waits, a client's datagrams may go as long as some other client has had as much, or its
//! own streams (approximate fairness by dropping; Pan, Breslau, Prabhakar and Shenker 2003).

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Most bytes of datagrams that wait while another tunnel is free: a burst, but not the data that a
/// window holds back. A client with fewer in its streams has none in bulk.
const BURST: usize = 16 << 10;

/// Most bytes of datagrams that wait beside a client that has had less.
const MOST: usize = 64 << 10;

/// Time after which datagrams must not wait for a moment, so that data of streams that waits is
/// seen.
const LOOK: Duration = Duration::from_millis(50);

/// Time in which what a client has had counts e times less.
const MEMORY: Duration = Duration::from_secs(1);

/// Bytes below which a client has had nothing.
const NOTHING: f64 = 1.0;

/// Room for a client's datagram in a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramRoom {
    /// Nothing waits.
    Free,
    /// Others wait, who have had more.
    Share,
    /// It may wait, if no other tunnel is free.
    Wait,
    /// Others wait, who have had less.
    None,
    /// No path carries a datagram of this size.
    TooLarge,
}

/// Amounts that a tunnel's clients have had lately.
#[derive(Debug, Default)]
pub(crate) struct Shares(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Bytes, and their time, by client and kind.
    had: HashMap<(u64, Kind), (f64, Instant)>,
    /// Time at which no datagram waited last, and whether data of streams did then.
    seen: Option<(Instant, bool)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Datagrams,
    Streams,
}

impl Shares {
    /// Counts what a client sends.
    pub fn add(&self, client: u64, kind: Kind, bytes: usize) {
        let now = Instant::now();
        let mut state = self.0.lock();
        let (had, at) = state.had.entry((client, kind)).or_insert((0.0, now));
        *had = left((*had, *at), now) + bytes as f64;
        *at = now;
    }

    /// Whether a client's streams have carried more than a trickle.
    pub fn has_bulk(&self) -> bool {
        self.0.lock().has_bulk(Instant::now())
    }

    /// The room for a datagram of this client, if as many bytes of datagrams wait, and if
    /// something waits for a window at all: data of streams, if no datagram does.
    pub fn room(&self, client: u64, waiting_bytes: usize, something_waits: bool) -> DatagramRoom {
        let mut state = self.0.lock();
        let now = Instant::now();
        if waiting_bytes == 0 {
            state.seen = Some((now, something_waits));
        }
        state.had.retain(|_, had| left(*had, now) >= NOTHING);
        let may_wait =
            state.has_bulk(now) && state.seen.is_none_or(|(at, wait)| wait || now >= at + LOOK);
        if waiting_bytes < BURST && !may_wait {
            return DatagramRoom::Free;
        }
        let own = (client, Kind::Datagrams);
        let counts = |((client, kind), had): (&(u64, Kind), &(f64, Instant))| {
            let had = left(*had, now);
            let counts = match kind {
                Kind::Datagrams => *client != own.0,
                Kind::Streams => had >= BURST as f64,
            };
            counts.then_some(had)
        };
        let most = state.had.iter().filter_map(counts).reduce(f64::max);
        let own = state.had.get(&own).map_or(0.0, |had| left(*had, now));
        // The more waits, the less a client may have had.
        let queues = (waiting_bytes / BURST).max(1) as f64;
        match most {
            Some(most) if own * queues <= most => DatagramRoom::Share,
            Some(_) if may_wait || waiting_bytes >= MOST => DatagramRoom::None,
            _ => DatagramRoom::Wait,
        }
    }
}

impl State {
    fn has_bulk(&self, now: Instant) -> bool {
        let is_bulk = |((_, kind), had): (&(u64, Kind), &(f64, Instant))| {
            *kind == Kind::Streams && left(*had, now) >= BURST as f64
        };
        self.had.iter().any(is_bulk)
    }
}

/// Part of these bytes that counts now.
fn left((bytes, at): (f64, Instant), now: Instant) -> f64 {
    let age = now.saturating_duration_since(at);
    bytes * (-age.as_secs_f64() / MEMORY.as_secs_f64()).exp()
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_has_had_most_finds_no_room_while_others_wait() {
        let shares = Shares::default();
        let waits = MOST;
        assert_eq!(shares.room(1, 0, false), DatagramRoom::Free);
        shares.add(1, Kind::Datagrams, 100_000);
        assert_eq!(shares.room(1, waits, true), DatagramRoom::Wait);
        // Another one's first datagrams have room, and then the large one's none.
        assert_eq!(shares.room(2, waits, true), DatagramRoom::Share);
        shares.add(2, Kind::Datagrams, 100);
        assert_eq!(shares.room(1, waits, true), DatagramRoom::None);
        assert_eq!(shares.room(1, MOST - 1, true), DatagramRoom::Wait);
        assert_eq!(shares.room(1, BURST - 1, true), DatagramRoom::Free);
        // A stream that waits counts without datagrams that do, and until it waits no more.
        shares.add(3, Kind::Streams, 90_000);
        assert_eq!(shares.room(1, 0, true), DatagramRoom::None);
        assert_eq!(shares.room(1, BURST - 1, false), DatagramRoom::None);
        assert_eq!(shares.room(1, 0, false), DatagramRoom::Free);
        // Once datagrams have waited for long, it is not known whether a stream waits either.
        assert_eq!(shares.room(1, 1, true), DatagramRoom::Free);
        advance(LOOK).await;
        assert_eq!(shares.room(1, 1, true), DatagramRoom::None);
        shares.add(3, Kind::Streams, 20_000);
        assert_eq!(shares.room(1, 0, true), DatagramRoom::Share);
        // e^-12 of 110000 bytes is less than one.
        advance(12 * MEMORY).await;
        assert_eq!(shares.room(1, waits, true), DatagramRoom::Wait);
    }
}
