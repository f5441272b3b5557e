//! Maintenance of `near`'s paths: endpoints for the path manager, new attempts for dead paths, and
//! an end for those that deliver too late.
//!
//! The kernel tries an endpoint once per connection. A path is opened anew because its endpoint is
//! removed and added again; while it is removed, neither end uses the path. Data on a path that
//! holds it back for seconds would hold up all data behind it.

use std::sync::Arc;
use std::time::Duration;

use anabranch_sockets::mptcp_info;
use futures_util::StreamExt;
use futures_util::future::{BoxFuture, OptionFuture, select_ok};
use futures_util::stream::FuturesUnordered;
use socket2::Protocol;
use tokio::time::{Instant, sleep, timeout};

use super::core::Core;
use super::endpoints::{self, address_of};
use super::{over_tls, socket};
use crate::config::{self, Role};
use crate::tls::Identity;
use crate::{PathState, failure};
use arrivals::Arrivals;
use kept::{Do, Kept, Known};

mod arrivals;
mod kept;

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
