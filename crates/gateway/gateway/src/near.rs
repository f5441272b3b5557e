//! `near`: accepts local traffic and carries it to `far`, by the rules of its configuration.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use parking_lot::Mutex;
use tokio::task::spawn_blocking;
use tokio_util::sync::DropGuard;

use crate::carrier::Tunnel;
use crate::carrier::mptcp::{reconcile_endpoints, remove_endpoints};
use crate::config::difference::Differs;
use crate::config::{self, Live};
use crate::counters::Counters;
use crate::gateway::Gateway;
use crate::names::Resolver;
use crate::network::Network;
use crate::random;
use crate::tls::Identity;
use crate::traffic::association::Associations;
use crate::traffic::limits::{self, Limiter};
use crate::traffic::tasks::Tasks;

mod caps;
pub mod client;
mod clients;
mod connector;
mod direct;
mod dns;
mod fastest;
mod http;
mod listener;
mod request;
pub mod socks;
mod tcp;
mod udp;

pub use connector::TunnelId;

use caps::Carried;
use clients::ClientId;
use connector::Connector;
use listener::Listeners;

/// Permit of a client.
type Permit = limits::Permit<ClientId>;

/// A running `near`.
#[derive(Debug)]
pub struct Near {
    shared: Arc<Shared>,
    listeners: tokio::sync::Mutex<Listeners>,
    _closed: DropGuard,
}

/// State shared by all tasks.
#[derive(Debug)]
struct Shared {
    config: Live<config::Near>,
    identity: Arc<Identity>,
    counters: Arc<Counters>,
    limiter: Arc<Limiter<ClientId>>,
    resolver: Arc<Resolver<ClientId>>,
    network: Arc<dyn Network>,
    connectors: Mutex<BTreeMap<TunnelId, Arc<Connector>>>,
    carried: Carried,
    associations: Arc<Associations>,
    next_association: AtomicU32,
    /// Whether far is of a version that does not tell near's clients apart, once it is known.
    far_is_old: Mutex<Option<bool>>,
    tasks: Tasks,
}

impl Near {
    /// Established tunnels, that over all paths first.
    pub fn tunnels(&self) -> Vec<(TunnelId, Tunnel)> {
        let connectors = self.shared.connectors.lock();
        let established = connectors
            .iter()
            .filter_map(|(id, connector)| Some((id.clone(), connector.established()?)));
        established.collect()
    }

    /// Keys of the open listeners with their addresses.
    pub async fn addresses(&self) -> Vec<(String, SocketAddr)> {
        self.listeners.lock().await.addresses()
    }
}

impl Gateway for Near {
    type Config = config::Near;

    async fn start_on(
        network: Arc<dyn Network>,
        config: config::Near,
        identity: Arc<Identity>,
        counters: Arc<Counters>,
    ) -> anyhow::Result<Near> {
        if config.tunnel.carrier == config::Carrier::Mptcp {
            let paths = config.paths.clone();
            spawn_blocking(move || reconcile_endpoints(&paths)).await??;
        }
        let associations = Associations::new(counters.clone());
        let shared = Arc::new(Shared {
            limiter: Limiter::new(&config.limits),
            resolver: Arc::new(Resolver::new(None)),
            network,
            config: Live::new(config),
            identity,
            counters,
            connectors: Mutex::default(),
            carried: Carried::default(),
            associations,
            // far knows the associations of an earlier process with this key until they end.
            next_association: AtomicU32::new(u32::from_ne_bytes(random())),
            far_is_old: Mutex::default(),
            tasks: Tasks::default(),
        });
        let closed = shared.tasks.closed().clone().drop_guard();
        let mut listeners = Listeners::default();
        if let Some((_, fault)) = listeners.apply(&shared).await.into_iter().next() {
            anyhow::bail!(fault);
        }
        shared.connector(TunnelId::All);
        let tasks = &shared.tasks;
        tasks.supervise("data caps", caps::enforce(shared.clone()));
        if shared.config().tunnel.carrier == config::Carrier::Mptcp {
            tasks.supervise("fastest path", fastest::prepare(shared.clone()));
        }
        Ok(Near {
            shared,
            listeners: listeners.into(),
            _closed: closed,
        })
    }

    async fn apply(&self, new: config::Near) -> (config::Near, Vec<String>) {
        let shared = &self.shared;
        let old = shared.config();
        let mut new = old.reloaded(new);
        shared.limiter.replace(&new.limits);
        shared.config.set(new.clone());
        let mut peers = old.tunnel.peers.iter();
        if peers.any(|peer| new.tunnel.peer(&peer.key).is_none()) {
            for tunnel in shared.established() {
                tunnel.close("a key was removed from tunnel.peers of near");
            }
        }
        let faults = self.listeners.lock().await.apply(shared).await;
        let (closed, faults): (Vec<_>, Vec<_>) = faults.into_iter().unzip();
        new.remove_services(&closed);
        (new, faults)
    }

    fn named_tunnels(&self) -> Vec<(String, Tunnel)> {
        let name = |id: TunnelId| match id {
            TunnelId::All => String::new(),
            TunnelId::Path(_) | TunnelId::Datagrams(_) => id.to_string(),
        };
        let tunnels = self.tunnels().into_iter();
        tunnels.map(|(id, tunnel)| (name(id), tunnel)).collect()
    }

    fn failures(&self) -> Vec<String> {
        let connectors = self.shared.connectors.lock();
        let failures = connectors.iter().filter_map(|(id, connector)| {
            let why = connector.failure()?;
            Some(format!("{id}: {why}"))
        });
        failures.collect()
    }

    async fn failed(&self) -> &anyhow::Error {
        self.shared.tasks.failed().await
    }

    fn active(&self) -> usize {
        self.shared.limiter.active()
    }

    async fn stop_accepting(&self) {
        self.listeners.lock().await.close().await;
    }

    async fn close_all(&self) {
        self.stop_accepting().await;
        self.shared.tasks.close().await;
        // Waits for processes; fails only if it panics.
        let _ = spawn_blocking(remove_endpoints).await;
    }
}

impl Shared {
    fn config(&self) -> Arc<config::Near> {
        self.config.get()
    }

    /// Established tunnels.
    fn established(&self) -> Vec<Tunnel> {
        let connectors = self.connectors.lock();
        let established = connectors.values().filter_map(|it| it.established());
        established.collect()
    }

    /// Whether a tunnel that was started fails, or nothing returns over it.
    fn is_silent(&self, id: &TunnelId) -> bool {
        let connector = self.connectors.lock().get(id).cloned();
        connector.is_some_and(|connector| match connector.established() {
            Some(tunnel) => !tunnel.works(),
            None => connector.failure().is_some(),
        })
    }

    /// Connector of a tunnel, which is started when it is needed first. `None` if there is no such
    /// path.
    fn connector(self: &Arc<Self>, id: TunnelId) -> Option<Arc<Connector>> {
        let mut connectors = self.connectors.lock();
        if let Some(connector) = connectors.get(&id) {
            return Some(connector.clone());
        }
        let paths = id.paths(&self.config())?;
        let connector = Arc::new(Connector::default());
        connectors.insert(id.clone(), connector.clone());
        let run = connector.clone().run(self.clone(), id.clone(), paths);
        self.tasks.supervise(id.to_string(), run);
        Some(connector)
    }
}
