//! Endpoints of both ends: their settings and handshakes.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch_control::Algorithm;
use anabranch_quic::controller::{Clock, Library, SharedController};
use anyhow::{Context, anyhow, bail};
use noq::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use noq::rustls::pki_types::CertificateDer;
use noq::{
    AsyncUdpSocket, ClientConfig, ConnectionError, Endpoint, EndpointConfig, PathId, ServerConfig,
    TokioRuntime, TransportConfig, VarInt,
};
use noq_proto::RandomConnectionIdGenerator;
use ring::hmac;

use super::sockets::{AllPaths, Sockets};
use super::{Connection, closed};
use crate::config::{BBR, Limits, Settings};
use crate::failure::{self, End};
use crate::keys::PublicKey;
use crate::tls::{self, Identity, SERVER_NAME};
use crate::window::{FIRST, LARGEST};

/// Interval of the check whether the keys were changed.
const LOOK: Duration = Duration::from_millis(2);

/// Most first datagrams that wait for the task that accepts.
const INCOMING: usize = 1024;

/// Checks that the library can apply these settings.
pub fn check(settings: &Settings) -> anyhow::Result<()> {
    controller(settings).map(drop)
}

/// The endpoint of `near`, which has one connection.
#[derive(Debug)]
pub struct Client(#[expect(dead_code, reason = "kept")] Endpoint);

impl Client {
    /// Shakes hands with `far` over this path.
    pub async fn connect(
        sockets: &Arc<Sockets>,
        first: usize,
        settings: &Settings,
        identity: &Arc<Identity>,
    ) -> anyhow::Result<(Client, Connection)> {
        let slot = &sockets.slots()[first];
        slot.bind()?;
        sockets.set_first(first);
        let controller = controller(settings)?;
        let crypto = QuicClientConfig::try_from(identity.client())?;
        let mut config = ClientConfig::new(Arc::new(crypto));
        let transport = transport(&controller, &settings.limits);
        config.transport_config(Arc::new(transport));
        let endpoint = Endpoint::new_with_abstract_socket(
            EndpointConfig::default(),
            None,
            AllPaths::new(sockets.clone()),
            Arc::new(TokioRuntime),
        )?;
        let connecting = endpoint.connect_with(config, slot.far(), SERVER_NAME)?;
        let failed = |error| failed(&error, End::Near);
        let inner = connecting.await.map_err(failed)?;
        // Until then `far` may still refuse the own key.
        inner.handshake_confirmed().await.map_err(failed)?;
        let connection = Connection { inner, controller };
        connection.change_keys().await;
        if !connection.inner.is_multipath_enabled() {
            bail!("far has no multipath extension");
        }
        Ok((Client(endpoint), connection))
    }
}

/// Error of a failed handshake.
fn failed(error: &ConnectionError, end: End) -> anyhow::Error {
    /// Code of TLS' alert 0 (RFC 9001, section 4.8).
    const ALERT: u64 = 0x100;
    let words = match error {
        ConnectionError::TransportError(fault) => {
            let fault = fault.crypto.as_deref();
            let fault = fault.and_then(|it| it.downcast_ref::<rustls::Error>());
            fault.and_then(|fault| failure::of_tls(fault, end))
        }
        ConnectionError::ConnectionClosed(close) => {
            let alert = u64::from(close.error_code).checked_sub(ALERT);
            let alert = alert.and_then(|alert| u8::try_from(alert).ok());
            alert.map(|alert| failure::of_alert(alert, end))
        }
        ConnectionError::VersionMismatch => Some(failure::of_stranger(end).to_owned()),
        _ => None,
    };
    anyhow!(words.unwrap_or_else(|| closed(error.clone()).0))
}

impl Connection {
    /// Changes the keys, and waits until `far` has acknowledged a packet with the new ones. The
    /// library changes them after 10 to 1000 packets, and discards packets with old ones that
    /// arrive over a slower path later than the first with new ones; the change after this one is
    /// near the cipher's limit.
    async fn change_keys(&self) {
        let start = super::now();
        self.inner.force_key_update();
        if let Some(path) = self.inner.path(PathId::ZERO) {
            // Fails for a path that is closed, and with it the connection.
            let _ = path.ping();
        }
        while !self.controller.has_acknowledged(0, start) {
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// The endpoint of `far`. Its socket is closed with the last connection.
#[derive(Clone, Debug)]
pub struct Server {
    endpoint: Endpoint,
    config: ServerConfig,
}

impl Server {
    /// Accepts connections at this socket.
    pub fn new(
        socket: Box<dyn AsyncUdpSocket>,
        identity: &Arc<Identity>,
    ) -> anyhow::Result<Server> {
        let crypto = QuicServerConfig::try_from(identity.server())?;
        let mut config = ServerConfig::with_crypto(Arc::new(crypto));
        config.max_incoming(INCOMING);
        let endpoint = Endpoint::new_with_abstract_socket(
            endpoint(identity)?,
            Some(config.clone()),
            socket,
            Arc::new(TokioRuntime),
        )?;
        Ok(Server { endpoint, config })
    }

    /// The next client's first datagram; `None` if there can be no more.
    pub async fn accept(&self) -> Option<Incoming> {
        self.endpoint.accept().await.map(Incoming)
    }

    /// Stops accepting connections.
    pub fn stop(&self) {
        self.endpoint.set_server_config(None);
    }

    /// Local address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.endpoint.local_addr()
    }

    /// Completes a handshake. Returns the connection and the proved key of the client. `proved`
    /// gets the key before anything else is checked.
    pub async fn shake_hands(
        &self,
        incoming: Incoming,
        settings: &Settings,
        proved: impl FnOnce(&PublicKey),
    ) -> anyhow::Result<(Connection, PublicKey)> {
        let controller = controller(settings)?;
        let mut config = self.config.clone();
        let transport = transport(&controller, &settings.limits);
        config.transport_config(Arc::new(transport));
        let connecting = incoming.0.accept_with(Arc::new(config));
        let failed = |error| failed(&error, End::Far);
        let inner = connecting.map_err(failed)?.await.map_err(failed)?;
        let peer = peer_key(&inner)?;
        proved(&peer);
        if !inner.is_multipath_enabled() {
            bail!("near has no multipath extension");
        }
        Ok((Connection { inner, controller }, peer))
    }
}

fn peer_key(connection: &noq::Connection) -> anyhow::Result<PublicKey> {
    let identity = connection.peer_identity().context("no key")?;
    let certificates = identity.downcast::<Vec<CertificateDer<'static>>>();
    let certificates = certificates.map_err(|_| anyhow::anyhow!("no key"))?;
    Ok(tls::peer_key(&certificates)?)
}

/// First datagram of a client.
pub struct Incoming(noq::Incoming);

impl Incoming {
    /// Source address, which the client may have forged.
    pub fn address(&self) -> SocketAddr {
        self.0.remote_address()
    }

    /// Whether the client's address is validated.
    pub fn is_validated(&self) -> bool {
        self.0.remote_address_validated()
    }

    /// Whether the datagram has a whole ClientHello, as near's has.
    pub fn has_hello(&self) -> bool {
        self.0.decrypt().is_some_and(|it| it.alpns().is_some())
    }

    /// Makes the client validate its address by a Retry packet (RFC 9000, section 8.1.2).
    pub fn retry(self) {
        // Fails for a validated client only.
        let _ = self.0.retry();
    }

    /// Drops it without an answer.
    pub fn ignore(self) {
        self.0.ignore();
    }
}

/// Time without an arrival from the peer after which the tunnel is closed.
pub(super) const GIVE_UP: Duration = Duration::from_secs(30);

/// Most path numbers that both ends allow at a time. A path that opens again has another number,
/// and its old one is free only after a few round trips.
pub(super) const MAX_PATHS: u32 = 32;

/// Initial window, packets (RFC 6928).
const INITIAL_WINDOW: f64 = 10.0;

/// Most data of a stream that may have arrived unread, bytes. With much more than 1024 full packets
/// the library closes connections because of "too many gaps in stream buffer" (quinn-rs/quinn issue
/// 2809).
const STREAM_WINDOW: u64 = LARGEST;

/// Unidirectional streams: one of `control`, one of `credit`, one of `turns`.
const UNI_STREAMS: u32 = 3;

/// Datagrams that wait to be sent, bytes; the oldest is discarded.
pub(super) const DATAGRAM_SEND_BUFFER: usize = 256 << 10;

/// Datagrams that wait to be read, bytes; the oldest is discarded.
const DATAGRAM_RECEIVE_BUFFER: usize = 1 << 20;

/// Reordering in packets at which a packet is declared lost: never, because RFC 9002's threshold of
/// three leaves a path whose packets overtake one another a part of its rate.
const PACKET_THRESHOLD: u32 = u32::MAX;

/// Reordering in time at which a packet is declared lost, round trips: with a quarter of one for
/// reordering, RACK's first reordering window (RFC 8985, section 7.1). RFC 9002 has an eighth.
const TIME_THRESHOLD: f32 = 1.25;

/// The controller of a new tunnel, with the configured rule.
pub(super) fn controller(settings: &Settings) -> anyhow::Result<SharedController> {
    if settings.algorithm == BBR {
        return Ok(SharedController::library(clock(), Library::Bbr3));
    }
    let algorithm = Algorithm::parse(&settings.algorithm).context("tunnel.algorithm")?;
    let controller = algorithm.controller(0, INITIAL_WINDOW);
    Ok(SharedController::new(clock(), controller, f64::INFINITY))
}

fn clock() -> Clock {
    Clock::running(super::now)
}

/// The endpoint of `far`. Its keys follow from far's own key instead of chance, so that a far that
/// was killed and started again can tell its peers that it does not know their connections (a
/// stateless reset, RFC 9000, section 10.3). Otherwise near would wait for [`GIVE_UP`].
pub(super) fn endpoint(identity: &Identity) -> anyhow::Result<EndpointConfig> {
    let secret = identity.derive(b"anabranch: keys of the QUIC endpoint")?;
    let key = hmac::Key::new(hmac::HMAC_SHA256, &secret);
    let mut config = EndpointConfig::new(Arc::new(key));
    config.cid_generator(Arc::new(|| Box::<RandomConnectionIdGenerator>::default()));
    Ok(config)
}

/// The transport of one connection, whose paths share this controller.
pub(super) fn transport(controller: &SharedController, limits: &Limits) -> TransportConfig {
    let buffer = limits.tunnel_buffer_bytes as u64;
    let mut config = TransportConfig::default();
    config
        .congestion_controller_factory(Arc::new(controller.clone()))
        .packet_threshold(PACKET_THRESHOLD)
        .time_threshold(TIME_THRESHOLD)
        .max_concurrent_multipath_paths(MAX_PATHS)
        .max_concurrent_bidi_streams(varint(limits.streams as u64))
        .max_concurrent_uni_streams(VarInt::from_u32(UNI_STREAMS))
        .max_idle_timeout(Some(GIVE_UP.try_into().expect("30 s is in range")))
        .stream_receive_window(varint(STREAM_WINDOW))
        .receive_window(receive_window(limits))
        .send_window(buffer)
        .datagram_send_buffer_size(DATAGRAM_SEND_BUFFER)
        .datagram_receive_buffer_size(Some(DATAGRAM_RECEIVE_BUFFER));
    config
}

/// Changes the part of [`transport`] that depends on limits.
pub(super) fn set_limits(connection: &noq::Connection, limits: &Limits) {
    let buffer = limits.tunnel_buffer_bytes as u64;
    connection.set_max_concurrent_bi_streams(varint(limits.streams as u64));
    connection.set_receive_window(receive_window(limits));
    connection.set_send_window(buffer);
}

/// Sum of the windows of all streams, which streams that are not read never use up: [`FIRST`] each,
/// the budget, and as much again for streams that were idle and are no more.
fn receive_window(limits: &Limits) -> VarInt {
    varint(limits.streams as u64 * FIRST + 2 * limits.tunnel_buffer_bytes as u64)
}

fn varint(value: u64) -> VarInt {
    VarInt::from_u64(value).unwrap_or(VarInt::MAX)
}
