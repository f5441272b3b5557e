//! Tunnel with either carrier: its streams, and the state of its paths.

use std::net::IpAddr;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::{fmt, io};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::config::{Carrier, Limits};
use crate::shares::DatagramRoom;

/// An established, authenticated connection between `near` and `far`. Clones are the same tunnel,
/// which is closed when the last is dropped. [`Carried`] has its operations.
#[derive(Clone, Debug)]
pub struct Tunnel(Arc<dyn Carried>);

impl Tunnel {
    pub(crate) fn new(carried: impl Carried + 'static) -> Tunnel {
        Tunnel(Arc::new(carried))
    }

    /// Whether `other` is the same tunnel.
    pub fn is(&self, other: &Tunnel) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Deref for Tunnel {
    type Target = dyn Carried;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

/// Operations of a [`Tunnel`] with either carrier.
pub trait Carried: fmt::Debug + Send + Sync {
    /// Carrier of the tunnel.
    fn carrier(&self) -> Carrier;

    /// Opens a stream, over `mptcp` on `near` alone. Waits while the peer's limit of streams is
    /// reached.
    fn open(&self) -> BoxFuture<'_, Result<Stream, Closed>>;

    /// The next stream that the peer has opened.
    fn accept(&self) -> BoxFuture<'_, Result<Stream, Closed>>;

    /// Sends a datagram of a client. When the send buffer is full the oldest one is discarded.
    fn send_datagram(&self, client: u64, datagram: Bytes) -> Result<(), NotSent>;

    /// Room for a datagram of this client and size.
    fn datagram_room(&self, client: u64, bytes: usize) -> DatagramRoom;

    /// The next datagram from the peer.
    fn receive_datagram(&self) -> BoxFuture<'_, Result<Bytes, Closed>>;

    /// Waits until the tunnel is closed, and over `mptcp` until the peer was told the reason.
    fn closed(&self) -> BoxFuture<'_, Closed>;

    /// Closes the tunnel: streams end with an error on both sides.
    fn close(&self, reason: &str);

    /// Changes the limits of streams and buffers. Over `mptcp` an established tunnel keeps its own.
    fn set_limits(&self, limits: &Limits);

    /// State of each configured path, in the order of the configuration; on `far` in the order in
    /// which they opened.
    fn paths(&self) -> Vec<PathState>;

    /// Whether a path has shown lately that it works, as far as that is known.
    fn works(&self) -> bool;

    /// Turns off a path of `near`. It has no effect on paths of the kernel, which have no caps.
    fn turn_off(&self, path: &str);

    /// Data that streams have accepted and that was never sent, bytes: the buffer of I-TCP.
    fn unsent_bytes(&self) -> u64;

    /// Data that streams have accepted since the tunnel was established, bytes.
    fn accepted_bytes(&self) -> u64;

    /// Kappa, the weight of the tunnel's rule; `None` if the rule has none. Over `mptcp` also
    /// `None` while kappa is the one with which the rule was loaded.
    fn kappa(&self) -> Option<f64>;

    /// Sets kappa of the tunnel's rule; without effect on a rule that has none.
    fn set_kappa(&self, kappa: f64);
}

/// Reason for which a tunnel is closed; one line for logs and status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed(pub String);

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the tunnel is closed: {}", self.0)
    }
}

impl std::error::Error for Closed {}

/// Text of a peer, for logs and status: one line of at most 100 characters.
pub(crate) fn printable(said: &[u8]) -> String {
    const LONGEST: usize = 100;
    let said = String::from_utf8_lossy(said);
    said.escape_debug().take(LONGEST).collect()
}

/// Reason for which a datagram was not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotSent {
    /// It exceeds the smallest MTU of the paths; the largest size, bytes.
    TooLarge(usize),
    /// The tunnel is closed.
    Closed(Closed),
}

impl fmt::Display for NotSent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotSent::TooLarge(most) => write!(f, "a datagram has at most {most} bytes"),
            NotSent::Closed(closed) => closed.fmt(f),
        }
    }
}

impl std::error::Error for NotSent {}

/// A stream of a tunnel, in both directions.
///
/// Writing ends with `shutdown`, which returns once the peer has acknowledged all data and the end.
/// It fails if the peer has stopped the stream or the tunnel is closed before. Dropping a stream
/// before its shutdown has returned resets it, so that the peer sees an error and not an end.
///
/// Data that has been received can be read after the tunnel was closed.
pub struct Stream {
    /// Direction from the peer.
    pub reader: Box<dyn Incoming>,
    /// Direction to the peer.
    pub writer: Box<dyn Outgoing>,
}

/// The direction of a stream from the peer.
pub trait Incoming: AsyncRead + Send + Unpin {
    /// Ready when the peer has reset the stream, also while received data is not read. Never ready
    /// once all data and the end have been received.
    fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<io::Error>;

    /// Says whose data this is. Streams of the client that holds most are reset first when data
    /// that is not read takes too much memory. Without effect where the kernel holds the data.
    fn belongs_to(&mut self, _client: u64) {}
}

/// The direction of a stream to the peer.
pub trait Outgoing: AsyncWrite + Send + Unpin {
    /// Ready when the peer has dropped its reader before the end, or when the tunnel is closed,
    /// also while nothing is being written. Called only before shutdown.
    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<io::Error>;

    /// Says whose data this is, which has a part in what the tunnel sends. Without effect where the
    /// kernel sends it.
    fn belongs_to(&mut self, _client: u64) {}
}

impl Stream {
    /// Says whose stream this is.
    pub fn belongs_to(&mut self, client: u64) {
        self.reader.belongs_to(client);
        self.writer.belongs_to(client);
    }
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

/// Condition of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// It carries data, or would.
    Up,
    /// It is open, and used when no available path works.
    Standby,
    /// It is being opened.
    #[default]
    Opening,
    /// Nothing returned over it; it is tried again.
    Dead,
    /// The path's data cap is reached, or its role is `never`.
    Off,
}

/// Name, as in JSON.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        serde::Serialize::serialize(self, f)
    }
}

/// A path's state and counters. Counters start with the tunnel.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct PathState {
    /// Configured name, or the peer's address on `far`.
    pub name: String,
    /// Present condition.
    pub condition: Condition,
    /// Reason for a condition in which it carries nothing, and what to do about it.
    pub reason: Option<String>,
    /// Own address.
    pub local: Option<IpAddr>,
    /// Interface that its packets leave by, as configured or as the own address says.
    pub interface: Option<String>,
    /// Bytes sent, headers of datagrams or segments included as far as known.
    pub sent_bytes: u64,
    /// Bytes received, with the same headers as in `sent_bytes`.
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
    /// Number of times that the path was found dead.
    pub deaths: u64,
}
