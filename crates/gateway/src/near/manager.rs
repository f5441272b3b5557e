//! Keeps a tunnel established.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use super::Shared;
use crate::carrier::{Tunnel, connect};
use crate::config;
use crate::pool;
use crate::traffic::association::Associations;

/// The pause after a failed attempt: doubled from the first to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// When another attempt starts beside one that has not finished: a handshake that began before far
/// was back would otherwise be repeated too late.
const OVERLAP: Duration = Duration::from_secs(1);

/// How long an attempt may take.
const ATTEMPT: Duration = Duration::from_secs(10);

/// How long a connection waits for a tunnel.
const PATIENCE: Duration = Duration::from_secs(5);

/// An established tunnel with its associations.
#[derive(Clone, Debug)]
pub struct Session {
    /// The tunnel.
    pub tunnel: Tunnel,
    /// Its associations.
    pub associations: Arc<Associations>,
    next_association: Arc<AtomicU32>,
}

impl Session {
    /// The number of a new association.
    pub fn new_association(&self) -> u32 {
        self.next_association.fetch_add(1, Ordering::Relaxed)
    }
}

/// The tunnel over some paths, as far as it is established.
#[derive(Debug, Default)]
pub struct Manager(watch::Sender<Option<Session>>);

impl Manager {
    /// The session, if there is one now.
    pub fn established(&self) -> Option<Session> {
        self.0.borrow().clone()
    }

    /// The session; waits a while until there is one.
    pub async fn session(&self) -> Option<Session> {
        let mut sessions = self.0.subscribe();
        let established = timeout(PATIENCE, sessions.wait_for(Option::is_some)).await;
        established.ok()?.ok()?.clone()
    }

    /// Establishes the tunnel again and again.
    pub async fn run(self: Arc<Self>, shared: Arc<Shared>, paths: Vec<config::Path>) {
        loop {
            let tunnel = establish(&shared, &paths).await;
            info!("tunnel established");
            shared.counters.tunnels_established.increment();
            let active = shared.counters.active_tunnels.hold();
            let session = Session {
                associations: Associations::new(tunnel.clone(), shared.counters.clone()),
                tunnel: tunnel.clone(),
                next_association: Arc::default(),
            };
            if let Some(itcp) = shared.config().tunnel.itcp.clone() {
                tokio::spawn(pool::adjust(tunnel.clone(), itcp));
            }
            let _close = CloseOnDrop(&tunnel);
            self.0.send_replace(Some(session.clone()));
            let reason = tokio::select! {
                reason = tunnel.closed() => reason,
                () = session.associations.distribute() => tunnel.closed().await,
            };
            self.0.send_replace(None);
            drop(active);
            shared.counters.tunnels_closed.increment();
            warn!("{reason}");
        }
    }
}

/// Closes the tunnel, also when its task is cancelled.
struct CloseOnDrop<'a>(&'a Tunnel);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.close("near stops");
    }
}

/// Connects until an attempt succeeds.
async fn establish(shared: &Arc<Shared>, paths: &[config::Path]) -> Tunnel {
    let mut attempts = JoinSet::new();
    let mut pause = FIRST_PAUSE;
    let mut last_message = String::new();
    loop {
        let (shared_, paths) = (shared.clone(), paths.to_vec());
        attempts.spawn(async move {
            let config = shared_.config();
            timeout(ATTEMPT, connect(&config, &shared_.identity, &paths)).await
        });
        let message = match timeout(OVERLAP, attempts.join_next()).await {
            Ok(Some(Ok(Ok(Ok(tunnel))))) => return tunnel,
            Ok(Some(Ok(Ok(Err(error))))) => format!("{error:#}"),
            Ok(Some(Ok(Err(late)))) => late.to_string(),
            Ok(Some(Err(panic))) => panic.to_string(),
            Ok(None) | Err(_) => continue,
        };
        shared.counters.tunnels_failed.increment();
        if message == last_message {
            debug!("no tunnel: {message}");
        } else {
            warn!("no tunnel: {message}");
            last_message = message;
        }
        sleep(pause).await;
        pause = (2 * pause).min(LAST_PAUSE);
    }
}
