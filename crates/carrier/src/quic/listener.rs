//! `far` accepts tunnels.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use noq::crypto::rustls::QuicServerConfig;
use noq::rustls::pki_types::CertificateDer;
use noq::{Connection, Endpoint, Incoming, ServerConfig, TokioRuntime};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;

use super::{Tunnel, describe, settings};
use crate::config::{self, Settings};
use crate::handshakes::{Handshakes, Place, Stage};
use crate::keys::PublicKey;
use crate::live::Live;
use crate::tls::{self, Identity};
use crate::udp::{self, Udp};

/// First datagrams that may wait for the task that accepts.
const INCOMING: usize = 1024;

/// Accepts tunnels on one socket.
#[derive(Debug)]
pub struct Listener {
    endpoint: Endpoint,
    settings: Arc<Live<Settings>>,
    accepted: Mutex<mpsc::Receiver<(Tunnel, PublicKey)>>,
    handshakes: Arc<Handshakes>,
    accepting: JoinHandle<()>,
}

/// What every handshake needs.
struct Accepting {
    settings: Arc<Live<Settings>>,
    server: ServerConfig,
    handshakes: Arc<Handshakes>,
    accepted: mpsc::Sender<(Tunnel, PublicKey)>,
}

impl Listener {
    /// Listens at the configured address; both families at `[::]`.
    pub async fn bind(far: &config::Far, identity: &Arc<Identity>) -> anyhow::Result<Listener> {
        Listener::bind_over(&udp::Kernel, far, identity).await
    }

    /// The same with these sockets.
    pub async fn bind_over(
        udp: &dyn Udp,
        far: &config::Far,
        identity: &Arc<Identity>,
    ) -> anyhow::Result<Listener> {
        settings::controller(&far.settings)?; // a wrong rule is an error now
        let address = far.listen;
        let socket = udp.bind_far(address);
        let socket = socket.with_context(|| format!("listen = {address}"))?;
        let crypto = QuicServerConfig::try_from(identity.server())?;
        let mut server = ServerConfig::with_crypto(Arc::new(crypto));
        server.max_incoming(INCOMING);
        let config = settings::endpoint(identity)?;
        let endpoint = Endpoint::new_with_abstract_socket(
            config,
            Some(server.clone()),
            socket,
            Arc::new(TokioRuntime),
        )?;
        let (sender, accepted) = mpsc::channel(1);
        let handshakes = Handshakes::new();
        let settings = Arc::new(Live::new(far.settings.clone()));
        let accepting = Accepting {
            settings: settings.clone(),
            server,
            handshakes: handshakes.clone(),
            accepted: sender,
        };
        let accepting = tokio::spawn(accept(endpoint.clone(), Arc::new(accepting)));
        Ok(Listener {
            endpoint,
            settings,
            accepted: Mutex::new(accepted),
            handshakes,
            accepting,
        })
    }

    /// The next tunnel.
    pub async fn accept(&self) -> anyhow::Result<(Tunnel, PublicKey)> {
        let accepted = self.accepted.lock().await.recv().await;
        accepted.context("the socket of QUIC has failed")
    }

    /// Changes the settings of later handshakes and tunnels.
    pub fn set_settings(&self, settings: &Settings) {
        self.settings.set(settings.clone());
    }

    /// Handshakes that failed.
    pub fn refused(&self) -> u64 {
        self.handshakes.failures()
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

async fn accept(endpoint: Endpoint, accepting: Arc<Accepting>) {
    while let Some(incoming) = endpoint.accept().await {
        let handshakes = &accepting.handshakes;
        let address = incoming.remote_address().ip();
        if handshakes.is_crowded() && !incoming.remote_address_validated() {
            // Asks for an answer (RFC 9000, section 8.1.2). Fails for a validated client only.
            let _ = incoming.retry();
        } else if handshakes.has_room(address) && has_hello(&incoming) {
            let place = handshakes.enter(Stage::Key, address);
            tokio::spawn(handshake(accepting.clone(), incoming, place));
        } else {
            handshakes.ignored();
            incoming.ignore();
        }
    }
}

/// Whether the first datagram has a whole ClientHello, as near's has. Without one it takes no place
/// and gets no answer.
fn has_hello(incoming: &Incoming) -> bool {
    incoming.decrypt().is_some_and(|it| it.alpns().is_some())
}

async fn handshake(accepting: Arc<Accepting>, incoming: Incoming, place: Place) {
    let address = incoming.remote_address();
    let limit = accepting.settings.get().limits.handshake;
    let result = place.run(limit, authenticate(&accepting, incoming)).await;
    drop(place);
    match result {
        // Fails when nobody accepts any more.
        Ok(tunnel) => drop(accepting.accepted.send(tunnel).await),
        Err(error) => accepting.handshakes.failed(address, &error),
    }
}

async fn authenticate(
    accepting: &Accepting,
    incoming: Incoming,
) -> anyhow::Result<(Tunnel, PublicKey)> {
    let settings = accepting.settings.get();
    let address = incoming.remote_address().ip();
    let controller = settings::controller(&settings)?;
    let mut server = accepting.server.clone();
    server.transport_config(Arc::new(settings::transport(&controller, &settings.limits)));
    let failed = |error| anyhow!(describe(&error));
    let connecting = incoming.accept_with(Arc::new(server)).map_err(failed)?;
    let connection = connecting.await.map_err(failed)?;
    let peer = peer_key(&connection)?;
    accepting.handshakes.proved(&peer, address);
    if !connection.is_multipath_enabled() {
        bail!("near has no multipath extension");
    }
    let tunnel = Tunnel::accepted(connection, controller, &settings.limits).await;
    Ok((tunnel.map_err(failed)?, peer))
}

fn peer_key(connection: &Connection) -> anyhow::Result<PublicKey> {
    let identity = connection.peer_identity().context("no key")?;
    let certificates = identity.downcast::<Vec<CertificateDer<'static>>>();
    let certificates = certificates.map_err(|_| anyhow::anyhow!("no key"))?;
    Ok(tls::peer_key(&certificates)?)
}
