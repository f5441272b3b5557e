//! The tunnel over TLS 1.3 on one connection of the kernel: Multipath TCP, or plain TCP where a
//! kernel has none or a middlebox strips it. Congestion control is the kernel's, by a program of
//! `anabranch-kernel`; paths are opened by the kernel's path manager.
//!
//! **A second connection** (`join`) of plain TCP carries what must not wait for bulk data, while
//! its path works.
//!
//! **Data that is unsent in the kernel** (`allowance`) has a limit of its own.
//!
//! **Streams** (`mux`) take turns of 4 kB each; a stream also takes turns that no other waits for.
//! Their windows cover one to two seconds of their rates.
//!
//! **Datagrams** go before all streams, but share one ordered sequence of bytes with some of them:
//! a lost segment, or one on a slow path, delays the datagrams behind it (head-of-line blocking).
//! So near sends them over QUIC where it can.

use std::sync::Arc;
use std::time::Duration;

use anabranch_quic::watch::SILENCE;
use anyhow::{anyhow, bail};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use socket2::Protocol;
use tokio::time::{Instant, timeout};

use crate::failure::{self, End, KEY_REFUSED, Refused};
use crate::supervisor::Supervisor;
use crate::tls::{self, Identity};
use crate::{Carried, Closed, NotSent, PathState, Stream, Tunnel, config, quic};

mod allowance;
mod core;
mod driver;
mod endpoints;
mod join;
mod kappa;
mod listener;
mod maintain;
pub mod mux;
mod paths;
mod socket;
mod stream;

use core::Core;
pub use endpoints::{reconcile as reconcile_endpoints, remove_all as remove_endpoints};
use kappa::Kappas;
pub use listener::Listener;
use mux::{Lane, Role};
use paths::Paths;

/// A connection with an authenticated peer.
type Tls = tokio_rustls::TlsStream<driver::Socket>;

/// Time for the TCP connection, the TLS handshake and the first messages on one path.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// Connects over the first of these paths on which a handshake succeeds.
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
    let mut is_refused = false;
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
            Ok(Some((path, Ok(Err(error))))) => {
                is_refused |= error.is::<Refused>();
                failures.push((&*path.name, format!("{error:#}")));
            }
            Ok(Some((path, Err(_)))) => {
                let no_far = failure::of_stranger(End::Near);
                let words = format!("no handshake over TCP in {HANDSHAKE:?}: {no_far}");
                failures.push((&*path.name, words));
            }
            Ok(None) if is_refused && quic::answers(near).await => {
                bail!("far = {}: {}", near.far, failure::NO_TCP)
            }
            Ok(None) => bail!(failure::line(&near.far, &failures)),
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
    let protocol = match used_paths(near) {
        1 => Protocol::TCP,
        _ => Protocol::MPTCP,
    };
    let (tls, socket) = connect_tls(near, identity, path, rule, protocol).await?;
    let core = Core::new(
        socket,
        rule,
        (Role::Near, near.settings.limits),
        Paths::near(&near.paths),
        kappas(rule, &near.settings)?,
    );
    let established = establish(tls, core.clone(), Some(near.clone())).await;
    let tunnel = established.map_err(refused)?;
    if used_paths(near) > 1 && !core.has_kappa() {
        let joining = join::keep(near.clone(), identity.clone(), core.clone());
        supervisor(&core).spawn(joining);
    }
    Ok(tunnel)
}

/// Error where `far` ends a connection before its first message. A reset may come before the
/// reason.
fn refused(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<Closed>() {
        Ok(Closed(reason)) if reason == driver::CLOSED => anyhow!(KEY_REFUSED),
        Ok(Closed(reason)) => anyhow!(reason),
        Err(error) => error,
    }
}

/// Connects over this path to `far`, which must accept the key. Returns the connection and a
/// duplicate of its socket.
async fn connect_tls(
    near: &config::Near,
    identity: &Arc<Identity>,
    path: &config::Path,
    rule: &str,
    protocol: Protocol,
) -> anyhow::Result<(Tls, socket2::Socket)> {
    let (stream, _opened) = socket::connect(&near.far, path, rule, protocol).await?;
    let socket = socket::duplicate(&stream)?;
    let connector = tokio_rustls::TlsConnector::from(Arc::new(identity.client()));
    let name = tls::SERVER_NAME.try_into().expect("a valid name");
    let stream = driver::buffered(stream);
    let tls = connector.connect(name, stream).await;
    let tls = tls.map_err(|error| anyhow!(failure::of_handshake(&error, End::Near)))?;
    Ok((tls.into(), socket))
}

/// Number of paths that may carry data.
fn used_paths(near: &config::Near) -> usize {
    let used = |path: &&config::Path| path.role != config::Role::Never;
    near.paths.iter().filter(used).count()
}

/// Starts the tasks of a tunnel over this connection, on `near` also the one that opens paths, and
/// waits for the peer's first message.
async fn establish(
    tls: Tls,
    core: Arc<Core>,
    near: Option<config::Near>,
) -> anyhow::Result<Tunnel> {
    core.update_paths();
    let tasks = supervisor(&core);
    tasks.spawn(driver::run(tls, core.clone(), Lane::Bulk));
    let handle = Handle(core.clone());
    let established = |mux: &mut mux::Mux| mux.is_established().then_some(());
    core.wait(&core.changes.can_open, established).await?;
    tasks.spawn(maintain::maintain(core, near));
    Ok(Tunnel::new(handle))
}

/// The supervisor of this tunnel's tasks.
fn supervisor(core: &Arc<Core>) -> Supervisor {
    let closing = core.clone();
    Supervisor::new(move |reason| {
        closing.close(reason);
        Lane::ALL.iter().for_each(|lane| closing.end(*lane));
    })
}

/// Kappa of the rule's connections; `None` if the rule has none, or if kappa cannot be set and need
/// not be.
fn kappas(rule: &str, settings: &config::Settings) -> anyhow::Result<Option<Kappas>> {
    if rule != kappa::RULE {
        return Ok(None);
    }
    let kappas = Kappas::open();
    if settings.sets_kappa {
        kappas.map(Some)
    } else {
        Ok(kappas.ok())
    }
}

/// The users' end of a tunnel.
#[derive(Debug)]
struct Handle(Arc<Core>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.close_by_user("dropped");
    }
}

impl Carried for Handle {
    fn carrier(&self) -> config::Carrier {
        config::Carrier::Mptcp
    }

    fn open(&self) -> BoxFuture<'_, Result<Stream, Closed>> {
        let core = &self.0;
        let open = |mux: &mut mux::Mux| mux.open(Instant::now());
        Box::pin(async move {
            let id = core.wait(&core.changes.can_open, open).await?;
            Ok(stream::new(id, core))
        })
    }

    fn accept(&self) -> BoxFuture<'_, Result<Stream, Closed>> {
        let core = &self.0;
        Box::pin(async move {
            let id = core.wait(&core.changes.opened, mux::Mux::accept).await?;
            Ok(stream::new(id, core))
        })
    }

    fn send_datagram(&self, datagram: Bytes) -> Result<(), NotSent> {
        self.0.check().map_err(NotSent::Closed)?;
        if datagram.len() > mux::LARGEST_DATAGRAM {
            return Err(NotSent::TooLarge(mux::LARGEST_DATAGRAM));
        }
        self.0.mux(|mux| mux.send_datagram(datagram));
        Ok(())
    }

    fn datagrams_waiting_bytes(&self) -> usize {
        self.0.mux(|mux| mux.datagrams_waiting_bytes())
    }

    fn receive_datagram(&self) -> BoxFuture<'_, Result<Bytes, Closed>> {
        let core = &self.0;
        Box::pin(core.wait(&core.changes.datagram, mux::Mux::receive_datagram))
    }

    fn closed(&self) -> BoxFuture<'_, Closed> {
        Box::pin(self.0.until_ended())
    }

    fn close(&self, reason: &str) {
        self.0.close_by_user(reason);
    }

    fn set_limits(&self, _: &config::Limits) {}

    fn paths(&self) -> Vec<PathState> {
        self.0.update_paths();
        self.0.paths().states()
    }

    fn turn_off(&self, _: &str) {}

    fn unsent_bytes(&self) -> u64 {
        self.0.unsent_bytes()
    }

    fn accepted_bytes(&self) -> u64 {
        self.0.mux(|mux| mux.accepted_bytes())
    }

    fn kappa(&self) -> Option<f64> {
        self.0.kappa()
    }

    fn set_kappa(&self, kappa: f64) {
        self.0.set_kappa(kappa);
    }
}
