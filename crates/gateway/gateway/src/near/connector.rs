//! Maintenance of one tunnel, and the identifiers of tunnels, by their purpose.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{anyhow, bail};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info, warn};

use super::Shared;
use crate::carrier::{self, Closed, Remote, Tunnel};
use crate::config::{self, Carrier};
use crate::itcp;
use crate::names::resolve_far;

/// Pause after the first failed attempt, doubled after each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Longest pause between attempts.
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// Longest pause of a tunnel that another one can stand in for, and that may never be established:
/// networks block UDP.
const LAST_PAUSE_OF_DATAGRAMS: Duration = Duration::from_secs(64);

/// Time after which another attempt starts beside one that has not finished: a handshake that began
/// before far was back would otherwise be repeated too late.
const OVERLAP: Duration = Duration::from_secs(1);

/// Number of causes that are logged until there is a tunnel, each once: they may take turns.
const MESSAGES: usize = 16;

/// Longest time of an attempt.
const ATTEMPT: Duration = Duration::from_secs(10);

/// Time without an answer after which far may not know the tunnel any more. Over TCP far's kernel
/// says so if its host is up; after an outage of all paths TCP may wait for seconds before it
/// retransmits.
fn silence(tunnel: &Tunnel) -> Duration {
    match tunnel.carrier() {
        Carrier::Quic => Duration::from_secs(1),
        Carrier::Mptcp => Duration::from_secs(10),
    }
}

/// Interval at which the silence is checked.
const OBSERVE: Duration = Duration::from_millis(200);

/// Time that the tunnel then has to answer, too: a carrier tries a dead path every half second, and
/// then takes some round trips.
const RETURN: Duration = Duration::from_secs(1);

/// Longest time that a connection waits for a tunnel.
const PATIENCE: Duration = Duration::from_secs(5);

/// Keeper of one tunnel, over some paths.
#[derive(Debug, Default)]
pub struct Connector(watch::Sender<Option<Tunnel>>, Mutex<Option<String>>);

impl Connector {
    /// The tunnel, if it is established now.
    pub fn established(&self) -> Option<Tunnel> {
        self.0.borrow().clone()
    }

    /// Reason for which the last attempt failed, if there is no tunnel.
    pub fn failure(&self) -> Option<String> {
        self.1
            .lock()
            .clone()
            .filter(|_| self.established().is_none())
    }

    /// The tunnel, other than `lost`; waits a while until it is established.
    pub async fn tunnel(&self, lost: Option<&Tunnel>) -> Option<Tunnel> {
        let usable = |new: &Option<Tunnel>| {
            let new = new.as_ref();
            new.is_some_and(|new| !lost.is_some_and(|lost| new.is(lost)))
        };
        let mut tunnels = self.0.subscribe();
        let established = timeout(PATIENCE, tunnels.wait_for(usable)).await;
        established.ok()?.ok()?.clone()
    }

    /// Establishes the tunnel again and again.
    pub async fn run(self: Arc<Self>, shared: Arc<Shared>, id: TunnelId, paths: Vec<config::Path>) {
        let mut next = None;
        let mut pause = Duration::ZERO;
        loop {
            let tunnel = match next.take() {
                Some(tunnel) => tunnel,
                None => establish(&shared, &id, &paths).await,
            };
            let established = Instant::now();
            next = self.serve(&shared, &id, &paths, &tunnel).await;
            if next.is_some() {
                continue;
            }
            // far closes tunnels at once if the key has as many as it may have.
            sleep(pause).await;
            pause = match established.elapsed() {
                lived if lived < LAST_PAUSE + pause => (2 * pause).clamp(FIRST_PAUSE, LAST_PAUSE),
                _ => Duration::ZERO,
            };
        }
    }

    /// Offers a tunnel until it is closed. Returns the one that replaces it, if there is one.
    async fn serve(
        &self,
        shared: &Arc<Shared>,
        id: &TunnelId,
        paths: &[config::Path],
        tunnel: &Tunnel,
    ) -> Option<Tunnel> {
        info!(tunnel = %id, "tunnel established");
        shared.counters.tunnels_established.increment();
        *shared.far_is_old.lock() = None;
        let active = shared.counters.active_tunnels.hold();
        let itcp = shared.config().tunnel.itcp.clone();
        let close = CloseOnDrop(tunnel);
        self.0.send_replace(Some(tunnel.clone()));
        let (reason, next) = tokio::select! {
            biased;
            reason = tunnel.closed() => (reason, None),
            () = shared.associations.distribute(tunnel) => (tunnel.closed().await, None),
            () = itcp::adjust(tunnel, itcp) => (tunnel.closed().await, None),
            next = replacement(shared, id, paths, tunnel) => {
                (Closed("far no longer knows it".to_owned()), Some(next))
            }
        };
        shared.carried.add(&tunnel.paths(), || {
            self.0.send_replace(None);
        });
        drop((close, active));
        shared.counters.tunnels_closed.increment();
        warn!(tunnel = %id, "{reason}");
        next
    }
}

/// Establishes a new tunnel, once far answers a new handshake and nothing in this tunnel: far was
/// killed and started again, and this tunnel would notice only after a long time.
async fn replacement(
    shared: &Arc<Shared>,
    id: &TunnelId,
    paths: &[config::Path],
    tunnel: &Tunnel,
) -> Tunnel {
    loop {
        let received = silent(tunnel).await;
        tokio::select! {
            biased;
            next = establish(shared, id, paths) => {
                // All paths may have been dead, and now both tunnels work.
                if timeout(RETURN, receives(tunnel, received)).await.is_err() {
                    return next;
                }
                next.close("the earlier tunnel works again");
            }
            () = receives(tunnel, received) => {}
        }
    }
}

/// Waits until nothing was received for a while although something was sent. Returns the bytes
/// received.
async fn silent(tunnel: &Tunnel) -> u64 {
    let (mut sent, mut received) = bytes(tunnel);
    let mut since = Instant::now();
    loop {
        sleep(OBSERVE).await;
        let (sent_now, received_now) = bytes(tunnel);
        if received_now != received {
            (sent, received, since) = (sent_now, received_now, Instant::now());
        } else if sent_now == sent {
            since = Instant::now();
        } else if since.elapsed() >= silence(tunnel) {
            return received;
        }
    }
}

/// Waits until the number of bytes that the tunnel has received is not `received`.
async fn receives(tunnel: &Tunnel, received: u64) {
    while bytes(tunnel).1 == received {
        sleep(OBSERVE).await;
    }
}

/// Bytes sent and received over all paths.
fn bytes(tunnel: &Tunnel) -> (u64, u64) {
    let paths = tunnel.paths();
    let sent = paths.iter().map(|path| path.sent_bytes).sum();
    (sent, paths.iter().map(|path| path.received_bytes).sum())
}

/// Guard that closes the tunnel, also when its task is cancelled.
struct CloseOnDrop<'a>(&'a Tunnel);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.close("near stops");
    }
}

/// Connects until an attempt succeeds.
async fn establish(shared: &Arc<Shared>, id: &TunnelId, paths: &[config::Path]) -> Tunnel {
    let (overlap, last_pause) = match id {
        TunnelId::Datagrams(_) => (ATTEMPT, LAST_PAUSE_OF_DATAGRAMS),
        TunnelId::All | TunnelId::Path(_) => (OVERLAP, LAST_PAUSE),
    };
    let mut attempts = JoinSet::new();
    let mut pause = FIRST_PAUSE;
    let mut logged = Vec::new();
    loop {
        let paths = shared.carried.left(paths, || shared.established());
        attempts.spawn(attempt(shared.clone(), id.clone(), paths));
        let Ok(Some(attempted)) = timeout(overlap, attempts.join_next()).await else {
            continue;
        };
        let message = match attempted.unwrap_or_else(|panic| Err(panic.into())) {
            Ok(tunnel) => return tunnel,
            Err(error) => format!("{error:#}"),
        };
        shared.counters.tunnels_failed.increment();
        if let Some(connector) = shared.connectors.lock().get(id) {
            *connector.1.lock() = Some(message.clone());
        }
        if logged.contains(&message) || logged.len() == MESSAGES {
            debug!(tunnel = %id, "no tunnel: {message}");
        } else {
            warn!(tunnel = %id, "no tunnel: {message}");
            logged.push(message);
        }
        sleep(pause).await;
        pause = (2 * pause).min(last_pause);
    }
}

/// Connects once over these paths.
async fn attempt(
    shared: Arc<Shared>,
    id: TunnelId,
    paths: Vec<config::Path>,
) -> anyhow::Result<Tunnel> {
    let config = id.config(&shared.config());
    let connected = async {
        let addresses = resolve_far(&config.far).await.map_err(|error| {
            anyhow!(
                "far = {}: this name does not resolve ({error}): check it, and the servers in \
                 /etc/resolv.conf",
                config.far
            )
        })?;
        let name = config.far.clone();
        let near = carrier::Near {
            far: Remote { name, addresses },
            paths,
            settings: config.settings(),
        };
        carrier::connect_over(&shared.network.udp(), &near, &shared.identity).await
    };
    let connected = timeout(ATTEMPT, connected).await;
    connected.unwrap_or_else(|_| bail!("far = {}: no tunnel in {ATTEMPT:?}", config.far))
}

/// Identifier of one of near's tunnels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TunnelId {
    /// The tunnel over all paths.
    All,
    /// A tunnel over one path, for connections by the destination rule `path:NAME` and, with the
    /// carrier `quic`, for datagrams.
    Path(String),
    /// A tunnel over one path and QUIC, for datagrams with the carrier `mptcp`, whose order makes
    /// each datagram wait for lost data before it.
    Datagrams(String),
}

impl TunnelId {
    /// The tunnel over all paths, or over this one.
    pub fn over(path: Option<&str>) -> TunnelId {
        path.map_or(TunnelId::All, |name| TunnelId::Path(name.to_owned()))
    }

    /// The tunnel for datagrams over one path.
    pub fn datagrams(carrier: Carrier, path: &str) -> TunnelId {
        match carrier {
            Carrier::Quic => TunnelId::Path(path.to_owned()),
            Carrier::Mptcp => TunnelId::Datagrams(path.to_owned()),
        }
    }

    /// The configuration with the carrier of this tunnel.
    pub fn config(&self, near: &config::Near) -> config::Near {
        let mut config = near.clone();
        if let TunnelId::Datagrams(_) = self {
            config.tunnel = config.tunnel.over_quic();
        }
        config
    }

    /// Paths of the tunnel; `None` if there is no such path.
    pub fn paths(&self, config: &config::Near) -> Option<Vec<config::Path>> {
        let (TunnelId::Path(name) | TunnelId::Datagrams(name)) = self else {
            return Some(config.paths.clone());
        };
        let path = config.paths.iter().find(|path| path.name == *name)?;
        Some(vec![path.clone()])
    }
}

impl fmt::Display for TunnelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TunnelId::All => f.write_str("tunnel"),
            TunnelId::Path(name) => write!(f, "path:{name}"),
            TunnelId::Datagrams(name) => write!(f, "datagrams:{name}"),
        }
    }
}
