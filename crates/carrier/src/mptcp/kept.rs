//! What is done about one path of `near`, without I/O, but for its endpoint.

use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

use super::endpoints::{self, Endpoint};

/// Time from a path's death to the first attempt to open it, and between attempts.
const ATTEMPT: Duration = Duration::from_secs(3);

/// How much later than after twice the smallest round-trip time an answer may come: a queue.
const QUEUE: Duration = Duration::from_millis(300);

/// The longest round-trip time of a path of which none is known.
const UNKNOWN: Duration = Duration::from_secs(1);

/// Pauses between probes of a path that has not answered for a while, or was closed: the first, and
/// doubled up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LAST_PAUSE: Duration = Duration::from_secs(2);

/// How long a path is probed without pauses.
const EAGER: Duration = Duration::from_secs(5);

/// After this time a path that answers within `LONGEST` is used again: it has become a longer one.
const LONGER: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(5);

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Do {
    /// Add the endpoint.
    Add,
    /// Remove the endpoint of an earlier address.
    Forget,
    /// See whether `far` answers over the path within this time.
    Probe(Duration),
    /// Remove the endpoint: the path is not used.
    Close,
    /// Remove the endpoint and add it: the path is opened anew.
    Renew,
}

/// What is known of a path.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// The address, if there is one now.
    pub address: Option<IpAddr>,
    /// Whether it is dead, or was not opened.
    pub is_missing: bool,
    /// Whether it may be dead, or late.
    pub is_suspected: bool,
    /// Whether others work.
    pub others_work: bool,
    /// The smallest round-trip time.
    pub base_rtt: Option<Duration>,
    /// How many segments have arrived over it.
    pub segments: u64,
}

/// A path.
#[derive(Debug)]
pub struct Kept {
    /// Whether it is to be kept open.
    pub is_used: bool,
    endpoint: Option<Endpoint>,
    state: State,
    tried_at: Instant,
    /// A failure was logged.
    complained: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Used,
    Doubted(Doubt),
}

/// A path that is probed.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Doubt {
    since: Instant,
    /// How many segments had arrived then.
    segments: u64,
    /// Whether the path is closed.
    is_closed: bool,
    probe: Probe,
    pause: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Probe {
    /// The next one begins at this time.
    Next(Instant),
    /// One is under way; whether segments arrived before it began.
    Sent(bool),
    /// Whether it was answered in time; and segments arrived before.
    Ended(bool, bool),
}

impl Kept {
    /// One that has no endpoint yet.
    pub fn new(is_used: bool) -> Kept {
        Kept {
            is_used,
            endpoint: None,
            state: State::Used,
            tried_at: Instant::now(),
            complained: false,
        }
    }

    /// The probe was answered in time, or not.
    pub fn probed(&mut self, answered: bool) {
        if let State::Doubted(doubt) = &mut self.state
            && let Probe::Sent(arrived) = doubt.probe
        {
            doubt.probe = Probe::Ended(answered, arrived);
        }
    }

    /// What is to be done now.
    pub fn decide(&mut self, known: &Known, now: Instant) -> Option<Do> {
        let address = known.address.filter(|_| self.is_used)?;
        match &self.endpoint {
            None => return Some(Do::Add),
            Some(endpoint) if endpoint.address() != address => return Some(Do::Forget),
            Some(_) => {}
        }
        self.transition(known, now)
    }

    fn transition(&mut self, known: &Known, now: Instant) -> Option<Do> {
        if !known.is_missing {
            self.tried_at = now;
        }
        let is_closed = matches!(self.state, State::Doubted(doubt) if doubt.is_closed);
        if !is_closed && now >= self.tried_at + ATTEMPT {
            self.tried_at = now;
            return Some(Do::Renew);
        }
        let mut doubt = match self.state {
            State::Doubted(doubt) => doubt,
            State::Used if known.is_suspected => Doubt {
                since: now,
                segments: known.segments,
                is_closed: false,
                probe: Probe::Next(now),
                pause: FIRST_PAUSE,
            },
            State::Used => return None,
        };
        let action = doubt.transition(known, now);
        let trusts = matches!(doubt.probe, Probe::Ended(true, _));
        self.state = if trusts {
            State::Used
        } else {
            State::Doubted(doubt)
        };
        if action == Some(Do::Renew) {
            self.tried_at = now;
        }
        action
    }

    /// Does it; `further` paths beyond the first may be opened. The endpoint has this address,
    /// interface and role. Waits for processes.
    pub fn act(
        &mut self,
        action: Do,
        further: usize,
        (address, interface, backup): (Option<IpAddr>, Option<String>, bool),
    ) {
        let done = match (action, &mut self.endpoint) {
            (Do::Add, _) => {
                let Some(address) = address else { return };
                let raised = endpoints::raise_limit(further);
                let added =
                    raised.and_then(|()| Endpoint::add(address, interface.as_deref(), backup));
                added.map(|endpoint| self.endpoint = Some(endpoint))
            }
            (Do::Forget, endpoint) => {
                *endpoint = None;
                self.state = State::Used;
                Ok(())
            }
            (Do::Close, Some(endpoint)) => endpoint.close(),
            (Do::Renew, Some(endpoint)) => endpoint.renew(),
            (Do::Probe(_), _) | (_, None) => Ok(()),
        };
        match done {
            Ok(()) => self.complained = false,
            Err(_) if self.complained => {}
            Err(error) => {
                self.complained = true;
                tracing::warn!("{error:#}: the kernel opens only paths that have an endpoint");
            }
        }
    }
}

impl Doubt {
    fn transition(&mut self, known: &Known, now: Instant) -> Option<Do> {
        let is_longer = self.is_closed && now >= self.since + LONGER;
        match self.probe {
            Probe::Next(at) if now >= at => {
                self.probe = Probe::Sent(known.segments != self.segments);
                Some(Do::Probe(if is_longer { LONGEST } else { longest(known) }))
            }
            Probe::Next(_) | Probe::Sent(_) => None,
            Probe::Ended(true, _) => self.is_closed.then_some(Do::Renew),
            // What arrives is late: the probe began after the path had come back.
            Probe::Ended(false, true) if !self.is_closed && known.others_work => {
                (self.is_closed, self.since) = (true, now);
                self.probe = Probe::Next(now + self.pause);
                Some(Do::Close)
            }
            // It is dead, as far as is known, which is the kernel's concern.
            Probe::Ended(false, _) => {
                let mut at = now;
                if self.is_closed || now >= self.since + EAGER {
                    self.pause = (2 * self.pause).min(LAST_PAUSE);
                    at += self.pause;
                }
                self.probe = Probe::Next(at);
                None
            }
        }
    }
}

/// The longest time after which an answer is not late.
fn longest(known: &Known) -> Duration {
    known.base_rtt.map_or(UNKNOWN, |base| 2 * base + QUEUE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    /// Twice the smallest round-trip time of 30 ms, and a queue.
    const PROBE: Option<Do> = Some(Do::Probe(Duration::from_millis(360)));

    fn known() -> Known {
        Known {
            address: None,
            is_missing: false,
            is_suspected: false,
            others_work: true,
            base_rtt: Some(30 * MS),
            segments: 7,
        }
    }

    fn suspected() -> Known {
        Known {
            is_suspected: true,
            ..known()
        }
    }

    /// Late segments arrive.
    fn late() -> Known {
        Known {
            segments: 8,
            ..known()
        }
    }

    /// A path that was suspected, and whose probe was not answered in time.
    fn doubted(now: Instant) -> Kept {
        let mut kept = Kept::new(true);
        assert_eq!(kept.transition(&known(), now), None);
        assert_eq!(kept.transition(&suspected(), now), PROBE);
        assert_eq!(kept.transition(&suspected(), now), None);
        kept.probed(false);
        assert_eq!(kept.transition(&suspected(), now), None);
        kept
    }

    /// One that was closed at this time.
    fn closed(now: Instant) -> Kept {
        let mut kept = doubted(now);
        assert_eq!(kept.transition(&late(), now), PROBE);
        kept.probed(false);
        assert_eq!(kept.transition(&late(), now), Some(Do::Close));
        kept
    }

    #[test]
    fn a_path_that_delivers_late_is_closed_until_it_answers_in_time() {
        let begin = Instant::now();
        let mut kept = closed(begin);
        // Half a second, one, and then two between probes.
        for at in [500, 1500, 3500, 5500] {
            assert_eq!(kept.transition(&known(), begin + (at - 1) * MS), None);
            let now = begin + at * MS;
            assert_eq!(kept.transition(&known(), now), PROBE);
            kept.probed(at == 5500);
            let opened = (at == 5500).then_some(Do::Renew);
            assert_eq!(kept.transition(&known(), now), opened);
        }
        assert_eq!(kept.transition(&known(), begin + 9000 * MS), None);
    }

    /// Segments arrive while a probe waits that was sent before.
    #[test]
    fn a_path_that_was_dead_and_returns_is_not_closed() {
        let now = Instant::now();
        let mut kept = doubted(now);
        assert_eq!(kept.transition(&known(), now), PROBE);
        kept.probed(false);
        assert_eq!(kept.transition(&late(), now), None);
        assert_eq!(kept.transition(&late(), now), PROBE);
        kept.probed(true);
        assert_eq!(kept.transition(&late(), now), None);
        assert_eq!(kept.state, State::Used);
    }

    #[test]
    fn a_dead_path_is_opened_anew_every_three_seconds() {
        let begin = Instant::now();
        let missing = Known {
            is_missing: true,
            ..known()
        };
        let mut kept = doubted(begin);
        let mut probes = 0;
        let mut renewed = Vec::new();
        for at in 0..100 {
            match kept.transition(&missing, begin + 100 * at * MS) {
                Some(Do::Renew) => renewed.push(at),
                Some(Do::Probe(_)) => probes += 1,
                Some(other) => panic!("{other:?}"),
                None => kept.probed(false),
            }
        }
        assert_eq!(renewed, [30, 60, 90]);
        // 5 s without pauses, here one in 300 ms; then pauses of 1 and 2 s.
        assert!((15..25).contains(&probes), "{probes}");
    }

    #[test]
    fn the_only_path_that_works_is_not_closed() {
        let now = Instant::now();
        let alone = Known {
            others_work: false,
            ..late()
        };
        let mut kept = doubted(now);
        for _ in 0..3 {
            assert_eq!(kept.transition(&alone, now), PROBE);
            kept.probed(false);
            assert_eq!(kept.transition(&alone, now), None);
        }
    }

    #[test]
    fn a_path_that_stays_late_is_used_after_a_minute() {
        let begin = Instant::now();
        let mut kept = closed(begin);
        let mut now = begin;
        let opened = loop {
            now += 100 * MS;
            match kept.transition(&known(), now) {
                Some(Do::Probe(patience)) => kept.probed(patience >= 800 * MS),
                Some(action) => break action,
                None => {}
            }
        };
        assert_eq!(opened, Do::Renew);
        let after = now - begin;
        assert!(after >= LONGER && after <= LONGER + LAST_PAUSE + 300 * MS);
    }
}
