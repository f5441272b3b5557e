//! Whether a path works: what was sent over it and what returned, without I/O and without a clock.
//!
//! A [`PathWatch`] is told what happens to its path, and asked from time to time what to do. While
//! the path is open silence is suspicious, and later deadly; a probe shows whether the path works
//! although nothing is acknowledged. While it is closed it is probed until it answers. Near and far
//! ends of the gateways' tunnels and the senders of the backend `quic` judge by it alike.
//!
//! Data in flight on a dead path holds up all streams, and the library sends it again only three
//! PTOs after the path was closed, or once a later packet of the path is acknowledged. An end that
//! can send a path's packets over the network of another path therefore does so as soon as it
//! [leaves](Advice::Leave) a suspected path: then a later packet is acknowledged, and what was in
//! flight before is lost by the library's time threshold.
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

/// An end that received without a gap of this length for twice as long, and then nothing for this
/// long, probes the path: its peer may have nothing to send.
const GAP: Duration = Duration::from_millis(50);

/// Less than this in flight makes no queue and does not show whether a path works: an
/// acknowledgement may be late, because it returns over a queue that has just grown. A probe does.
const LITTLE: u64 = 16 << 10;

/// How often a path is probed that is doubtful for less than that time.
const DOUBT_PROBE: Duration = Duration::from_millis(25);

/// A path that answers later than this is not used while another works: it would hold up the
/// streams of all.
const LATE: Duration = Duration::from_secs(1);

/// A path that answered after it was left is left this much later the next time, up to the most.
const PATIENCE: Duration = Duration::from_millis(150);
const MOST_PATIENCE: Duration = Duration::from_millis(450);

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

/// Advice about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Probe it.
    Probe,
    /// Send its packets over the network of another path that works, if that is possible.
    Leave,
    /// Close it: it is dead, and another works.
    Close,
    /// Open it anew: it works, but not for what was sent over it.
    Renew,
    /// Open it: it has answered since it was closed.
    Open,
}

/// Load that an end's library carries over a path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Load {
    /// Since the path was opened.
    pub received_bytes: u64,
    /// Sent, and neither acknowledged nor lost.
    pub in_flight_bytes: u64,
    /// The shortest round-trip time.
    pub base_rtt: Duration,
}

/// Arrivals at an end over a path.
#[derive(Clone, Copy, Debug)]
struct Arrivals {
    bytes: u64,
    /// The latest, and the first after the latest gap.
    last: Instant,
    first: Instant,
}

impl Arrivals {
    fn new(now: Instant) -> Arrivals {
        Arrivals {
            bytes: 0,
            last: now,
            first: now,
        }
    }

    fn update(&mut self, now: Instant, bytes: u64) {
        if bytes > self.bytes {
            if now > self.last + GAP {
                self.first = now;
            }
            self.last = now;
        }
        self.bytes = bytes;
    }

    /// Whether they have stopped.
    fn have_stopped(&self, now: Instant) -> bool {
        self.last >= self.first + 2 * GAP && now >= self.last + GAP
    }
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
    load: Load,
    arrivals: Arrivals,
    /// Whether the other end suspects it.
    peer_suspects: bool,
    /// The first probe since it is doubted.
    doubted: Option<Instant>,
    /// Since when its packets go over the network of another path, and when it will be closed.
    left: Option<(Instant, Instant)>,
    /// How much later it is left.
    patience: Duration,
    /// Whether the other end leaves it before this one is to close it.
    is_led: bool,
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
            load: Load::default(),
            arrivals: Arrivals::new(now),
            peer_suspects: false,
            doubted: None,
            left: None,
            patience: Duration::ZERO,
            is_led: false,
            answer: None,
            next_probe: now,
        }
    }

    /// A path that the other end leaves once this one prefers others to it. Closed meanwhile, what
    /// is in flight would be sent again later; it is closed after twice the time.
    pub fn led(now: Instant) -> PathWatch {
        PathWatch {
            is_led: true,
            ..PathWatch::new(now)
        }
    }

    /// It was opened.
    pub fn opened(&mut self, now: Instant) {
        let patience = match self.has_answered_since_left() {
            true => MOST_PATIENCE.min(self.patience + PATIENCE),
            false => self.patience,
        };
        *self = PathWatch {
            is_open: true,
            answer: self.answer,
            is_led: self.is_led,
            patience,
            ..PathWatch::new(now)
        };
    }

    /// It was closed.
    pub fn closed(&mut self, now: Instant) {
        *self = PathWatch {
            next_probe: now + RETRY,
            is_led: self.is_led,
            ..PathWatch::new(now)
        };
    }

    /// Packets go over the network of another path from now on, whose round-trip time is `other`.
    /// The path is opened anew once it answers.
    pub fn leaves(&mut self, now: Instant, other: Duration) {
        let close = now + SILENCE.max(other.mul_f64(SILENT_ROUND_TRIPS));
        self.left = Some((now, close));
    }

    /// Whether packets go over the network of another path.
    pub fn is_left(&self) -> bool {
        self.left.is_some()
    }

    /// Since when nothing that was sent has been acknowledged, `None` while nothing is on its way;
    /// and the smoothed round-trip time.
    pub fn heard(&mut self, silent_since: Option<Instant>, rtt: Option<Duration>) {
        self.silent_since = silent_since;
        self.rtt = rtt.unwrap_or_default();
    }

    /// Takes the load of the path. An end that cannot probe does not report it.
    pub fn carries(&mut self, now: Instant, load: Load) {
        self.arrivals.update(now, load.received_bytes);
        self.load = load;
    }

    /// Whether the other end suspects it. An end that cannot probe does not say it.
    pub fn suspected(&mut self, by_peer: bool) {
        self.peer_suspects = by_peer;
    }

    /// A probe was answered after this time.
    pub fn answered(&mut self, now: Instant, rtt: Duration) {
        self.answer = Some((now, rtt));
        if rtt <= LATE {
            self.doubted = None;
            self.arrivals.first = now;
        }
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
        self.is_open && self.left.is_none() && self.silence(now) <= self.suspicious()
    }

    /// Whether it works, and nothing makes it doubtful.
    pub fn is_sound(&self, now: Instant) -> bool {
        self.works(now) && !self.peer_suspects && !self.arrivals.have_stopped(now)
    }

    /// Action that is due, if any path of the connection [works](Self::works). If none does, all
    /// stay
    /// open until one answers.
    pub fn advice(&mut self, now: Instant, any_works: bool) -> Option<Advice> {
        match self.left {
            _ if !self.is_open => self.advice_while_closed(now, any_works),
            Some(_) if self.has_answered_since_left() => Some(Advice::Renew),
            Some((_, close)) if any_works && now >= close => Some(Advice::Close),
            Some(_) => self.probe(now, PROBE),
            None => self.advice_while_open(now, any_works),
        }
    }

    fn advice_while_closed(&mut self, now: Instant, any_works: bool) -> Option<Advice> {
        match self.answer {
            Some((_, rtt)) if rtt <= LATE || !any_works => Some(Advice::Open),
            _ => self.probe(now, RETRY),
        }
    }

    fn advice_while_open(&mut self, now: Instant, any_works: bool) -> Option<Advice> {
        let silence = self.silence(now);
        let unacknowledged = self.unacknowledged(now);
        let is_dead = silence > self.deadly(SILENCE) * if self.is_led { 2 } else { 1 };
        if any_works && is_dead {
            Some(Advice::Close)
        } else if silence <= self.suspicious() && unacknowledged > self.deadly(STUCK) {
            Some(Advice::Renew)
        } else if any_works && self.is_to_be_left(now) {
            Some(Advice::Leave)
        } else if self.is_doubtful(now) {
            let is_silent = unacknowledged > self.suspicious();
            let probe = self.probe(now, if is_silent { PROBE } else { DOUBT_PROBE });
            self.doubted = self.doubted.or(probe.map(|_| now));
            probe
        } else {
            self.doubted = None;
            None
        }
    }

    fn is_doubtful(&self, now: Instant) -> bool {
        self.peer_suspects
            || self.arrivals.have_stopped(now)
            || self.unacknowledged(now) > self.suspicious()
    }

    /// Whether much is in flight, and nothing returns; or little is, and probes are not answered.
    fn is_to_be_left(&self, now: Instant) -> bool {
        let is_silent = self.silence(now) > self.suspicious() + self.patience;
        let probed = self.doubted.filter(|_| self.is_doubtful(now));
        self.is_loaded() && is_silent
            || probed.is_some_and(|first| now >= first + self.answering() + self.patience)
    }

    /// How long the path takes to answer a probe at most.
    fn answering(&self) -> Duration {
        let rtt = if self.is_loaded() {
            self.rtt
        } else {
            self.load.base_rtt
        };
        let answered = self.answer.map_or(Duration::ZERO, |(_, rtt)| rtt);
        GAP.max(rtt.max(answered).mul_f64(SUSPICIOUS_ROUND_TRIPS))
    }

    fn is_loaded(&self) -> bool {
        self.load.in_flight_bytes > LITTLE
    }

    fn has_answered_since_left(&self) -> bool {
        match (self.left, self.answer) {
            (Some((left, _)), Some((at, rtt))) => at > left && rtt <= LATE,
            _ => false,
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
        let answer = self.answer.filter(|(_, rtt)| *rtt <= LATE);
        let since_answer = answer.map(|(at, _)| now.saturating_duration_since(at));
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
