//! Tunnel with either carrier.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;

use crate::config::{Carrier, Limits};
use crate::state::PathState;
use crate::stream::Stream;

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

    /// Opens a stream. Waits while the peer's limit of streams is reached.
    ///
    /// # Errors
    /// If the tunnel is closed.
    fn open(&self) -> BoxFuture<'_, Result<Stream, Closed>>;

    /// The next stream that the peer has opened.
    ///
    /// # Errors
    /// If the tunnel is closed.
    fn accept(&self) -> BoxFuture<'_, Result<Stream, Closed>>;

    /// Sends a datagram. When the send buffer is full the oldest one is discarded.
    ///
    /// # Errors
    /// If it is too large or the tunnel is closed.
    fn send_datagram(&self, datagram: Bytes) -> Result<(), NotSent>;

    /// Datagrams that wait to be sent, bytes.
    fn datagrams_waiting_bytes(&self) -> usize;

    /// The next datagram from the peer.
    ///
    /// # Errors
    /// If the tunnel is closed.
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
