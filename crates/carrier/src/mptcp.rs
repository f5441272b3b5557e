//! The tunnel over TLS 1.3 on one connection of the kernel: Multipath TCP, or plain TCP
//! where a kernel has none or a middlebox strips it. Congestion control is the kernel's, by a
//! program of `anabranch-kernel`; paths are opened by the kernel's path manager.
//!
//! **What is unsent in the kernel** (`allowance`) has a limit of its own.
//!
//! **Streams** (`mux`) take turns of 4 kB each; one also takes turns that no other waits for. Their
//! windows cover one to two seconds of their rates.
//!
//! **Datagrams** go before all streams, but share one ordered sequence of bytes with them: a lost
//! segment, or one on a slow path, delays the datagrams behind it (head-of-line blocking). So near
//! sends them over QUIC where it can.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use socket2::Protocol;
use tokio::time::{Instant, timeout};

use super::{Closed, NotSent, PathState, SILENCE, Stream};
use crate::config;
use crate::tls::{self, Identity};

mod allowance;
mod core;
mod driver;
mod endpoints;
mod interfaces;
mod listener;
mod maintain;
pub mod mux;
mod paths;
mod socket;
mod stream;
mod weight;

use core::Core;
pub use endpoints::remove_all as remove_endpoints;
pub use listener::Listener;
use mux::Role;
use paths::Paths;
use weight::Weights;

/// Time for the TCP connection, the TLS handshake and the first messages on one path.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// Connects over the first of these paths that can handshake.
///
/// # Errors
/// If no path can handshake, or if the rule is not registered in the kernel.
pub async fn connect(near: &config::Near, identity: &Arc<Identity>) -> anyhow::Result<Tunnel> {
    let rule = socket::kernel_rule(&near.settings.algorithm)?;
    let mut used: Vec<_> = near.paths.iter().collect();
    used.retain(|path| path.role != config::Role::Never);
    used.sort_by_key(|path| path.role == config::Role::Backup);
    let mut untried = used.into_iter();
    let mut attempts = FuturesUnordered::new();
    let mut failures = Vec::new();
    loop {
        let mut patience = HANDSHAKE;
        if let Some(path) = untried.next() {
            patience = SILENCE;
            let attempt = timeout(HANDSHAKE, connect_over(near, identity, path, &rule));
            attempts.push(attempt.map(move |result| (path, result)));
        }
        // A path without an answer keeps trying beside the next one.
        match timeout(patience, attempts.next()).await {
            Ok(Some((_, Ok(Ok(tunnel))))) => return Ok(tunnel),
            Ok(Some((path, Ok(Err(error))))) => failures.push(format!("{}: {error:#}", path.name)),
            Ok(Some((path, Err(_)))) => {
                failures.push(format!("{}: no answer in {HANDSHAKE:?}", path.name));
            }
            Ok(None) => bail!("no path to {}: {}", near.far, failures.join("; ")),
            Err(_) => {}
        }
    }
}

async fn connect_over(
    near: &config::Near,
    identity: &Arc<Identity>,
    path: &config::Path,
    rule: &str,
) -> anyhow::Result<Tunnel> {
    // One path needs no Multipath TCP, of which a socket's limit of unsent data is not passed on.
    let used = near
        .paths
        .iter()
        .filter(|path| path.role != config::Role::Never);
    let protocol = match used.count() {
        1 => Protocol::TCP,
        _ => Protocol::MPTCP,
    };
    let (stream, _opened) = socket::connect(&near.far, path, rule, protocol).await?;
    let socket = socket::duplicate(&stream)?;
    let connector = tokio_rustls::TlsConnector::from(Arc::new(identity.client()));
    let name = tls::SERVER_NAME.try_into().expect("a valid name");
    let stream = driver::buffered(stream);
    let tls = connector.connect(name, stream).await.context("TLS")?;
    let weights = weights(rule, &near.settings)?;
    let limits = mux::Limits::new(&near.settings.limits);
    let core = Core::new(
        socket,
        rule,
        (Role::Near, limits),
        Paths::near(&near.paths),
        weights,
    );
    establish(tls.into(), core, true).await
}

/// Starts the tasks of a tunnel over this connection, and waits for the peer's first message.
async fn establish(
    tls: tokio_rustls::TlsStream<driver::Socket>,
    core: Arc<Core>,
    opens_paths: bool,
) -> anyhow::Result<Tunnel> {
    core.update_paths();
    tokio::spawn(driver::run(tls, core.clone()));
    let tunnel = Tunnel(Arc::new(Handle(core.clone())));
    let established = |mux: &mut mux::Mux| mux.is_established().then_some(());
    core.wait(&core.changes.can_open, established).await?;
    tokio::spawn(maintain::maintain(core, opens_paths));
    Ok(tunnel)
}

/// The weights of the rule's connections, if it has any; also `None` if they cannot be set and need
/// not be.
fn weights(rule: &str, settings: &config::Settings) -> anyhow::Result<Option<Weights>> {
    if rule != weight::RULE {
        return Ok(None);
    }
    let weights = Weights::open();
    if settings.sets_kappa {
        weights.map(Some)
    } else {
        Ok(weights.ok())
    }
}

/// A tunnel; closed when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Tunnel(Arc<Handle>);

#[derive(Debug)]
struct Handle(Arc<Core>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.close_by_user("dropped");
    }
}

impl Tunnel {
    fn core(&self) -> &Arc<Core> {
        &self.0.0
    }

    /// Opens a stream; waits while the peer's limit is reached.
    ///
    /// # Errors
    /// If the tunnel is closed.
    pub async fn open(&self) -> Result<Stream, Closed> {
        let core = self.core();
        let open = |mux: &mut mux::Mux| mux.open(Instant::now());
        let id = core.wait(&core.changes.can_open, open).await?;
        Ok(stream::new(id, core))
    }

    /// The next stream that the peer has opened.
    ///
    /// # Errors
    /// If the tunnel is closed.
    pub async fn accept(&self) -> Result<Stream, Closed> {
        let core = self.core();
        let id = core.wait(&core.changes.opened, mux::Mux::accept).await?;
        Ok(stream::new(id, core))
    }

    /// Sends a datagram.
    ///
    /// # Errors
    /// If it is too large or the tunnel is closed.
    pub fn send_datagram(&self, datagram: Bytes) -> Result<(), NotSent> {
        self.core().check().map_err(NotSent::Closed)?;
        if datagram.len() > mux::LARGEST_DATAGRAM {
            return Err(NotSent::TooLarge(mux::LARGEST_DATAGRAM));
        }
        self.core().mux(|mux| mux.send_datagram(datagram));
        Ok(())
    }

    /// Datagrams that wait to be sent, bytes.
    pub fn datagrams_waiting_bytes(&self) -> usize {
        self.core().mux(|mux| mux.datagrams_waiting_bytes())
    }

    /// Whether this is the same tunnel.
    pub fn is(&self, other: &Tunnel) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The next datagram from the peer.
    ///
    /// # Errors
    /// If the tunnel is closed.
    pub async fn receive_datagram(&self) -> Result<Bytes, Closed> {
        let core = self.core();
        core.wait(&core.changes.datagram, mux::Mux::receive_datagram)
            .await
    }

    /// Waits until the tunnel is closed and the reason was sent to the peer.
    pub async fn closed(&self) -> Closed {
        self.core().until_ended().await
    }

    /// Closes the tunnel: streams end with an error on both sides.
    pub fn close(&self, reason: &str) {
        self.core().close_by_user(reason);
    }

    /// The state of each path.
    pub fn paths(&self) -> Vec<PathState> {
        self.core().update_paths();
        self.core().paths().states()
    }

    /// Data that streams have accepted and that was never sent, bytes.
    pub fn unsent_bytes(&self) -> u64 {
        self.core().unsent_bytes()
    }

    /// Data that streams have accepted since the tunnel was established, bytes.
    pub fn accepted_bytes(&self) -> u64 {
        self.core().mux(|mux| mux.accepted_bytes())
    }

    /// The weight of the rule, once it was set; before, it is the one with which it was loaded.
    pub fn kappa(&self) -> Option<f64> {
        self.core().kappa()
    }

    /// Sets the weight of the rule.
    pub fn set_kappa(&self, kappa: f64) {
        self.core().set_kappa(kappa);
    }
}
