//! Path of `near` with its endpoint: when it is probed, closed, and opened anew. Decisions are made
//! without I/O and clock.

use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

use super::endpoints::{self, Endpoint};

/// Time from a path's death to the first attempt to open it, and between attempts.
const ATTEMPT: Duration = Duration::from_secs(3);

/// Queueing delay that a path in use may have beyond one and a half times its smallest round-trip
/// time. The path is closed before `far`'s kernel sends its data again over others (two timeouts,
/// each 200 ms more than a round trip in Linux): both would send it twice.
const QUEUE: Duration = Duration::from_millis(100);

/// Queueing delay that a closed path may have beyond twice its smallest round-trip time.
const OTHERS_QUEUE: Duration = Duration::from_millis(300);

/// Longest round-trip time of a path whose smallest one is unknown.
const UNKNOWN: Duration = Duration::from_secs(1);

/// Pause after the first probe of a path, doubled after each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// Longest pause between probes.
const LAST_PAUSE: Duration = Duration::from_secs(2);

/// Time for which the pause does not double.
const EAGER: Duration = Duration::from_secs(5);

/// Time after which a path that answers within `LONGEST` is used again: it has become a longer one.
const LONGER: Duration = Duration::from_secs(60);

/// Round-trip time that is accepted after `LONGER`.
const LONGEST: Duration = Duration::from_secs(5);

/// Action on a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Do {
    /// Adds the endpoint.
    Add,
    /// Removes the endpoint of an earlier address.
    Forget,
    /// Probes whether `far` answers over the path within this time.
    Probe(Duration),
    /// Removes the endpoint: the path is not used.
    Close,
    /// Removes the endpoint and adds it: the path is opened anew.
    Renew,
}

/// Observed state of a path.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Present address, if there is one.
    pub address: Option<IpAddr>,
    /// Whether the path is dead, or was not opened.
    pub is_missing: bool,
    /// Whether the path may be dead, or late.
    pub is_suspected: bool,
    /// Whether data arrives over the path, since it was last suspected.
    pub arrives: bool,
    /// Whether other paths work.
    pub others_work: bool,
    /// Smallest round-trip time.
    pub base_rtt: Option<Duration>,
}

/// A path whose endpoint is maintained. Its decisions need no I/O, and no clock.
#[derive(Debug)]
pub struct Kept {
    /// Whether the path is to be kept open.
    pub is_used: bool,
    endpoint: Option<Endpoint>,
    stage: Stage,
    tried_at: Instant,
    /// Whether a failure was logged.
    complained: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Used,
    Doubted(Doubt),
}

/// State of a path in doubt, which is probed.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Doubt {
    since: Instant,
    /// Smallest round-trip time, which is unknown once the path is closed.
    base_rtt: Option<Duration>,
    /// Whether the path is closed.
    is_closed: bool,
    probe: Probe,
    pause: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Probe {
    /// The next probe begins at this time.
    Next(Instant),
    /// A probe is under way.
    Sent,
    /// The probe has ended; whether it was answered in time.
    Ended(bool),
}

impl Kept {
    /// A path without an endpoint.
    pub fn new(is_used: bool) -> Kept {
        Kept {
            is_used,
            endpoint: None,
            stage: Stage::Used,
            tried_at: Instant::now(),
            complained: false,
        }
    }

    /// Records whether the probe was answered in time.
    pub fn probed(&mut self, answered: bool) {
        if let Stage::Doubted(doubt) = &mut self.stage
            && doubt.probe == Probe::Sent
        {
            doubt.probe = Probe::Ended(answered);
        }
    }

    /// The action that is due now.
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
        let is_closed = matches!(self.stage, Stage::Doubted(doubt) if doubt.is_closed);
        if !is_closed && now >= self.tried_at + ATTEMPT {
            self.tried_at = now;
            return Some(Do::Renew);
        }
        let mut doubt = match self.stage {
            Stage::Doubted(doubt) => doubt,
            Stage::Used if known.is_suspected => Doubt {
                since: now,
                base_rtt: known.base_rtt,
                is_closed: false,
                probe: Probe::Next(now),
                pause: FIRST_PAUSE,
            },
            Stage::Used => return None,
        };
        let action = doubt.transition(known, now);
        self.stage = if doubt.probe == Probe::Ended(true) {
            Stage::Used
        } else {
            Stage::Doubted(doubt)
        };
        if action == Some(Do::Renew) {
            self.tried_at = now;
        }
        action
    }

    /// Performs an action. At most `further` paths beyond the first may be opened; the endpoint has
    /// this address, interface and role. Waits for processes.
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
                self.stage = Stage::Used;
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
        match self.probe {
            Probe::Next(at) if now >= at => {
                self.probe = Probe::Sent;
                Some(Do::Probe(self.patience(now)))
            }
            Probe::Next(_) | Probe::Sent => None,
            Probe::Ended(true) => self.is_closed.then_some(Do::Renew),
            Probe::Ended(false) if !self.is_closed && known.arrives => {
                self.probe = Probe::Ended(true);
                None
            }
            // The path is dead or late: its data is sent over others.
            Probe::Ended(false) if !self.is_closed && known.others_work => {
                (self.is_closed, self.since) = (true, now);
                self.probe = Probe::Next(now + self.pause);
                Some(Do::Close)
            }
            Probe::Ended(false) => {
                if now >= self.since + EAGER {
                    self.pause = (2 * self.pause).min(LAST_PAUSE);
                }
                self.probe = Probe::Next(now + self.pause);
                None
            }
        }
    }

    /// Longest time after which an answer counts as in time.
    fn patience(&self, now: Instant) -> Duration {
        match self.base_rtt {
            _ if self.is_closed && now >= self.since + LONGER => LONGEST,
            None => UNKNOWN,
            Some(base) if self.is_closed => base * 2 + OTHERS_QUEUE,
            Some(base) => base * 3 / 2 + QUEUE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    /// One and a half times the smallest round-trip time of 30 ms, and a queue.
    const PROBE: Option<Do> = Some(Do::Probe(Duration::from_millis(145)));
    /// Twice that time, and the queue of others.
    const PROBE_CLOSED: Option<Do> = Some(Do::Probe(Duration::from_millis(360)));

    fn known() -> Known {
        Known {
            address: None,
            is_missing: false,
            is_suspected: false,
            arrives: false,
            others_work: true,
            base_rtt: Some(30 * MS),
        }
    }

    fn suspected() -> Known {
        Known {
            is_suspected: true,
            ..known()
        }
    }

    /// State of a path without a subflow.
    fn missing() -> Known {
        Known {
            is_missing: true,
            base_rtt: None,
            ..known()
        }
    }

    /// A path that is suspected at this time, and probed.
    fn doubted(now: Instant) -> Kept {
        let mut kept = Kept::new(true);
        assert_eq!(kept.transition(&known(), now), None);
        assert_eq!(kept.transition(&suspected(), now), PROBE);
        assert_eq!(kept.transition(&suspected(), now), None);
        kept
    }

    /// A path whose probe was not answered in time, and that is closed at this time.
    fn closed(now: Instant) -> Kept {
        let mut kept = doubted(now);
        kept.probed(false);
        assert_eq!(kept.transition(&suspected(), now), Some(Do::Close));
        kept
    }

    #[test]
    fn a_path_that_answers_in_time_is_used_on() {
        let now = Instant::now();
        let mut kept = doubted(now);
        kept.probed(true);
        assert_eq!(kept.transition(&suspected(), now), None);
        assert_eq!(kept.stage, Stage::Used);
    }

    /// Every half second for five seconds, and then after one and two: the pause begins when the
    /// probe ends, here at once.
    #[test]
    fn a_path_that_is_dead_or_late_is_closed_until_it_answers_in_time() {
        let begin = Instant::now();
        let mut kept = closed(begin);
        let probed = (500..=5000).step_by(500).chain([6000, 8000, 10_000]);
        for at in probed {
            assert_eq!(kept.transition(&missing(), begin + (at - 1) * MS), None);
            let now = begin + at * MS;
            assert_eq!(kept.transition(&missing(), now), PROBE_CLOSED);
            kept.probed(at == 10_000);
            let opened = (at == 10_000).then_some(Do::Renew);
            assert_eq!(kept.transition(&missing(), now), opened);
        }
        assert_eq!(kept.transition(&known(), begin + 20_000 * MS), None);
    }

    #[test]
    fn a_path_over_which_data_arrives_again_is_not_closed() {
        let now = Instant::now();
        let mut kept = doubted(now);
        kept.probed(false);
        let arrives = Known {
            arrives: true,
            ..known()
        };
        assert_eq!(kept.transition(&arrives, now), None);
        assert_eq!(kept.stage, Stage::Used);
    }

    #[test]
    fn the_only_path_that_works_is_not_closed() {
        let begin = Instant::now();
        let alone = Known {
            others_work: false,
            ..known()
        };
        let mut kept = doubted(begin);
        for probe in 1..5 {
            kept.probed(false);
            let now = begin + 500 * probe * MS;
            assert_eq!(kept.transition(&alone, now), None);
            assert_eq!(kept.transition(&alone, now + 500 * MS), PROBE);
        }
    }

    #[test]
    fn a_path_that_is_dead_alone_is_opened_anew_every_three_seconds() {
        let begin = Instant::now();
        let alone = Known {
            others_work: false,
            ..missing()
        };
        let mut kept = doubted(begin);
        let mut renewed = Vec::new();
        for at in 0..100 {
            match kept.transition(&alone, begin + 100 * at * MS) {
                Some(Do::Renew) => renewed.push(at),
                Some(Do::Probe(_)) | None => kept.probed(false),
                Some(other) => panic!("{other:?}"),
            }
        }
        assert_eq!(renewed, [30, 60, 90]);
    }

    #[test]
    fn a_path_that_stays_late_is_used_after_a_minute() {
        let begin = Instant::now();
        let mut kept = closed(begin);
        let mut now = begin;
        let opened = loop {
            now += 100 * MS;
            match kept.transition(&missing(), now) {
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
