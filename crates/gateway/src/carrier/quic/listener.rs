//! `far` accepts tunnels.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use noq::crypto::rustls::QuicServerConfig;
use noq::rustls::pki_types::CertificateDer;
use noq::{Connection, Endpoint, Incoming, ServerConfig, TokioRuntime};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;

use super::{Tunnel, settings, socket};
use crate::config::{self, live::Live};
use crate::keys::PublicKey;
use crate::socket::bind_udp;
use crate::tls::{self, Identity};

/// Handshakes that may be in progress at a time; a client beyond them is refused.
const HANDSHAKES: usize = 256;

/// Handshakes in progress beyond which a client must first show that it receives what is sent to
/// its address (RFC 9000, section 8.1.2).
const UNVALIDATED: usize = 32;

/// Accepts tunnels on one socket.
#[derive(Debug)]
pub struct Listener {
    endpoint: Endpoint,
    far: Arc<Live<config::Far>>,
    accepted: Mutex<mpsc::Receiver<(Tunnel, PublicKey)>>,
    refused: Arc<AtomicU64>,
    accepting: JoinHandle<()>,
}

/// What every handshake needs.
struct Handshakes {
    far: Arc<Live<config::Far>>,
    server: ServerConfig,
    permits: Arc<Semaphore>,
    refused: Arc<AtomicU64>,
    accepted: mpsc::Sender<(Tunnel, PublicKey)>,
}

impl Listener {
    /// Listens at the configured address; both families at `[::]`.
    pub async fn bind(far: &config::Far, identity: &Arc<Identity>) -> anyhow::Result<Listener> {
        settings::controller(&far.tunnel)?; // a wrong rule is an error now
        let address = far.listen;
        let socket = bind_udp(address).with_context(|| format!("listen = {address}"))?;
        socket::set_buffers(&socket);
        let crypto = QuicServerConfig::try_from(identity.server())?;
        let server = ServerConfig::with_crypto(Arc::new(crypto));
        let config = settings::endpoint(identity)?;
        let runtime = Arc::new(TokioRuntime);
        let endpoint = Endpoint::new(config, Some(server.clone()), socket, runtime)?;
        let (sender, accepted) = mpsc::channel(1);
        let refused = Arc::new(AtomicU64::new(0));
        let far = Arc::new(Live::new(far.clone()));
        let handshakes = Handshakes {
            far: far.clone(),
            server,
            permits: Arc::new(Semaphore::new(HANDSHAKES)),
            refused: refused.clone(),
            accepted: sender,
        };
        let accepting = tokio::spawn(accept(endpoint.clone(), Arc::new(handshakes)));
        Ok(Listener {
            endpoint,
            far,
            accepted: Mutex::new(accepted),
            refused,
            accepting,
        })
    }

    /// The next tunnel.
    pub async fn accept(&self) -> anyhow::Result<(Tunnel, PublicKey)> {
        let accepted = self.accepted.lock().await.recv().await;
        accepted.context("the listener is closed")
    }

    /// Changes the configuration of later handshakes and tunnels.
    pub fn set_config(&self, far: &config::Far) {
        self.far.set(far.clone());
    }

    /// Handshakes that failed.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Where it listens.
    pub fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.endpoint.local_addr()
    }
}

impl Drop for Listener {
    /// Accepts no more tunnels. The socket is closed with the last of those that were accepted.
    fn drop(&mut self) {
        self.accepting.abort();
        self.endpoint.set_server_config(None);
    }
}

async fn accept(endpoint: Endpoint, handshakes: Arc<Handshakes>) {
    while let Some(incoming) = endpoint.accept().await {
        let Ok(permit) = handshakes.permits.clone().try_acquire_owned() else {
            handshakes.refused.fetch_add(1, Ordering::Relaxed);
            incoming.refuse();
            continue;
        };
        let in_progress = HANDSHAKES - handshakes.permits.available_permits();
        if in_progress > UNVALIDATED && !incoming.remote_address_validated() {
            // Fails for a client that must not be asked again, which is one that was validated.
            let _ = incoming.retry();
            continue;
        }
        tokio::spawn(handshake(handshakes.clone(), incoming, permit));
    }
}

async fn handshake(handshakes: Arc<Handshakes>, incoming: Incoming, _: OwnedSemaphorePermit) {
    let address = incoming.remote_address();
    let timeout = Duration::from_secs_f64(handshakes.far.get().limits.handshake_s);
    let result = tokio::time::timeout(timeout, authenticate(&handshakes, incoming)).await;
    let result = result.unwrap_or_else(|_| bail!("no handshake within {timeout:?}"));
    match result {
        // Fails when nobody accepts any more.
        Ok(tunnel) => drop(handshakes.accepted.send(tunnel).await),
        Err(error) => {
            handshakes.refused.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(%address, "handshake failed: {error:#}");
        }
    }
}

async fn authenticate(
    handshakes: &Handshakes,
    incoming: Incoming,
) -> anyhow::Result<(Tunnel, PublicKey)> {
    let far = handshakes.far.get();
    let controller = settings::controller(&far.tunnel)?;
    let mut server = handshakes.server.clone();
    server.transport_config(Arc::new(settings::transport(&controller, &far.limits)));
    let connection = incoming.accept_with(Arc::new(server))?.await?;
    let peer = peer_key(&connection)?;
    if !connection.is_multipath_enabled() {
        bail!("near has no multipath extension");
    }
    let tunnel = Tunnel::accepted(connection, controller, &far.limits).await?;
    Ok((tunnel, peer))
}

fn peer_key(connection: &Connection) -> anyhow::Result<PublicKey> {
    let identity = connection.peer_identity().context("no key")?;
    let certificates = identity.downcast::<Vec<CertificateDer<'static>>>();
    let certificates = certificates.map_err(|_| anyhow::anyhow!("no key"))?;
    Ok(tls::peer_key(&certificates)?)
}
