//! What is done about one path of `near`, without I/O, but for its endpoint.

use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

use super::endpoints::{self, Endpoint};

/// Time from a path's death to the first attempt to open it, and between attempts.
const ATTEMPT: Duration = Duration::from_secs(3);

/// How much later than the smallest round-trip time a probe may be answered, beyond as much again:
/// a queue.
const QUEUE: Duration = Duration::from_millis(300);

/// The same without a round-trip time so far. TCP repeats its first segment after this time.
const UNKNOWN: Duration = Duration::from_secs(1);

/// Pauses between probes of a path that was closed: the first, doubled up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LAST_PAUSE: Duration = Duration::from_secs(2);

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
    /// A probe is under way, that of a path that is closed since this time.
    Probing(Option<Closed>),
    /// The probe was answered in time, or not.
    Probed(bool, Option<Closed>),
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

    /// The probe has ended.
    pub fn probed(&mut self, is_answered: bool) {
        if let State::Probing(closed) = self.state {
            self.state = State::Probed(is_answered, closed);
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
        let patience = known.base_rtt.map_or(UNKNOWN, |base| 2 * base + QUEUE);
        if !known.is_missing {
            self.tried_at = now;
        }
        match self.state {
            State::Used => {
                let is_overdue = known.is_missing && now >= self.tried_at + ATTEMPT;
                let is_suspected = known.is_suspected && known.others_work;
                if !is_overdue && !is_suspected {
                    return None;
                }
                self.tried_at = now;
                self.state = State::Probing(None);
                Some(Do::Probe(patience))
            }
            State::Closed(closed) if now >= closed.next => {
                self.state = State::Probing(Some(closed));
                let is_longer = now >= closed.since + LONGER;
                Some(Do::Probe(if is_longer { LONGEST } else { patience }))
            }
            State::Closed(_) | State::Probing(_) => None,
            State::Probed(is_in_time, closed) => {
                if is_in_time || (closed.is_none() && !known.others_work) {
                    self.state = State::Used;
                    return (closed.is_some() || known.is_missing).then_some(Do::Renew);
                }
                let since = closed.map_or(now, |closed| closed.since);
                let pause = closed.map_or(FIRST_PAUSE, |closed| (2 * closed.pause).min(LAST_PAUSE));
                self.state = State::Closed(Closed {
                    since,
                    next: now + pause,
                    pause,
                });
                closed.is_none().then_some(Do::Close)
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

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
        // Twice the smallest round-trip time, and a queue.
        assert_eq!(
            kept.transition(&suspected(), begin),
            Some(Do::Probe(360 * MS))
        );
        assert_eq!(kept.transition(&suspected(), begin), None);
        kept.probed(false);
        assert_eq!(kept.transition(&suspected(), begin), Some(Do::Close));
        // Half a second, one, and then two between probes.
        for at in [500, 1500, 3500, 5500] {
            assert_eq!(kept.transition(&known(), begin + (at - 1) * MS), None);
            let now = begin + at * MS;
            assert_eq!(kept.transition(&known(), now), Some(Do::Probe(360 * MS)));
            kept.probed(at == 5500);
            let answered = (at == 5500).then_some(Do::Renew);
            assert_eq!(kept.transition(&known(), now), answered);
        }
        assert_eq!(kept.transition(&known(), begin + 9000 * MS), None);
    }

    #[test]
    fn a_suspicion_that_is_wrong_changes_nothing() {
        let now = Instant::now();
        let mut kept = Kept::new(true);
        for _ in 0..2 {
            assert!(kept.transition(&suspected(), now).is_some());
            kept.probed(true);
            assert_eq!(kept.transition(&known(), now), None);
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
        assert_eq!(kept.transition(&alone, now), None);
        assert!(kept.transition(&suspected(), now).is_some());
        kept.probed(false);
        assert_eq!(kept.transition(&alone, now), None);
        assert_eq!(kept.state, State::Used);
    }

    #[test]
    fn a_path_that_stays_late_is_used_after_a_minute() {
        let begin = Instant::now();
        let mut kept = Kept::new(true);
        kept.transition(&suspected(), begin);
        kept.probed(false);
        assert_eq!(kept.transition(&known(), begin), Some(Do::Close));
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
