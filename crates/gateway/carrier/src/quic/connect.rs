//! Connection of `near` to `far`, over the first path that answers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, timeout};

use super::library::{Client, Connection, Sockets};
use crate::config::{self, Role};
use crate::failure;
use crate::tls::Identity;
use crate::udp::{self, Udp};

/// Time for all paths to answer a probe before a handshake is tried over one that has not: `far`
/// may be a server that does not answer probes.
const PROBING: Duration = Duration::from_secs(1);

/// Further time for the other paths to find an address of `far` that answers.
const CHOICE: Duration = Duration::from_millis(250);

/// Interval of the probes of each path.
const PROBE: Duration = Duration::from_millis(200);

/// Time limit of a handshake over one path, if others can be tried. The library sends its first
/// datagram again after 1 s and 2 s.
const HANDSHAKE: Duration = Duration::from_secs(4);

/// Interval at which answers are looked for.
const LOOK: Duration = Duration::from_millis(2);

/// A connection over one path.
pub(super) struct Connected {
    pub endpoint: Client,
    pub connection: Connection,
    pub sockets: Arc<Sockets>,
    /// Index of the path.
    pub first: usize,
}

/// A path with an address of `far` in its family.
#[derive(Clone)]
struct Candidate {
    /// Index of the path.
    path: usize,
    far: SocketAddr,
}

/// Connects over the path that answers first, to the address of `far` that answers there. Paths
/// that have not answered are tried all at once.
pub(super) async fn connect(
    udp: &Arc<dyn Udp>,
    near: &config::Near,
    identity: &Arc<Identity>,
) -> anyhow::Result<Connected> {
    let all = candidates(near)?;
    let mut paths = near.paths.clone();
    for (i, path) in paths.iter_mut().enumerate() {
        if !all.iter().any(|candidate| candidate.path == i) {
            path.role = Role::Never;
        }
    }
    let paths = &paths;
    let order = order(udp, paths, &all).await;
    let far_of = |path: usize| {
        let mut preferred = order.iter().map(|(candidate, _)| candidate).chain(&all);
        let found = preferred.find(|candidate| candidate.path == path);
        // A path that far's families leave out is off, whatever the address.
        found.or(all.first()).expect("a candidate").far
    };
    let attempt = async |first: &Candidate, has_answered: bool| {
        let mut far: Vec<SocketAddr> = (0..paths.len()).map(far_of).collect();
        far[first.path] = first.far;
        let sockets = Sockets::new(udp, paths, &far);
        let connected = handshake(near, identity, sockets, first, has_answered).await;
        connected.map_err(|error| (&*paths[first.path].name, format!("{error:#}")))
    };
    let mut failures = Vec::new();
    let answered = order.iter().take_while(|(_, has_answered)| *has_answered);
    let answered = answered.count();
    for (first, _) in &order[..answered] {
        match attempt(first, true).await {
            Ok(connected) => return Ok(connected),
            Err(failure) => failures.push(failure),
        }
    }
    let silent = order[answered..].iter();
    let mut attempts: FuturesUnordered<_> = silent.map(|it| attempt(&it.0, false)).collect();
    while let Some(result) = attempts.next().await {
        match result {
            Ok(connected) => return Ok(connected),
            Err(failure) => failures.push(failure),
        }
    }
    bail!(failure::line(&near.far, &failures))
}

/// Whether `far` answers over UDP.
pub(crate) async fn answers(near: &config::Near) -> bool {
    let udp: Arc<dyn Udp> = Arc::new(udp::Kernel);
    let Ok(candidates) = candidates(near) else {
        return false;
    };
    let order = order(&udp, &near.paths, &candidates).await;
    order.iter().any(|(_, has_answered)| *has_answered)
}

/// Addresses of `far` in the family of each path. One path of the wrong family stops no other.
fn candidates(near: &config::Near) -> anyhow::Result<Vec<Candidate>> {
    let mut candidates = Vec::new();
    for (path, config) in near.paths.iter().enumerate() {
        let fits = |far: &SocketAddr| match config.address {
            Some(address) => address.is_ipv6() == far.is_ipv6(),
            None => true,
        };
        let fitting = near.far.addresses.iter().copied().filter(fits);
        candidates.extend(fitting.map(|far| Candidate { path, far }));
    }
    let is_used = |it: &Candidate| near.paths[it.path].role != Role::Never;
    if !candidates.iter().any(is_used) {
        let far = &near.far;
        bail!("{far} has no address of the family of any path's address");
    }
    Ok(candidates)
}

/// Candidates of the paths that may be used, and whether each has answered a probe. Those that have
/// come first, the fastest first; backups come last.
async fn order(
    udp: &Arc<dyn Udp>,
    paths: &[config::Path],
    candidates: &[Candidate],
) -> Vec<(Candidate, bool)> {
    let probed: Vec<_> = candidates.iter().map(|it| paths[it.path].clone()).collect();
    let far: Vec<_> = candidates.iter().map(|it| it.far).collect();
    let sockets = Sockets::new(udp, &probed, &far);
    let is_available = |&i: &usize| probed[i].role == Role::Available;
    let used = (0..probed.len()).filter(|&i| probed[i].role != Role::Never);
    let (available, backup): (Vec<usize>, Vec<usize>) = used.partition(is_available);
    let has_answered = |i: usize| answer(&sockets, i).is_some();
    let is_chosen = |&i: &usize| {
        let mut same_path = (0..probed.len()).filter(|&j| candidates[j].path == candidates[i].path);
        same_path.clone().count() == 1 || same_path.any(has_answered)
    };
    let start = Instant::now();
    let mut next = start;
    let mut end = start + PROBING;
    while Instant::now() < end {
        if Instant::now() >= next {
            next += PROBE;
            let probed = available.iter().chain(&backup);
            probed.for_each(|&i| sockets.slots()[i].probe());
        }
        tokio::time::sleep(LOOK).await;
        let slots = sockets.slots().iter();
        slots.for_each(|slot| slot.receive_answers());
        if available.iter().any(|&i| has_answered(i)) {
            end = end.min(Instant::now() + CHOICE);
            if available.iter().all(is_chosen) {
                break;
            }
        }
    }
    let rank = |&i: &usize| {
        let rtt = answer(&sockets, i);
        (rtt.is_none(), !is_available(&i), rtt)
    };
    let mut order = [available, backup].concat();
    order.sort_by_key(rank);
    let order = order.into_iter();
    order
        .map(|i| (candidates[i].clone(), has_answered(i)))
        .collect()
}

fn answer(sockets: &Sockets, i: usize) -> Option<Duration> {
    sockets.slots()[i].answer().map(|(_, rtt)| rtt)
}

async fn handshake(
    near: &config::Near,
    identity: &Arc<Identity>,
    sockets: Arc<Sockets>,
    first: &Candidate,
    has_answered: bool,
) -> anyhow::Result<Connected> {
    let (path, far) = (first.path, first.far);
    let connecting = Client::connect(&sockets, path, &near.settings, identity);
    let Ok(connected) = timeout(HANDSHAKE, connecting).await else {
        match has_answered {
            true => bail!("{far} answers over UDP, but there is no handshake in {HANDSHAKE:?}"),
            false => {
                let slot = &sockets.slots()[path];
                slot.probe();
                let silence = || failure::of_silence("UDP", far, PROBING + HANDSHAKE);
                bail!(slot.unsent().unwrap_or_else(silence))
            }
        }
    };
    let (endpoint, connection) = connected?;
    Ok(Connected {
        endpoint,
        connection,
        sockets,
        first: path,
    })
}
