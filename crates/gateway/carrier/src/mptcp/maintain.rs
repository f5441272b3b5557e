//! Maintenance of `near`'s paths: endpoints for the path manager, new attempts for dead paths, and
//! an end for those that deliver too late.
//!
//! The kernel tries an endpoint once per connection. A path is opened anew because its endpoint is
//! removed and added again; while it is removed, neither end uses the path. Data on a path that
//! holds it back for seconds would hold up all data behind it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch_sockets::mptcp_info;
use futures_util::StreamExt;
use futures_util::future::{BoxFuture, OptionFuture, select_ok};
use futures_util::stream::FuturesUnordered;
use socket2::Protocol;
use tokio::time::{Instant, sleep, timeout};

use super::core::Core;
use super::endpoints::{self, Endpoint, address_of};
use super::{over_tls, socket};
use crate::config::{self, Role};
use crate::tls::Identity;
use crate::{PathState, failure};

/// Intervals at which the state is read, while data arrives and otherwise.
const PERIOD: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(100)];
/// Interval at which what the connections hold is compared with its limit.
const RELIEVE: Duration = Duration::from_secs(1);
/// Longest time of a connection without any path.
const ALONE: Duration = Duration::from_secs(10);
/// Interval at which it is found why paths do not work, and longest time for each step of that.
const DIAGNOSIS: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(3);
/// Time that endpoints stay after the end of the tunnel.
const LINGER: Duration = Duration::from_secs(1);

/// A probe: the index of the path, and whether it was answered in time.
type RunningProbe = BoxFuture<'static, (usize, bool)>;

/// Configuration and identity of `near`, with which it connects.
type End = (Arc<config::Near>, Arc<Identity>);

/// Watches the paths until the tunnel is closed; on `near` also opens them.
pub async fn maintain(core: Arc<Core>, near: Option<End>) {
    let mut kept = Vec::new();
    let mut diagnosing = near.clone().map(|end| diagnose(end, core.clone()));
    let mut probes = FuturesUnordered::<RunningProbe>::new();
    let mut arrivals = Arrivals::default();
    let mut announced = false;
    let mut refused = false;
    let mut alone_since = None;
    let mut relieved = Instant::now();
    while let Some(multipath) = core.update_paths() {
        if let Err(error) = core.choose_rule()
            && !refused
        {
            refused = true;
            tracing::warn!("the kernel refuses the tunnel's congestion control: {error}");
        }
        if relieved.elapsed() >= RELIEVE {
            relieved = Instant::now();
            core.relieve();
        }
        if core.paths().any_open() {
            alone_since = None;
        } else if alone_since.get_or_insert_with(Instant::now).elapsed() > ALONE {
            core.close("no path is left");
            break;
        }
        if !announced {
            announced = true;
            if !multipath && core.paths().rows().len() > 1 {
                tracing::warn!("the tunnel is plain TCP: it has one path");
            } else if multipath && near.is_some() {
                kept = to_keep(&core);
                endpoints::apply_settings();
            }
        }
        if let Some((near, _)) = near.as_ref().filter(|_| !kept.is_empty()) {
            let actions = decide(&core, &mut kept, &mut arrivals);
            for (index, action) in &actions {
                tracing::debug!(path = near.paths[*index].name, ?action, "path");
                if let Do::Probe(patience) = action {
                    probes.push(probe(near.clone(), core.clone(), *index, *patience));
                }
            }
            kept = act(&core, kept, actions).await;
        }
        core.changes.prepared.notify_one();
        let period = PERIOD[usize::from(!arrivals.flow(Instant::now()))];
        tokio::select! {
            () = sleep(period) => {}
            Some((index, answered)) = probes.next() => kept[index].probed(answered),
            Some(()) = OptionFuture::from(diagnosing.as_mut()) => diagnosing = None,
            _ = core.until_closed() => break,
        }
    }
    drop(probes);
    // Removing endpoints ends paths, so the end of the connection must be delivered first.
    core.until_ended().await;
    sleep(LINGER).await;
    let _ = tokio::task::spawn_blocking(move || drop(kept)).await;
}

/// Finds why paths do not open, or are dead, until the tunnel is closed.
fn diagnose((near, identity): End, core: Arc<Core>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        loop {
            sleep(DIAGNOSIS).await;
            for (index, path) in near.paths.iter().enumerate() {
                if !core.paths().rows()[index].is_missing() {
                    continue;
                }
                let fault = fault(&near, &identity, path, core.rule()).await;
                core.paths().rows()[index].fault = Some(fault);
            }
        }
    })
}

/// Reason for which a path does not work, by a connection over it.
async fn fault(
    near: &config::Near,
    identity: &Arc<Identity>,
    path: &config::Path,
    rule: &str,
) -> String {
    let far = near.far.addresses.iter().copied();
    let mut fars = far.filter(|far| {
        path.address
            .is_none_or(|own| own.is_ipv4() == far.is_ipv4())
    });
    let Some(far) = fars.next() else {
        return format!("{} has no address of its family", near.far);
    };
    let (connection, _opened) = match timeout(
        PATIENCE,
        socket::connect(&near.far, path, rule, Protocol::MPTCP),
    )
    .await
    {
        Ok(Ok(connected)) => connected,
        Ok(Err(error)) => return format!("{error:#}"),
        Err(_) => return failure::of_silent_path("TCP", path, far),
    };
    let is_multipath = matches!(mptcp_info(&connection), Ok(Some(_)));
    match timeout(PATIENCE, over_tls(identity, connection)).await {
        Ok(Err(error)) => format!("{error:#}"),
        Err(_) => "far accepts a connection over it, but large packets do not pass".to_owned(),
        Ok(Ok(_)) if !is_multipath => {
            "far answers over it, but a middlebox strips Multipath TCP".to_owned()
        }
        Ok(Ok(_)) => "far answers over it: it is about to open".to_owned(),
    }
}

/// All paths, including the one that has connected, which is opened anew if it dies.
fn to_keep(core: &Core) -> Vec<Kept> {
    let mut paths = core.paths();
    let rows = paths.rows().iter();
    let used = rows.filter(|row| row.role != Role::Never).count();
    let rows = paths.rows().iter();
    let kept = rows.map(|row| Kept::new(row.role != Role::Never && used > 1));
    kept.collect()
}

/// Actions that are due, with the indices of their paths.
fn decide(core: &Core, kept: &mut [Kept], arrivals: &mut Arrivals) -> Vec<(usize, Do)> {
    let now = Instant::now();
    let lacked = core.close_lame();
    let mut paths = core.paths();
    for row in paths.rows() {
        if let Some(interface) = &row.interface
            && !row.is_fixed
            && row.is_missing()
        {
            row.address = address_of(interface, core.is_ipv4);
        }
    }
    let states = paths.states();
    let base_rtt = |state: &PathState| state.base_rtt_s.map(Duration::from_secs_f64);
    let received = states.iter();
    let received: Vec<_> = received
        .map(|state| (state.received_bytes, base_rtt(state)))
        .collect();
    let suspected = arrivals.observe(&received, now);
    let working = paths.rows().iter().filter(|row| row.works()).count();
    let known = paths.rows().iter().zip(&states).enumerate();
    let known = known.map(|(index, (row, state))| Known {
        address: row.address,
        is_missing: row.is_missing(),
        is_suspected: suspected.contains(&index)
            || row.has_timed_out()
            || row.address.is_some_and(|address| lacked.contains(&address)),
        arrives: arrivals.arrives(index),
        others_work: working > usize::from(row.works()),
        base_rtt: base_rtt(state),
    });
    let decided = kept.iter_mut().zip(known).enumerate();
    let decided = decided.filter_map(|(index, (kept, known))| {
        let action = kept.decide(&known, now)?;
        Some((index, action))
    });
    decided.collect()
}

/// Changes endpoints.
async fn act(core: &Arc<Core>, mut kept: Vec<Kept>, actions: Vec<(usize, Do)>) -> Vec<Kept> {
    let is_probe = |(_, action): &(usize, Do)| matches!(action, Do::Probe(_));
    if actions.iter().all(is_probe) {
        return kept;
    }
    let core = core.clone();
    // It starts processes and waits for them.
    let acting = tokio::task::spawn_blocking(move || {
        let further = kept.iter().filter(|kept| kept.is_used).count() - 1;
        for (index, action) in actions {
            let row = core.paths().rows()[index].endpoint();
            kept[index].act(action, further, row);
        }
        kept
    });
    acting.await.unwrap_or_default()
}

/// Probes a path: connects to `far` over it within `patience`, and sends nothing. There are two
/// attempts at once, because one may be lost.
fn probe(
    near: Arc<config::Near>,
    core: Arc<Core>,
    index: usize,
    patience: Duration,
) -> RunningProbe {
    Box::pin(async move {
        let path = &near.paths[index];
        let connect = || Box::pin(socket::connect(&near.far, path, core.rule(), Protocol::TCP));
        let connected = timeout(patience, select_ok([connect(), connect()])).await;
        (index, matches!(connected, Ok(Ok(_))))
    })
}

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
