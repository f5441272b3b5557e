//! Acceptance of tunnels at `far`.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::Inner;
use super::library::{self, Incoming, Server};
use crate::Tunnel;
use crate::config::{self, Live, Settings};
use crate::handshakes::{Handshakes, Place, Stage};
use crate::keys::PublicKey;
use crate::tls::Identity;
use crate::udp::{self, Udp};

/// Accepts tunnels on one socket.
#[derive(Debug)]
pub struct Listener {
    server: Server,
    settings: Arc<Live<Settings>>,
    accepted: Mutex<mpsc::Receiver<(Tunnel, PublicKey)>>,
    handshakes: Arc<Handshakes>,
    identity: Arc<Identity>,
    /// Stops accepting tunnels. The socket is closed with the last of those that were accepted.
    _stop: DropGuard,
}

/// State shared by all handshakes.
struct Accepting {
    settings: Arc<Live<Settings>>,
    server: Server,
    handshakes: Arc<Handshakes>,
    accepted: mpsc::Sender<(Tunnel, PublicKey)>,
}

impl Listener {
    /// Listens at the configured address; both families at `[::]`.
    pub async fn bind(far: &config::Far, identity: &Arc<Identity>) -> anyhow::Result<Listener> {
        Listener::bind_over(&udp::Kernel, far, identity).await
    }

    /// [`Listener::bind`] over these sockets.
    pub async fn bind_over(
        udp: &dyn Udp,
        far: &config::Far,
        identity: &Arc<Identity>,
    ) -> anyhow::Result<Listener> {
        library::check(&far.settings)?; // a wrong rule is an error now
        let address = far.listen;
        let socket = udp.bind_far(address);
        let socket = socket.with_context(|| format!("listen = {address}"))?;
        let server = Server::new(socket, identity)?;
        let (sender, accepted) = mpsc::channel(1);
        let handshakes = Handshakes::new();
        let settings = Arc::new(Live::new(far.settings.clone()));
        let accepting = Accepting {
            settings: settings.clone(),
            server: server.clone(),
            handshakes: handshakes.clone(),
            accepted: sender,
        };
        let (stop, stopping) = (CancellationToken::new(), server.clone());
        let stopped = stop.clone();
        tokio::spawn(async move {
            let accepting = accept(Arc::new(accepting));
            stopped.run_until_cancelled(accepting).await;
            // In the same task: the library panics at a Retry after this.
            stopping.stop();
        });
        Ok(Listener {
            server,
            settings,
            accepted: Mutex::new(accepted),
            handshakes,
            identity: identity.clone(),
            _stop: stop.drop_guard(),
        })
    }

    /// The next tunnel.
    pub async fn accept(&self) -> anyhow::Result<(Tunnel, PublicKey)> {
        let accepted = self.accepted.lock().await.recv().await;
        accepted.context("the socket of QUIC has failed")
    }

    /// Changes the settings of later handshakes and tunnels, and forgets keys that were removed.
    pub fn set_settings(&self, settings: &Settings) {
        self.handshakes.forget(|key| self.identity.accepts(key));
        self.settings.set(settings.clone());
    }

    /// Number of handshakes that have failed.
    pub fn refused(&self) -> u64 {
        self.handshakes.failures()
    }

    /// Local address.
    pub fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.server.local_addr()
    }
}

async fn accept(accepting: Arc<Accepting>) {
    while let Some(incoming) = accepting.server.accept().await {
        let handshakes = &accepting.handshakes;
        let address = incoming.address().ip();
        if handshakes.is_crowded() && !incoming.is_validated() {
            incoming.retry();
        } else if handshakes.has_room(address) && incoming.has_hello() {
            // Without a ClientHello it takes no place and gets no answer.
            let place = handshakes.enter(Stage::Key, address);
            tokio::spawn(handshake(accepting.clone(), incoming, place));
        } else {
            handshakes.ignored();
            incoming.ignore();
        }
    }
}

async fn handshake(accepting: Arc<Accepting>, incoming: Incoming, place: Place) {
    let address = incoming.address();
    let settings = accepting.settings.get();
    let established = async {
        let handshakes = &accepting.handshakes;
        let proved = |key: &PublicKey| handshakes.proved(key, address.ip());
        let shaken = accepting.server.shake_hands(incoming, &settings, proved);
        let (connection, peer) = shaken.await?;
        let opened = Inner::far(connection, &settings.limits, handshakes.lines_of(&peer)).await;
        let inner = opened.map_err(|closed| anyhow!(closed.0))?;
        Ok((Tunnel::new(inner), peer))
    };
    let result = place.run(settings.limits.handshake, established).await;
    drop(place);
    match result {
        // Fails when nobody accepts any more.
        Ok(tunnel) => drop(accepting.accepted.send(tunnel).await),
        Err(error) => accepting.handshakes.failed(address, &error),
    }
}
