//! One end of a connection.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anabranch_net::Dice;
use bytes::BytesMut;
use noq_proto::congestion::NewRenoConfig;
use noq_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use noq_proto::{
    AckFrequencyConfig, ClientConfig, Connection, ConnectionHandle, ConnectionId,
    ConnectionIdGenerator, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig, Event, FourTuple,
    ServerConfig, TransportConfig, VarInt, crypto,
};
use rustls::RootCertStore;
use rustls::client::Resumption;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::version::TLS13;

use crate::controller::SharedController;

/// The port of the receiver, and of the sender until it is rebound.
const PORT: u16 = 4433;

/// The most paths of a connection: the last number of the sender's address counts them.
pub(crate) const MAX_PATHS: usize = 254;

/// The receiver has one address, the sender one per path.
fn receiver_address() -> SocketAddr {
    SocketAddr::new(Ipv4Addr::new(10, 0, 1, 1).into(), PORT)
}

fn sender_address(path: usize) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, 1 + path as u8).into()
}

/// The sender's address as the receiver sees it. Each rebinding changes the port; every second one
/// the address too.
fn bound_address(path: usize, rebound: u8) -> SocketAddr {
    let address = Ipv4Addr::new(10, rebound / 2, 0, 1 + path as u8);
    SocketAddr::new(address.into(), PORT + u16::from(rebound))
}

/// The path of a sender's address.
fn path_of(address: IpAddr) -> usize {
    match address {
        IpAddr::V4(address) => usize::from(address.octets()[3]) - 1,
        IpAddr::V6(_) => unreachable!("all addresses are IPv4"),
    }
}

/// The sender's addresses of a path.
pub(super) fn sender_tuple(path: usize) -> FourTuple {
    FourTuple::new(receiver_address(), Some(sender_address(path)))
}

fn receiver_tuple(path: usize, rebound: u8) -> FourTuple {
    FourTuple::new(bound_address(path, rebound), Some(receiver_address().ip()))
}

/// A UDP datagram and its path.
#[derive(Debug)]
pub(crate) struct Datagram {
    pub path: usize,
    /// How often the sender's address on this path had changed, as the receiver sees it.
    pub rebound: u8,
    /// Whether a link may mark it (ECT), and whether one has (CE).
    pub ecn_capable: bool,
    pub marked: bool,
    pub bytes: BytesMut,
}

impl Datagram {
    /// The library knows no ECT(1) among what it sends, so that is ECT(0) to both ends.
    fn codepoint(&self) -> Option<EcnCodepoint> {
        let unmarked = self.ecn_capable.then_some(EcnCodepoint::Ect0);
        if self.marked {
            Some(EcnCodepoint::Ce)
        } else {
            unmarked
        }
    }
}

/// An end of a connection, and the endpoint that it alone uses.
pub(super) struct End {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    /// The sender's or the receiver's addresses of a path that was rebound so often.
    tuple: fn(usize, u8) -> FourTuple,
    /// Whether its datagrams are ECN-capable.
    ecn: bool,
    buffer: Vec<u8>,
}

impl End {
    /// The sender, which begins the handshake on path 0.
    pub fn sender(
        dice: &mut Dice,
        now: Instant,
        tls: &Tls,
        transport: TransportConfig,
        ecn: bool,
    ) -> End {
        let mut endpoint = Endpoint::new(endpoint_config(dice), None, false);
        let first_id = random_bytes::<8>(dice);
        let mut config = ClientConfig::new(tls.sender.clone());
        config
            .transport_config(Arc::new(transport))
            .initial_dst_cid_provider(Arc::new(move || ConnectionId::new(&first_id)));
        let connected = endpoint.connect(now, config, receiver_address(), RECEIVER);
        End {
            endpoint,
            connection: Some(connected.expect("address and version are valid")),
            tuple: |path, _| sender_tuple(path),
            ecn,
            buffer: Vec::new(),
        }
    }

    /// The receiver, which accepts one connection.
    pub fn receiver(dice: &mut Dice, tls: &Tls, transport: TransportConfig, ecn: bool) -> End {
        let mut config = ServerConfig::with_crypto(tls.receiver.clone());
        config.transport_config(Arc::new(transport));
        config.validation_token.sent(0);
        End {
            endpoint: Endpoint::new(endpoint_config(dice), Some(Arc::new(config)), false),
            connection: None,
            tuple: receiver_tuple,
            ecn,
            buffer: Vec::new(),
        }
    }

    /// The connection; `None` at a receiver that has not received anything.
    pub fn connection(&mut self) -> Option<&mut Connection> {
        self.connection.as_mut().map(|(_, connection)| connection)
    }

    /// A datagram arrived.
    pub fn receive(&mut self, now: Instant, datagram: Datagram) {
        let tuple = (self.tuple)(datagram.path, datagram.rebound);
        self.buffer.clear();
        let event = self.endpoint.handle(
            now,
            tuple,
            datagram.codepoint(),
            datagram.bytes,
            &mut self.buffer,
        );
        match event {
            Some(DatagramEvent::NewConnection(incoming)) => {
                let accepted = self.endpoint.accept(incoming, now, &mut self.buffer, None);
                // Fails for a connection that was closed before; there is none.
                self.connection = accepted.ok();
            }
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some(connection) = self.connection() {
                    connection.handle_event(event);
                }
            }
            // A reset or another version, which neither end causes.
            Some(DatagramEvent::Response(_)) | None => {}
        }
        self.exchange();
    }

    /// Handles the timers that are due.
    pub fn on_timer(&mut self, now: Instant) {
        if let Some(connection) = self.connection() {
            connection.handle_timeout(now);
        }
        self.exchange();
    }

    /// When the next timer is due.
    pub fn next_timer(&self) -> Option<Instant> {
        self.connection.as_ref()?.1.poll_timeout()
    }

    /// The next event of the connection.
    ///
    /// # Panics
    /// If the library has given the connection up: no idle timeout is set and no end closes it.
    pub fn poll(&mut self) -> Option<Event> {
        let event = self.connection()?.poll()?;
        if let Event::ConnectionLost { reason } = &event {
            panic!("a fault of the QUIC library: {reason}");
        }
        Some(event)
    }

    /// The next datagram to be sent. The sender does not know how often its path was rebound.
    pub fn transmit(&mut self, now: Instant) -> Option<Datagram> {
        self.buffer.clear();
        let (_, connection) = self.connection.as_mut()?;
        let transmit = connection.poll_transmit(now, NonZeroUsize::MIN, &mut self.buffer);
        self.exchange();
        let transmit = transmit?;
        let to = transmit.destination;
        let (path, rebound) = if to == receiver_address() {
            (transmit.src_ip.map_or(0, path_of), 0) // path 0 has no local address yet
        } else {
            (path_of(to.ip()), (to.port() - PORT) as u8)
        };
        let bytes = BytesMut::from(&self.buffer[..transmit.size]);
        Some(Datagram {
            path,
            rebound,
            ecn_capable: self.ecn && transmit.ecn.is_some(),
            marked: false,
            bytes,
        })
    }

    /// Passes events between the connection and its endpoint until there are none.
    pub fn exchange(&mut self) {
        let Some((handle, connection)) = &mut self.connection else {
            return;
        };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
    }
}

/// All that the library draws at random comes from `dice`: connection ids, numbers of skipped
/// packets, the lengths of GREASE, when keys are updated. Not so the keys of TLS and of reset
/// tokens: they change bytes, but no length and no time.
fn endpoint_config(dice: &mut Dice) -> Arc<EndpointConfig> {
    let mut config = EndpointConfig::default();
    let ids = ConnectionIds::new(dice);
    config
        .max_udp_payload_size(u16::MAX - 8)
        .expect("it is in range")
        .rng_seed(Some(random_bytes::<32>(dice)))
        .cid_generator(Arc::new(move || Box::new(ids.clone())));
    Arc::new(config)
}

// How the endpoints of a run behave.

/// IPv4 and UDP headers of a datagram, bytes.
pub(crate) const UDP_HEADERS: u32 = 20 + 8;

/// The largest receive window, and send window, bytes: a connection's memory is bounded by data in
/// flight long before, because data is read as it arrives.
const MAX_RECEIVE_WINDOW: u64 = 64 << 20;

/// How every connection of a run behaves.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Size of a full datagram without IP and UDP headers, bytes.
    pub datagram_bytes: u16,
    /// Datagrams are ECN-capable.
    pub ecn: bool,
    /// Acknowledge every second packet, or after 25 ms, instead of every packet.
    pub delayed_acks: bool,
    /// Receive buffer, bytes.
    pub receive_bytes: NonZeroU64,
}

impl Settings {
    /// The sender's, with the controller of its paths.
    pub(super) fn sender(&self, paths: usize, controller: &SharedController) -> TransportConfig {
        let mut config = self.common(paths);
        config.congestion_controller_factory(Arc::new(controller.clone()));
        if !self.delayed_acks {
            let mut every_packet = AckFrequencyConfig::default();
            every_packet.ack_eliciting_threshold(VarInt::from_u32(0));
            config.ack_frequency_config(Some(every_packet));
        }
        config
    }

    /// The receiver's. It sends acknowledgements only, so its controller does not matter.
    pub(super) fn receiver(&self, paths: usize) -> TransportConfig {
        let mut config = self.common(paths);
        config.congestion_controller_factory(Arc::new(NewRenoConfig::default()));
        config
    }

    fn common(&self, paths: usize) -> TransportConfig {
        let receive_bytes = self.receive_bytes.get().min(MAX_RECEIVE_WINDOW);
        let window = VarInt::from_u64(receive_bytes).unwrap_or(VarInt::MAX);
        let mut config = TransportConfig::default();
        config
            .initial_mtu(self.datagram_bytes)
            .min_mtu(self.datagram_bytes)
            .mtu_discovery_config(None)
            .max_idle_timeout(None)
            .stream_receive_window(window)
            .receive_window(window)
            .send_window(receive_bytes);
        if paths > 1 {
            config.max_concurrent_multipath_paths(paths as u32);
        }
        config
    }
}

// TLS 1.3 with a certificate that never changes.

/// The name in the certificate.
pub(super) const RECEIVER: &str = "receiver";

/// Self-signed with Ed25519, whose signatures have constant length, unlike ECDSA's: the handshake
/// of every run then has datagrams of the same sizes. It protects nothing.
const CERTIFICATE: &[u8] = include_bytes!("tls/certificate.der");
const KEY: &[u8] = include_bytes!("tls/key.der");

/// The TLS configurations of both ends, shared by all connections of a run.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(super) sender: Arc<dyn crypto::ClientConfig>,
    pub(super) receiver: Arc<dyn crypto::ServerConfig>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// Both configurations. No session is resumed: each connection makes a full handshake.
    pub fn new() -> Tls {
        Tls {
            sender: Arc::new(sender()),
            receiver: Arc::new(receiver()),
        }
    }
}

fn sender() -> QuicClientConfig {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from(CERTIFICATE))
        .expect("the certificate of this crate is valid");
    let mut config = rustls::ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])
        .expect("the provider has TLS 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    config.try_into().expect("the provider has AES-128-GCM")
}

fn receiver() -> QuicServerConfig {
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(KEY));
    let mut config = rustls::ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])
        .expect("the provider has TLS 1.3")
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(CERTIFICATE)], key)
        .expect("the key of this crate is that of its certificate");
    config.send_tls13_tickets = 0;
    config.try_into().expect("the provider has AES-128-GCM")
}

// Random bytes and connection ids from a seeded generator: the library's own draw from the
// system's.

/// Length of a connection id, bytes: as the library's.
const ID_BYTES: usize = 8;

/// Random bytes.
pub(super) fn random_bytes<const N: usize>(dice: &mut Dice) -> [u8; N] {
    std::array::from_fn(|_| (dice.uniform() * 256.0) as u8)
}

/// Random connection ids.
#[derive(Clone, Debug)]
pub(super) struct ConnectionIds(Dice);

impl ConnectionIds {
    /// A generator with a seed from `dice`.
    pub fn new(dice: &mut Dice) -> ConnectionIds {
        ConnectionIds(Dice::new(u64::from_le_bytes(random_bytes(dice))))
    }
}

impl ConnectionIdGenerator for ConnectionIds {
    fn generate_cid(&mut self) -> ConnectionId {
        ConnectionId::new(&random_bytes::<ID_BYTES>(&mut self.0))
    }

    fn cid_len(&self) -> usize {
        ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}
