//! How long nothing has returned over a path, and what that means.

use std::time::Duration;

use anabranch_quic::controller::SharedController;
use noq::Connection;
use tokio::time::Instant;

use super::paths::{Entry, Open};
use crate::SILENCE;

/// A path is suspected of being dead after this long, and this many round trips, of silence.
const SUSPICION: Duration = Duration::from_millis(150);
const SUSPICIOUS_ROUND_TRIPS: f64 = 1.5;

/// The silence after which a path is dead has at least this many round trips.
const SILENT_ROUND_TRIPS: f64 = 3.0;

/// A path that answers probes while nothing is acknowledged on it for this long is opened anew: the
/// library sends what is lost rarely.
const STUCK: Duration = Duration::from_secs(1);

/// How often a path on which nothing is in flight is pinged, while the tunnel carries data, and
/// while it does not.
const PING: Duration = Duration::from_millis(100);
const IDLE_PING: Duration = Duration::from_secs(1);

/// A tunnel that carried nothing for this long is idle.
const IDLE: Duration = Duration::from_secs(5);

/// What pings and their acknowledgements take on a path in one [`PERIOD`](super::allowance::PERIOD)
/// at most, bytes.
const PING_BYTES: u64 = 400;

/// Time since something returned over a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Silence {
    /// Time without an acknowledgement of data sent over it.
    unacknowledged: Duration,
    /// Time without an acknowledgement or an answer to a probe.
    total: Duration,
    rtt: Duration,
}

impl Silence {
    /// How long nothing that was sent over this path has been acknowledged.
    pub fn of(open: &Open, controller: &SharedController, now: Instant) -> Silence {
        let since = open.report(controller).silent_since;
        let since = since.map_or(now, Instant::from_std);
        let silence = now.saturating_duration_since(since.max(open.since));
        Silence {
            unacknowledged: silence,
            total: silence,
            rtt: open.rtt(controller).unwrap_or_default(),
        }
    }

    /// The same with an answer to a probe.
    pub fn unless_answered(self, answer: Option<Instant>, now: Instant) -> Silence {
        let since_answer = answer.map(|at| now.saturating_duration_since(at));
        Silence {
            total: self.total.min(since_answer.unwrap_or(Duration::MAX)),
            ..self
        }
    }

    /// Whether a probe should show that the path works.
    pub fn needs_probe(self) -> bool {
        self.unacknowledged > self.suspicious()
    }

    /// Whether the path has not shown lately that it works.
    pub fn is_suspicious(self) -> bool {
        self.total > self.suspicious()
    }

    /// Whether the path is dead.
    pub fn is_death(self) -> bool {
        self.total > self.deadly(SILENCE)
    }

    /// Whether the path works, but not for the library.
    pub fn is_stuck(self) -> bool {
        !self.is_suspicious() && self.unacknowledged > self.deadly(STUCK)
    }

    fn suspicious(self) -> Duration {
        SUSPICION.max(self.rtt.mul_f64(SUSPICIOUS_ROUND_TRIPS))
    }

    fn deadly(self, least: Duration) -> Duration {
        least.max(self.rtt.mul_f64(SILENT_ROUND_TRIPS))
    }
}

/// Pings paths on which nothing is in flight, so that silence shows their death.
#[derive(Debug)]
pub(super) struct Pings {
    last: Instant,
    carried: u64,
    /// When the tunnel last carried data.
    active: Instant,
}

impl Pings {
    /// As if the tunnel had just carried data.
    pub fn new() -> Pings {
        let now = Instant::now();
        Pings {
            last: now,
            carried: 0,
            active: now,
        }
    }

    /// Sends the pings that are due.
    pub fn send(
        &mut self,
        entries: &[Entry],
        connection: &Connection,
        controller: &SharedController,
    ) {
        let now = Instant::now();
        let carried = entries.iter().map(Entry::carried).sum();
        if carried > self.carried + PING_BYTES * entries.len() as u64 {
            self.active = now;
        }
        self.carried = carried;
        let is_idle = now > self.active + IDLE;
        if now < self.last + if is_idle { IDLE_PING } else { PING } {
            return;
        }
        self.last = now;
        for open in entries.iter().filter_map(|entry| entry.open.as_ref()) {
            if open.report(controller).in_flight_bytes == 0
                && let Some(path) = connection.path(open.id)
            {
                // Fails if the library has closed it.
                let _ = path.ping();
            }
        }
    }
}
