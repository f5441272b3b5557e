//! `far`: accepts tunnels, and connects out for the streams in them.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, interval, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use crate::carrier::{self, Lines, Listener, Stream, Tunnel};
use crate::config::destination::Destinations;
use crate::config::difference::Differs;
use crate::config::{self, Live};
use crate::counters::{Counters, Held};
use crate::gateway::Gateway;
use crate::itcp;
use crate::keys::PublicKey;
use crate::names::Resolver;
use crate::names::dns::Query;
use crate::network::Network;
use crate::tls::Identity;
use crate::traffic::association::Associations;
use crate::traffic::limits::Limiter;
use crate::traffic::tasks::Tasks;
use crate::wire::Reply;

mod stream;

/// Interval at which failed handshakes are counted.
const COUNT: Duration = Duration::from_millis(250);

/// Age at which a tunnel is logged.
const STEADY: Duration = Duration::from_millis(500);

/// Characters of a public key that name a peer.
const SHORT_KEY: usize = 9;

/// Reason for which a tunnel is closed, or not accepted.
const REMOVED: &str = "this key is not in tunnel.peers of far any more";

/// A running `far`.
#[derive(Debug)]
pub struct Far(Arc<Shared>);

/// State shared by all tasks.
#[derive(Debug)]
struct Shared {
    config: Live<config::Far>,
    /// Listener, which the task that accepts holds.
    listener: Weak<Listener>,
    identity: Arc<Identity>,
    counters: Arc<Counters>,
    /// Limits of clients, which are keys, whatever the number of their tunnels.
    limiter: Arc<Limiter<PublicKey>>,
    resolver: Arc<Resolver<PublicKey>>,
    network: Arc<dyn Network>,
    tunnels: Mutex<HashMap<u64, (PublicKey, Tunnel)>>,
    next_tunnel: AtomicU64,
    /// Lines of each peer in the log.
    lines: Mutex<HashMap<PublicKey, Lines>>,
    associations: Mutex<HashMap<PublicKey, Weak<Associations>>>,
    tasks: Tasks,
    /// Cancelled when no more tunnels and streams are accepted.
    stopped: CancellationToken,
}

/// A tunnel with its peer, and the peer's associations.
struct Session {
    tunnel: Tunnel,
    number: u64,
    peer: PublicKey,
    associations: Arc<Associations>,
    /// Whether another carrier of near was logged.
    is_warned: AtomicBool,
}

impl Far {
    /// Established tunnels with their peers' keys.
    pub fn tunnels(&self) -> Vec<(PublicKey, Tunnel)> {
        self.0.tunnels.lock().values().cloned().collect()
    }

    /// Name of a peer: as configured, or the end of its key, because all begin alike.
    fn name(&self, peer: &PublicKey) -> String {
        let config = self.0.config();
        let named = config.tunnel.peer(peer).and_then(|it| it.name.clone());
        named.unwrap_or_else(|| {
            let key = peer.to_string();
            key[key.len().saturating_sub(SHORT_KEY)..].to_owned()
        })
    }
}

impl Gateway for Far {
    type Config = config::Far;

    async fn start_on(
        network: Arc<dyn Network>,
        config: config::Far,
        identity: Arc<Identity>,
        counters: Arc<Counters>,
    ) -> anyhow::Result<Far> {
        let bound = carrier::Far {
            listen: config.listen,
            settings: config.settings(),
        };
        let listener = Arc::new(Listener::bind_over(&*network.udp(), &bound, &identity).await?);
        let shared = Arc::new(Shared {
            limiter: Limiter::new(&config.limits),
            resolver: Arc::new(Resolver::new(config.resolver)),
            network,
            config: Live::new(config),
            listener: Arc::downgrade(&listener),
            identity,
            counters,
            tunnels: Mutex::default(),
            next_tunnel: AtomicU64::new(0),
            lines: Mutex::default(),
            associations: Mutex::default(),
            tasks: Tasks::default(),
            stopped: CancellationToken::new(),
        });
        let accept = shared.clone().accept(listener);
        shared.tasks.supervise("accepting tunnels", accept);
        Ok(Far(shared))
    }

    async fn apply(&self, new: config::Far) -> (config::Far, Vec<String>) {
        let shared = &self.0;
        let new = shared.config().reloaded(new);
        shared.limiter.replace(&new.limits);
        shared.resolver.set_server(new.resolver);
        if let Some(listener) = shared.listener.upgrade() {
            listener.set_settings(&new.settings());
        }
        shared.config.set(new.clone());
        // A tunnel that is not among them yet finds the new configuration and keys.
        for (peer, tunnel) in shared.tunnels.lock().values() {
            if shared.identity.accepts(peer) {
                tunnel.set_limits(&new.settings().limits);
            } else {
                tunnel.close(REMOVED);
            }
        }
        (new, Vec::new())
    }

    fn named_tunnels(&self) -> Vec<(String, Tunnel)> {
        let tunnels = self.tunnels().into_iter();
        tunnels
            .map(|(peer, tunnel)| (self.name(&peer), tunnel))
            .collect()
    }

    async fn failed(&self) -> &anyhow::Error {
        self.0.tasks.failed().await
    }

    fn active(&self) -> usize {
        self.0.limiter.active()
    }

    async fn stop_accepting(&self) {
        self.0.stopped.cancel();
    }

    async fn close_all(&self) {
        self.0.stopped.cancel();
        self.0.tasks.close().await;
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        self.0.stopped.cancel();
        self.0.tasks.closed().cancel();
    }
}

impl Shared {
    fn config(&self) -> Arc<config::Far> {
        self.config.get()
    }

    /// Destinations that this peer may reach.
    fn allow(&self, peer: &PublicKey) -> Destinations {
        let config = self.config();
        let own = config.tunnel.peer(peer).and_then(|it| it.allow.as_ref());
        own.unwrap_or(&config.allow).clone()
    }

    /// Whether this peer may ask for a name: with a list of its own for one that the list has.
    fn may_ask(&self, peer: &PublicKey, query: &Query<'_>) -> bool {
        let config = self.config();
        let own = config.tunnel.peer(peer).and_then(|it| it.allow.as_ref());
        own.is_none_or(|own| query.name().is_some_and(|name| own.names(&name)))
    }

    /// Associations with this peer, which all its tunnels share.
    fn associations(&self, peer: &PublicKey) -> Arc<Associations> {
        let mut all = self.associations.lock();
        all.retain(|_, associations| associations.strong_count() > 0);
        if let Some(known) = all.get(peer).and_then(Weak::upgrade) {
            return known;
        }
        let new = Associations::new(self.counters.clone());
        all.insert(peer.clone(), Arc::downgrade(&new));
        new
    }

    /// Accepts tunnels until this is stopped or fails, and counts failed handshakes.
    async fn accept(self: Arc<Self>, listener: Arc<Listener>) {
        let failed = &self.counters.handshakes_failed;
        let mut counted = 0;
        let mut tick = interval(COUNT);
        loop {
            tokio::select! {
                biased;
                () = self.stopped.cancelled() => break,
                _ = tick.tick() => {
                    let refused = listener.refused();
                    failed.add(refused - counted);
                    counted = refused;
                }
                accepted = listener.accept() => match accepted {
                    Ok((tunnel, peer)) => drop(self.tasks.spawn(self.clone().serve(tunnel, peer))),
                    Err(error) => {
                        return self.tasks.fail(error.context("no more tunnels are accepted"));
                    }
                },
            }
        }
        // The listener may carry established tunnels: it stays until they are closed.
        std::future::pending().await
    }

    /// Counts a tunnel among those of its peer.
    ///
    /// # Errors
    /// The reason for which it is not accepted: the key was removed, or has as many tunnels as it
    /// may have.
    fn enter<'a>(
        &'a self,
        number: u64,
        tunnel: &'a Tunnel,
        peer: &PublicKey,
    ) -> Result<Entry<'a>, String> {
        let mut tunnels = self.tunnels.lock();
        if !self.identity.accepts(peer) {
            return Err(REMOVED.to_owned());
        }
        let config = self.config();
        let most = config.limits.tunnels_per_client;
        if tunnels.values().filter(|(other, _)| other == peer).count() >= most {
            return Err(format!(
                "this key has {most} tunnels: limits.tunnels_per_client of far"
            ));
        }
        // Limits and keys may have changed since its handshake began.
        tunnel.set_limits(&config.settings().limits);
        tunnels.insert(number, (peer.clone(), tunnel.clone()));
        self.counters.tunnels_established.increment();
        Ok(Entry {
            shared: self,
            number,
            tunnel,
            _active: self.counters.active_tunnels.hold(),
        })
    }

    /// Serves a tunnel until it is closed.
    async fn serve(self: Arc<Self>, tunnel: Tunnel, peer: PublicKey) {
        let number = self.next_tunnel.fetch_add(1, Ordering::Relaxed);
        let entry = match self.enter(number, &tunnel, &peer) {
            Ok(entry) => entry,
            Err(reason) => {
                self.counters.tunnels_refused.increment();
                self.log(&peer, number, &format!("tunnel refused: {reason}"));
                return tunnel.close(&reason);
            }
        };
        let itcp = self.config().tunnel.itcp.clone();
        let session = Session {
            tunnel: tunnel.clone(),
            number,
            associations: self.associations(&peer),
            peer: peer.clone(),
            is_warned: AtomicBool::new(false),
        };
        // A near whose handshakes have waited takes one, and drops the others without a word.
        let served = async {
            tokio::select! {
                () = stream::accept(&self, session) => {}
                () = itcp::adjust(&tunnel, itcp) => {}
            }
            tunnel.closed().await.to_string()
        };
        tokio::pin!(served);
        let early = timeout(STEADY, &mut served).await;
        let is_dropped = |reason: &String| !reason.contains("by the peer: ");
        if early.as_ref().is_ok_and(is_dropped) {
            return;
        }
        self.log(&peer, number, "tunnel established");
        let reason = match early {
            Ok(reason) => reason,
            Err(_) => served.await,
        };
        drop(entry);
        self.log(&peer, number, &reason);
    }

    /// Logs a tunnel's life. A peer cannot fill the log: it has some lines at once, and then one in
    /// ten seconds.
    fn log(&self, peer: &PublicKey, tunnel: u64, what: &str) {
        let mut lines = self.lines.lock();
        lines.retain(|key, _| key == peer || self.identity.accepts(key));
        let of_peer = lines.entry(peer.clone());
        let of_peer = of_peer.or_insert_with(Lines::of_peer);
        match of_peer.count(Instant::now()) {
            Some(0) => info!(tunnel, %peer, "{what}"),
            Some(unlogged) => info!(tunnel, %peer, unlogged, "{what}"),
            None => debug!(tunnel, %peer, "{what}"),
        }
    }
}

/// Entry of a tunnel in the table. When it is dropped, be it by a panic, the tunnel is closed.
struct Entry<'a> {
    shared: &'a Shared,
    number: u64,
    tunnel: &'a Tunnel,
    _active: Held<'a>,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.shared.tunnels.lock().remove(&self.number);
        self.tunnel.close("far stops");
        self.shared.counters.tunnels_closed.increment();
    }
}

/// Answers that the request succeeded.
async fn confirm(stream: &mut Stream) -> io::Result<()> {
    stream.writer.write_all(&[Reply::Succeeded as u8]).await?;
    stream.writer.flush().await
}

/// Answers that the request failed.
async fn refuse(mut stream: Stream, reply: Reply) -> io::Result<()> {
    stream.writer.write_all(&[reply as u8]).await?;
    stream.writer.shutdown().await
}
