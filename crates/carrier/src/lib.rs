//! Tunnels between two ends over several paths at once: the same interface for both carriers.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fmt, io};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

mod admission;
mod config;
mod handshakes;
pub mod keys;
pub mod live;
pub mod mptcp;
pub mod quic;
pub mod race;
pub mod socket;
pub mod tls;
pub mod udp;
mod window;

pub use config::{Carrier, Far, LONGEST_NAME, Limits, Near, Path, Remote, Role, Settings, is_name};
use keys::PublicKey;
use tls::Identity;
use udp::Udp;

/// Connects to `far` over these paths, of which the first that can handshake is enough; the others
/// are opened afterwards.
///
/// # Errors
/// If no path can handshake, or if `far` is another than the pinned one.
pub async fn connect(near: &Near, identity: &Arc<Identity>) -> anyhow::Result<Tunnel> {
    let udp: Arc<dyn Udp> = Arc::new(udp::Kernel);
    connect_over(&udp, near, identity).await
}

/// The same with these sockets of UDP. The carrier `mptcp` uses TCP of the kernel.
///
/// # Errors
/// Those of [`connect`].
pub async fn connect_over(
    udp: &Arc<dyn Udp>,
    near: &Near,
    identity: &Arc<Identity>,
) -> anyhow::Result<Tunnel> {
    Ok(match near.settings.carrier {
        Carrier::Quic => Tunnel::Quic(quic::connect(udp, near, identity).await?),
        Carrier::Mptcp => Tunnel::Mptcp(mptcp::connect(near, identity).await?),
    })
}

/// Accepts tunnels on `far`: over QUIC, which also carries the datagrams of near's that have the
/// carrier `mptcp`, and with that carrier over Multipath TCP, at the same port.
#[derive(Debug)]
pub struct Listener {
    quic: quic::Listener,
    mptcp: Option<mptcp::Listener>,
}

impl Listener {
    /// Listens at the configured address.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub async fn bind(far: &Far, identity: &Arc<Identity>) -> anyhow::Result<Listener> {
        Listener::bind_over(&udp::Kernel, far, identity).await
    }

    /// The same with these sockets of UDP.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub async fn bind_over(
        udp: &dyn Udp,
        far: &Far,
        identity: &Arc<Identity>,
    ) -> anyhow::Result<Listener> {
        let quic = quic::Listener::bind_over(udp, far, identity).await?;
        let mptcp = match far.settings.carrier {
            Carrier::Quic => None,
            Carrier::Mptcp => Some(mptcp::Listener::bind(far, identity).await?),
        };
        Ok(Listener { quic, mptcp })
    }

    /// Changes the settings of tunnels that are established from now on.
    pub fn set_settings(&self, settings: &Settings) {
        self.quic.set_settings(settings);
        if let Some(mptcp) = &self.mptcp {
            mptcp.set_settings(settings);
        }
    }

    /// Handshakes that failed.
    pub fn refused(&self) -> u64 {
        let mptcp = self.mptcp.as_ref().map_or(0, mptcp::Listener::refused);
        self.quic.refused() + mptcp
    }

    /// The next tunnel whose peer has proved one of the pinned keys. Failed handshakes are logged
    /// and counted by the carrier, run at the same time as others, and end after a timeout.
    /// Cancel-safe.
    ///
    /// # Errors
    /// If a listener itself fails.
    pub async fn accept(&self) -> anyhow::Result<(Tunnel, PublicKey)> {
        let quic = async {
            let (tunnel, peer) = self.quic.accept().await?;
            Ok((Tunnel::Quic(tunnel), peer))
        };
        let Some(mptcp) = &self.mptcp else {
            return quic.await;
        };
        let mptcp = async {
            let (tunnel, peer) = mptcp.accept().await?;
            Ok((Tunnel::Mptcp(tunnel), peer))
        };
        tokio::select! {
            biased;
            accepted = quic => accepted,
            accepted = mptcp => accepted,
        }
    }
}

/// An established, authenticated connection between `near` and `far`. Clones are the same tunnel.
#[derive(Clone, Debug)]
pub enum Tunnel {
    /// Over QUIC with several paths, in user space.
    Quic(quic::Tunnel),
    /// Over TLS 1.3 on one Multipath TCP (or TCP) connection of the kernel.
    Mptcp(mptcp::Tunnel),
}

/// Why a tunnel is closed; one line for logs and status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed(pub String);

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the tunnel is closed: {}", self.0)
    }
}

impl std::error::Error for Closed {}

/// What a peer says, for logs and status: one line of at most 100 characters.
fn printable(said: &[u8]) -> String {
    const LONGEST: usize = 100;
    let said = String::from_utf8_lossy(said);
    said.escape_debug().take(LONGEST).collect()
}

/// Why a datagram was not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotSent {
    /// Larger than the smallest MTU of the paths allows; the largest size, bytes.
    TooLarge(usize),
    /// The tunnel is closed.
    Closed(Closed),
}

impl Tunnel {
    /// Opens a stream. Waits while the peer's limit of streams is reached.
    ///
    /// # Errors
    /// If the tunnel is closed.
    pub async fn open(&self) -> Result<Stream, Closed> {
        match self {
            Tunnel::Quic(tunnel) => tunnel.open().await,
            Tunnel::Mptcp(tunnel) => tunnel.open().await,
        }
    }

    /// The next stream that the peer has opened.
    ///
    /// # Errors
    /// If the tunnel is closed.
    pub async fn accept(&self) -> Result<Stream, Closed> {
        match self {
            Tunnel::Quic(tunnel) => tunnel.accept().await,
            Tunnel::Mptcp(tunnel) => tunnel.accept().await,
        }
    }

    /// Sends a datagram. When the send buffer is full the oldest one is discarded.
    ///
    /// # Errors
    /// If it is too large or the tunnel is closed.
    pub fn send_datagram(&self, datagram: Bytes) -> Result<(), NotSent> {
        match self {
            Tunnel::Quic(tunnel) => tunnel.send_datagram(datagram),
            Tunnel::Mptcp(tunnel) => tunnel.send_datagram(datagram),
        }
    }

    /// Datagrams that wait to be sent, bytes.
    pub fn datagrams_waiting_bytes(&self) -> usize {
        match self {
            Tunnel::Quic(tunnel) => tunnel.datagrams_waiting_bytes(),
            Tunnel::Mptcp(tunnel) => tunnel.datagrams_waiting_bytes(),
        }
    }

    /// Whether this is the same tunnel.
    pub fn is(&self, other: &Tunnel) -> bool {
        match (self, other) {
            (Tunnel::Quic(one), Tunnel::Quic(other)) => one.is(other),
            (Tunnel::Mptcp(one), Tunnel::Mptcp(other)) => one.is(other),
            _ => false,
        }
    }

    /// The next datagram from the peer.
    ///
    /// # Errors
    /// If the tunnel is closed.
    pub async fn receive_datagram(&self) -> Result<Bytes, Closed> {
        match self {
            Tunnel::Quic(tunnel) => tunnel.receive_datagram().await,
            Tunnel::Mptcp(tunnel) => tunnel.receive_datagram().await,
        }
    }

    /// Waits until the tunnel is closed.
    pub async fn closed(&self) -> Closed {
        match self {
            Tunnel::Quic(tunnel) => tunnel.closed().await,
            Tunnel::Mptcp(tunnel) => tunnel.closed().await,
        }
    }

    /// Closes the tunnel: streams end with an error on both sides.
    pub fn close(&self, reason: &str) {
        match self {
            Tunnel::Quic(tunnel) => tunnel.close(reason),
            Tunnel::Mptcp(tunnel) => tunnel.close(reason),
        }
    }

    /// Changes the limits of streams and buffers. Over `mptcp` an established tunnel keeps its own.
    pub fn set_limits(&self, limits: &Limits) {
        match self {
            Tunnel::Quic(tunnel) => tunnel.set_limits(limits),
            Tunnel::Mptcp(_) => {}
        }
    }

    /// The state of each configured path, in the order of the configuration; on `far` in
    /// the order in which they opened.
    pub fn paths(&self) -> Vec<PathState> {
        match self {
            Tunnel::Quic(tunnel) => tunnel.paths(),
            Tunnel::Mptcp(tunnel) => tunnel.paths(),
        }
    }

    /// Uses a path of `near` no more. Without effect on paths of the kernel, which have no caps.
    pub fn turn_off(&self, path: &str) {
        match self {
            Tunnel::Quic(tunnel) => tunnel.turn_off(path),
            Tunnel::Mptcp(_) => {}
        }
    }

    /// Data that streams have accepted and that was never sent, bytes: the gateway's buffer of
    /// I-TCP.
    pub fn unsent_bytes(&self) -> u64 {
        match self {
            Tunnel::Quic(tunnel) => tunnel.unsent_bytes(),
            Tunnel::Mptcp(tunnel) => tunnel.unsent_bytes(),
        }
    }

    /// Data that streams have accepted since the tunnel was established, bytes.
    pub fn accepted_bytes(&self) -> u64 {
        match self {
            Tunnel::Quic(tunnel) => tunnel.accepted_bytes(),
            Tunnel::Mptcp(tunnel) => tunnel.accepted_bytes(),
        }
    }

    /// The weight (kappa) of the tunnel's rule; `None` if the rule has none.
    pub fn kappa(&self) -> Option<f64> {
        match self {
            Tunnel::Quic(tunnel) => tunnel.kappa(),
            Tunnel::Mptcp(tunnel) => tunnel.kappa(),
        }
    }

    /// Sets the weight of the tunnel's rule; without effect on a rule that has none.
    pub fn set_kappa(&self, kappa: f64) {
        match self {
            Tunnel::Quic(tunnel) => tunnel.set_kappa(kappa),
            Tunnel::Mptcp(tunnel) => tunnel.set_kappa(kappa),
        }
    }
}

/// Whether a path carries data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// It carries data, or would.
    Up,
    /// Open, used when no available path works.
    Standby,
    /// It is being opened.
    #[default]
    Opening,
    /// Nothing returned over it; it is tried again.
    Dead,
    /// The path's data cap is reached, or its role is `never`.
    Off,
}

/// The name, as in JSON.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        serde::Serialize::serialize(self, f)
    }
}

/// A path's state and counters. Counters start with the tunnel.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct PathState {
    /// As configured, or the peer's address on `far`.
    pub name: String,
    /// Present condition.
    pub condition: Condition,
    /// Own address.
    pub local: Option<IpAddr>,
    /// Bytes sent, headers of datagrams or segments included as far as known.
    pub sent_bytes: u64,
    /// Bytes received, counted alike.
    pub received_bytes: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Packets declared lost.
    pub lost_packets: u64,
    /// Smoothed round-trip time, s; `None` before the first sample.
    pub rtt_s: Option<f64>,
    /// Smallest round-trip time, s; `None` before the first sample.
    pub base_rtt_s: Option<f64>,
    /// Congestion window, packets.
    pub window_packets: f64,
    /// Largest datagram or segment that the path carries, bytes.
    pub mtu_bytes: u32,
    /// How often the path was found dead.
    pub deaths: u64,
}

/// One TCP connection's bytes in a tunnel, in both directions.
///
/// Writing ends with `shutdown`, which returns once the peer has acknowledged all data and the end.
/// It fails if the peer has stopped the stream or the tunnel is closed before. Dropping a stream
/// before its shutdown has returned resets it, so that the peer sees an error and not an end.
///
/// What has been received can be read after the tunnel was closed.
pub struct Stream {
    /// From the peer.
    pub reader: Box<dyn Incoming>,
    /// To the peer.
    pub writer: Box<dyn Outgoing>,
}

/// The direction of a stream from the peer.
pub trait Incoming: AsyncRead + Send + Unpin {
    /// Ready when the peer has reset the stream, also while received data is not read. Never ready
    /// once all data and the end have been received.
    fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<io::Error>;
}

/// The direction of a stream to the peer.
pub trait Outgoing: AsyncWrite + Send + Unpin {
    /// Ready when the peer has dropped its reader before the end, or when the tunnel is closed,
    /// also while nothing is being written. Called only after the end of the stream's reader and
    /// before shutdown.
    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<io::Error>;
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stream")
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.reader).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.writer).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_shutdown(cx)
    }
}

/// How long a path may be silent while data is in flight before it counts as dead.
pub const SILENCE: Duration = Duration::from_millis(500);
