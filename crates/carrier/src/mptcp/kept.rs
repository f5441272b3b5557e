//! What is done about one path of `near`, without I/O, but for its endpoint.

use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

use super::endpoints::{self, Endpoint};

/// Time from a path's death to the first attempt to open it, and between attempts.
const ATTEMPT: Duration = Duration::from_secs(3);

/// How much later than after twice the smallest round-trip time an answer may come: a queue.
const QUEUE: Duration = Duration::from_millis(300);

/// The longest round-trip time of a path of which none is known. TCP repeats its first segment after
/// this time.
const UNKNOWN: Duration = Duration::from_secs(1);

/// How long an answer is waited for. A path without one is dead, which the kernel finds out.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Pauses between probes of a path that was closed: the first, doubled up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LAST_PAUSE: Duration = Duration::from_secs(2);

/// After this time a path that answers late is used again: it has become a longer one.
const LONGER: Duration = Duration::from_secs(60);

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Do {
    /// Add the endpoint.
    Add,
    /// Remove the endpoint of an earlier address.
    Forget,
    /// Measure the time to an answer of `far` over the path.
    Probe,
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
    /// A probe is under way, perhaps that of a path that is closed.
    Probing(Option<Closed>),
    /// The probe was answered after this time, or not.
    Probed(Option<Duration>, Option<Closed>),
    Closed(Closed),
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Closed {
    since: Instant,
    next: Instant,
    pause: Duration,
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

    /// The probe was answered after this time, or not.
    pub fn probed(&mut self, answer: Option<Duration>) {
        if let State::Probing(closed) = self.state {
            self.state = State::Probed(answer, closed);
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
        match self.state {
            State::Used | State::Probing(None) if now >= self.tried_at + ATTEMPT => {
                self.tried_at = now;
                Some(Do::Renew)
            }
            State::Used if known.is_suspected => {
                self.state = State::Probing(None);
                Some(Do::Probe)
            }
            State::Closed(closed) if now >= closed.next => {
                self.state = State::Probing(Some(closed));
                Some(Do::Probe)
            }
            State::Used | State::Closed(_) | State::Probing(_) => None,
            State::Probed(answer, None) => {
                let is_late = answer.is_some_and(|answer| answer > longest(known));
                if !is_late || !known.others_work {
                    self.state = State::Used;
                    return None;
                }
                self.close(now, now, FIRST_PAUSE);
                Some(Do::Close)
            }
            State::Probed(answer, Some(closed)) => {
                let is_longer = now >= closed.since + LONGER;
                if answer.is_some_and(|answer| is_longer || answer <= longest(known)) {
                    self.state = State::Used;
                    self.tried_at = now;
                    return Some(Do::Renew);
                }
                self.close(closed.since, now, (2 * closed.pause).min(LAST_PAUSE));
                None
            }
        }
    }

    fn close(&mut self, since: Instant, now: Instant, pause: Duration) {
        self.state = State::Closed(Closed {
            since,
            next: now + pause,
            pause,
        });
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
            (Do::Probe, _) | (_, None) => Ok(()),
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

/// The longest time after which an answer is not late.
fn longest(known: &Known) -> Duration {
    known.base_rtt.map_or(UNKNOWN, |base| 2 * base + QUEUE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    /// Twice the smallest round-trip time of 30 ms, and a queue.
    const IN_TIME: Option<Duration> = Some(Duration::from_millis(360));
    const LATE: Option<Duration> = Some(Duration::from_millis(361));

    fn known() -> Known {
        Known {
            address: None,
            is_missing: false,
            is_suspected: false,
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

    #[test]
    fn a_path_that_answers_late_is_closed_until_it_answers_in_time() {
        let begin = Instant::now();
        let mut kept = Kept::new(true);
        assert_eq!(kept.transition(&known(), begin), None);
        assert_eq!(kept.transition(&suspected(), begin), Some(Do::Probe));
        assert_eq!(kept.transition(&suspected(), begin), None);
        kept.probed(LATE);
        assert_eq!(kept.transition(&suspected(), begin), Some(Do::Close));
        // Half a second, one, and then two between probes.
        let answers = [(500, LATE), (1500, None), (3500, LATE), (5500, IN_TIME)];
        for (at, answer) in answers {
            assert_eq!(kept.transition(&known(), begin + (at - 1) * MS), None);
            let now = begin + at * MS;
            assert_eq!(kept.transition(&known(), now), Some(Do::Probe));
            kept.probed(answer);
            let opened = (answer == IN_TIME).then_some(Do::Renew);
            assert_eq!(kept.transition(&known(), now), opened);
        }
        assert_eq!(kept.transition(&known(), begin + 9000 * MS), None);
    }

    #[test]
    fn a_path_without_an_answer_is_not_closed_and_a_dead_one_is_opened_anew() {
        let begin = Instant::now();
        let mut kept = Kept::new(true);
        for answer in [IN_TIME, None] {
            assert_eq!(kept.transition(&suspected(), begin), Some(Do::Probe));
            kept.probed(answer);
            assert_eq!(kept.transition(&known(), begin), None);
        }
        let missing = Known {
            is_missing: true,
            ..suspected()
        };
        assert_eq!(kept.transition(&missing, begin), Some(Do::Probe));
        // Every three seconds, also while the probe waits.
        for at in [3000, 6000] {
            let now = begin + at * MS;
            assert_eq!(kept.transition(&missing, now - MS), None);
            assert_eq!(kept.transition(&missing, now), Some(Do::Renew));
        }
    }

    #[test]
    fn the_only_path_that_works_is_not_closed() {
        let now = Instant::now();
        let alone = Known {
            others_work: false,
            ..suspected()
        };
        let mut kept = Kept::new(true);
        assert_eq!(kept.transition(&alone, now), Some(Do::Probe));
        kept.probed(LATE);
        assert_eq!(kept.transition(&alone, now), None);
        assert_eq!(kept.state, State::Used);
    }

    #[test]
    fn a_path_that_stays_late_is_used_after_a_minute() {
        let begin = Instant::now();
        let mut kept = Kept::new(true);
        kept.transition(&suspected(), begin);
        kept.probed(LATE);
        assert_eq!(kept.transition(&known(), begin), Some(Do::Close));
        let mut now = begin;
        let opened = loop {
            now += 100 * MS;
            match kept.transition(&known(), now) {
                Some(Do::Probe) => kept.probed(LATE),
                Some(action) => break action,
                None => {}
            }
        };
        assert_eq!(opened, Do::Renew);
        let after = now - begin;
        assert!(after >= LONGER && after <= LONGER + LAST_PAUSE + 300 * MS);
    }
}
