//! `near`: accepts local traffic and carries it to `far`, by the rules of its configuration.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ring::rand::{self, SystemRandom};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::carrier::Tunnel;
use crate::config::difference::Differs;
use crate::config::{self, live::Live};
use crate::counters::Counters;
use crate::names::Resolver;
use crate::network::{Kernel, Network};
use crate::tls::Identity;
use crate::traffic::FAREWELL;
use crate::traffic::association::Associations;
use crate::traffic::limits::Limiter;

mod caps;
mod dns;
mod listener;
mod manager;
mod proxy;
mod route;
pub mod socks;
mod tcp;
mod udp;
mod way;

pub use way::Way;

use caps::Carried;
use listener::Listeners;
use manager::Manager;

/// A running `near`.
#[derive(Debug)]
pub struct Near {
    shared: Arc<Shared>,
    listeners: tokio::sync::Mutex<Listeners>,
}

/// At random: far knows the associations of an earlier process with this key until they end.
fn first_association() -> u32 {
    let random: Result<rand::Random<[u8; 4]>, _> = rand::generate(&SystemRandom::new());
    random.map_or(0, |random| u32::from_be_bytes(random.expose()))
}

/// What all tasks share.
#[derive(Debug)]
struct Shared {
    config: Live<config::Near>,
    identity: Arc<Identity>,
    counters: Arc<Counters>,
    limiter: Arc<Limiter<IpAddr>>,
    resolver: Arc<Resolver<IpAddr>>,
    network: Arc<dyn Network>,
    managers: Mutex<BTreeMap<Way, Arc<Manager>>>,
    carried: Carried,
    associations: Arc<Associations>,
    next_association: AtomicU32,
    tasks: TaskTracker,
    /// Cancelled: every connection ends.
    closed: CancellationToken,
}

impl Near {
    /// Opens the listeners and begins to connect to `far`.
    ///
    /// # Errors
    /// If a listener cannot be opened; the message names its key.
    pub async fn start(
        config: config::Near,
        identity: Arc<Identity>,
        counters: Arc<Counters>,
    ) -> anyhow::Result<Near> {
        Near::start_on(Arc::new(Kernel), config, identity, counters).await
    }

    /// The same on this network.
    ///
    /// # Errors
    /// If a listener cannot be opened; the message names its key.
    pub async fn start_on(
        network: Arc<dyn Network>,
        config: config::Near,
        identity: Arc<Identity>,
        counters: Arc<Counters>,
    ) -> anyhow::Result<Near> {
        let associations = Associations::new(counters.clone());
        let shared = Arc::new(Shared {
            limiter: Limiter::new(&config.limits),
            resolver: Arc::new(Resolver::new(None)),
            network,
            config: Live::new(config),
            identity,
            counters,
            managers: Mutex::default(),
            carried: Carried::default(),
            associations,
            next_association: AtomicU32::new(first_association()),
            tasks: TaskTracker::new(),
            closed: CancellationToken::new(),
        });
        let mut listeners = Listeners::default();
        if let Some((_, fault)) = listeners.apply(&shared).await.into_iter().next() {
            anyhow::bail!(fault);
        }
        shared.manager(Way::All);
        shared.run(caps::enforce(shared.clone()));
        if shared.config().tunnel.carrier == config::Carrier::Mptcp {
            shared.run(route::prepare(shared.clone()));
        }
        Ok(Near {
            shared,
            listeners: listeners.into(),
        })
    }

    /// The established tunnels, that over all paths first.
    pub fn tunnels(&self) -> Vec<(Way, Tunnel)> {
        let managers = self.shared.managers();
        let established = managers
            .iter()
            .filter_map(|(way, manager)| Some((way.clone(), manager.established()?)));
        established.collect()
    }

    /// The keys of the open listeners with their addresses.
    pub async fn addresses(&self) -> Vec<(String, SocketAddr)> {
        self.listeners.lock().await.addresses()
    }

    /// Closes the listeners. Connections continue.
    pub async fn stop_accepting(&self) {
        self.listeners.lock().await.close().await;
    }

    /// Connections at present.
    pub fn active(&self) -> usize {
        self.shared.limiter.active()
    }

    /// Resets all connections, closes all tunnels and waits until everything has ended.
    pub async fn close_all(&self) {
        self.stop_accepting().await;
        self.shared.closed.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
        sleep(FAREWELL).await;
    }

    /// Applies what can change at run time: peers, listeners, `rules` and `limits`. Closes all
    /// tunnels if a peer was removed. Returns what runs now, and why listeners could not be opened.
    pub async fn apply(&self, new: config::Near) -> (config::Near, Vec<String>) {
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
}

impl Drop for Near {
    fn drop(&mut self) {
        self.shared.closed.cancel();
    }
}

impl Shared {
    fn config(&self) -> Arc<config::Near> {
        self.config.get()
    }

    fn managers(&self) -> MutexGuard<'_, BTreeMap<Way, Arc<Manager>>> {
        self.managers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The established tunnels.
    fn established(&self) -> Vec<Tunnel> {
        let managers = self.managers();
        managers
            .values()
            .filter_map(|manager| manager.established())
            .collect()
    }

    /// Runs a task until every connection ends.
    fn run(&self, task: impl Future<Output = ()> + Send + 'static) {
        let task = self.closed.clone().run_until_cancelled_owned(task);
        self.tasks.spawn(task);
    }

    /// The manager of a tunnel, which is started when it is needed first. `None` if there is no
    /// such path.
    fn manager(self: &Arc<Self>, way: Way) -> Option<Arc<Manager>> {
        if let Some(manager) = self.managers().get(&way) {
            return Some(manager.clone());
        }
        let paths = way.paths(&self.config())?;
        let mut managers = self.managers();
        let manager = managers.entry(way.clone()).or_insert_with(|| {
            let manager = Arc::new(Manager::default());
            self.run(manager.clone().run(self.clone(), way, paths));
            manager
        });
        Some(manager.clone())
    }
}
