//! The tunnel over TLS 1.3 on one connection of the kernel: Multipath TCP, or plain TCP where a
//! kernel has none or a middlebox strips it. Congestion control is the kernel's, by a program of
//! `anabranch-kernel`; paths are opened by the kernel's path manager.
//!
//! **Each stream** (`link`) is a connection of its own, which the kernel bounds, orders and
//! schedules by itself. `near` keeps some ready (`pool`): TCP and TLS are done, all paths have
//! joined, and its key is proved. A path that is dead or late is cut for all of them at once
//! (`maintain`).
//!
//! **Datagrams** take the tunnel's first connection (`control`), in order: a lost segment, or one
//! on a slow path, delays the datagrams behind it (head-of-line blocking). So near sends them over
//! QUIC where it can.

use std::sync::Arc;
use std::time::Duration;

use anabranch_quic::watch::SILENCE;
use anyhow::{anyhow, bail};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use socket2::Protocol;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::failure::{self, End, KEY_REFUSED, Refused};
use crate::shares::DatagramRoom;
use crate::tls::{self, Identity};
use crate::{Carried, Closed, NotSent, PathState, Stream, Tunnel, config, quic};

mod control;
mod core;
mod endpoints;
pub mod frame;
mod kappa;
mod link;
mod listener;
mod maintain;
mod paths;
mod pool;
mod socket;

use core::Core;
pub use endpoints::{reconcile as reconcile_endpoints, remove_all as remove_endpoints};
use frame::Token;
use kappa::Kappas;
pub use listener::Listener;
use paths::Paths;
use socket::Tls;

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
    let tls = connect_tls(near, identity, path, rule, protocol(near)).await?;
    let socket = socket::of(&tls);
    let is_ipv4 = core::is_ipv4(&socket);
    let core = Core::new(
        socket,
        rule,
        near.settings.limits,
        (Paths::near(near, is_ipv4), Token::default()),
        kappas(rule, &near.settings)?,
    );
    let end = Some((Arc::new(near.clone()), identity.clone()));
    let established = establish(tls, core.clone(), end).await;
    let tunnel = established.map_err(refused)?;
    core.supervisor()
        .spawn(pool::keep(near.clone(), identity.clone(), core));
    Ok(tunnel)
}

/// Error where `far` ends a connection before its first message. A reset may come before the
/// reason.
fn refused(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<Closed>() {
        Ok(Closed(reason)) if reason == control::CLOSED => anyhow!(KEY_REFUSED),
        Ok(Closed(reason)) => anyhow!(reason),
        Err(error) => error,
    }
}

/// Connects over this path to `far`, which must accept the key.
async fn connect_tls(
    near: &config::Near,
    identity: &Arc<Identity>,
    path: &config::Path,
    rule: &str,
    protocol: Protocol,
) -> anyhow::Result<Tls> {
    let (stream, _opened) = socket::connect(&near.far, path, rule, protocol).await?;
    over_tls(identity, stream).await
}

/// A handshake of TLS with `far`.
async fn over_tls(identity: &Arc<Identity>, stream: TcpStream) -> anyhow::Result<Tls> {
    let connector = tokio_rustls::TlsConnector::from(Arc::new(identity.client()));
    let name = tls::SERVER_NAME.try_into().expect("a valid name");
    let tls = connector.connect(name, socket::buffered(stream)).await;
    let tls = tls.map_err(|error| anyhow!(failure::of_handshake(&error, End::Near)))?;
    Ok(tls.into())
}

/// Protocol of near's connections: one path needs no Multipath TCP.
fn protocol(near: &config::Near) -> Protocol {
    let used = |path: &&config::Path| path.role != config::Role::Never;
    match near.paths.iter().filter(used).count() {
        1 => Protocol::TCP,
        _ => Protocol::MPTCP,
    }
}

/// Starts the tasks of a tunnel over this connection, on `near` also the one that opens paths, and
/// waits for the peer's first message.
async fn establish(
    tls: Tls,
    core: Arc<Core>,
    near: Option<(Arc<config::Near>, Arc<Identity>)>,
) -> anyhow::Result<Tunnel> {
    core.update_paths();
    let tasks = core.supervisor();
    tasks.spawn(control::run(tls, core.clone()));
    let handle = Handle(core.clone());
    let established = |core: &Core| core.is_established().then_some(());
    core.wait(&core.changes.can_open, established).await?;
    tasks.spawn(maintain::maintain(core, near));
    Ok(Tunnel::new(handle))
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
        Box::pin(self.0.open())
    }

    fn accept(&self) -> BoxFuture<'_, Result<Stream, Closed>> {
        Box::pin(self.0.wait(&self.0.changes.opened, Core::accept))
    }

    fn send_datagram(&self, client: u64, datagram: Bytes) -> Result<(), NotSent> {
        self.0.send_datagram(client, datagram)
    }

    fn datagram_room(&self, client: u64, bytes: usize) -> DatagramRoom {
        self.0.datagram_room(client, bytes)
    }

    fn receive_datagram(&self) -> BoxFuture<'_, Result<Bytes, Closed>> {
        Box::pin(
            self.0
                .wait(&self.0.changes.datagram, Core::receive_datagram),
        )
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

    fn works(&self) -> bool {
        self.0.paths().any_open()
    }

    fn turn_off(&self, _: &str) {}

    fn unsent_bytes(&self) -> u64 {
        self.0.unsent_bytes()
    }

    fn accepted_bytes(&self) -> u64 {
        self.0.accepted_bytes()
    }

    fn kappa(&self) -> Option<f64> {
        self.0.kappa()
    }

    fn set_kappa(&self, kappa: f64) {
        self.0.set_kappa(kappa);
    }
}
