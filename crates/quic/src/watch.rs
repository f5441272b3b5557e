//! Whether a path works: what was sent over it and what returned, without I/O and without a clock.
//!
//! A [`PathWatch`] is told what happens to its path, and asked from time to time what to do. While
//! the path is open silence is suspicious, and later deadly; a probe shows whether the path works
//! although nothing is acknowledged. While it is closed it is probed until it answers. Near and far
//! ends of the gateways' tunnels and the senders of the backend `quic` judge by it alike.
//!
//! ```
//! use std::time::{Duration, Instant};
//! use anabranch_quic::watch::{Advice, PathWatch};
//!
//! let start = Instant::now();
//! let after = |ms| start + Duration::from_millis(ms);
//! let mut watch = PathWatch::new(start);
//! watch.opened(start);
//! watch.heard(Some(start), Some(Duration::from_millis(20)));
//! assert_eq!(watch.advice(after(200), true), Some(Advice::Probe));
//! assert_eq!(watch.advice(after(501), true), Some(Advice::Close));
//! watch.closed(after(501));
//! assert_eq!(watch.advice(after(1001), true), Some(Advice::Probe));
//! watch.answered(after(1021), Duration::from_millis(20));
//! assert_eq!(watch.advice(after(1025), true), Some(Advice::Open));
//! ```

use std::time::{Duration, Instant};

/// A path is suspected of being dead after this long, and this many round trips, of silence.
const SUSPICION: Duration = Duration::from_millis(150);
const SUSPICIOUS_ROUND_TRIPS: f64 = 1.5;

/// A path is dead after this long, and this many round trips, of silence. The library sends what is
/// in flight on a dead path over another only when the path is abandoned, and abandons none.
pub const SILENCE: Duration = Duration::from_millis(500);
const SILENT_ROUND_TRIPS: f64 = 3.0;

/// A path that answers probes while nothing is acknowledged on it for this long is opened anew: the
/// library sends what is lost rarely.
const STUCK: Duration = Duration::from_secs(1);

/// How often a suspected path is probed.
const PROBE: Duration = Duration::from_millis(100);

/// How long after a path was closed it is probed, and how often.
const RETRY: Duration = Duration::from_millis(500);

/// What is to be done with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Probe it.
    Probe,
    /// Close it: it is dead, and another works.
    Close,
    /// Open it anew: it works, but not for what was sent over it.
    Renew,
    /// Open it: it has answered since it was closed.
    Open,
}

/// The state of one path.
#[derive(Clone, Copy, Debug)]
pub struct PathWatch {
    is_open: bool,
    /// When it was last opened or closed.
    since: Instant,
    /// Since when nothing that was sent over it has been acknowledged.
    silent_since: Option<Instant>,
    rtt: Duration,
    /// When the latest probe was answered, and its round-trip time.
    answer: Option<(Instant, Duration)>,
    next_probe: Instant,
}

impl PathWatch {
    /// A path that is not open yet.
    pub fn new(now: Instant) -> PathWatch {
        PathWatch {
            is_open: false,
            since: now,
            silent_since: None,
            rtt: Duration::ZERO,
            answer: None,
            next_probe: now,
        }
    }

    /// It was opened.
    pub fn opened(&mut self, now: Instant) {
        let next_probe = now;
        (self.is_open, self.since, self.next_probe) = (true, now, next_probe);
        (self.silent_since, self.rtt) = (None, Duration::ZERO);
    }

    /// It was closed.
    pub fn closed(&mut self, now: Instant) {
        (self.is_open, self.since, self.next_probe) = (false, now, now + RETRY);
        self.answer = None;
    }

    /// Since when nothing that was sent has been acknowledged, `None` while nothing is on its way;
    /// and the smoothed round-trip time.
    pub fn heard(&mut self, silent_since: Option<Instant>, rtt: Option<Duration>) {
        self.silent_since = silent_since;
        self.rtt = rtt.unwrap_or_default();
    }

    /// A probe was answered after this time.
    pub fn answered(&mut self, now: Instant, rtt: Duration) {
        self.answer = Some((now, rtt));
    }

    /// The round-trip time of the latest probe that was answered.
    pub fn answer_rtt(&self) -> Option<Duration> {
        self.answer.map(|(_, rtt)| rtt)
    }

    /// Whether it is closed, and should have answered.
    pub fn is_overdue(&self, now: Instant) -> bool {
        !self.is_open && now > self.since + 2 * RETRY
    }

    /// Whether it has shown lately that it works.
    pub fn works(&self, now: Instant) -> bool {
        self.is_open && self.silence(now) <= self.suspicious()
    }

    /// What to do now, if any path of the connection [works](Self::works). If none does, all stay
    /// open until one answers.
    pub fn advice(&mut self, now: Instant, any_works: bool) -> Option<Advice> {
        if !self.is_open {
            return match self.answer {
                Some(_) => Some(Advice::Open),
                None => self.probe(now, RETRY),
            };
        }
        let silence = self.silence(now);
        let unacknowledged = self.unacknowledged(now);
        if any_works && silence > self.deadly(SILENCE) {
            Some(Advice::Close)
        } else if silence <= self.suspicious() && unacknowledged > self.deadly(STUCK) {
            Some(Advice::Renew)
        } else if unacknowledged > self.suspicious() {
            self.probe(now, PROBE)
        } else {
            None
        }
    }

    fn probe(&mut self, now: Instant, pause: Duration) -> Option<Advice> {
        (now >= self.next_probe).then(|| {
            self.next_probe = now + pause;
            Advice::Probe
        })
    }

    /// Time without an acknowledgement.
    fn unacknowledged(&self, now: Instant) -> Duration {
        let since = self.silent_since.unwrap_or(now).max(self.since);
        now.saturating_duration_since(since)
    }

    /// Time without an acknowledgement or an answer.
    fn silence(&self, now: Instant) -> Duration {
        let since_answer = self.answer.map(|(at, _)| now.saturating_duration_since(at));
        self.unacknowledged(now)
            .min(since_answer.unwrap_or(Duration::MAX))
    }

    fn suspicious(&self) -> Duration {
        SUSPICION.max(self.rtt.mul_f64(SUSPICIOUS_ROUND_TRIPS))
    }

    fn deadly(&self, least: Duration) -> Duration {
        least.max(self.rtt.mul_f64(SILENT_ROUND_TRIPS))
    }
}
