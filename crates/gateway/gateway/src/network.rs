//! Network of a gateway's host: connections with clients and servers, and sockets of tunnels. Tests
//! give a gateway one in memory, in virtual time.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::carrier::udp::Udp;

mod kernel;

pub use kernel::Kernel;

/// A network as one host sees it.
pub trait Network: fmt::Debug + Send + Sync {
    /// Listens for connections at this address.
    ///
    /// # Errors
    /// If it cannot be bound.
    fn listen(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Listener>>>;

    /// Connects to this address.
    ///
    /// # Errors
    /// If the connection cannot be established.
    fn connect(&self, to: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Socket>>>;

    /// Binder of the sockets of tunnels.
    fn udp(&self) -> Arc<dyn Udp>;
}

/// A listening socket of TCP.
pub trait Listener: fmt::Debug + Send + Sync {
    /// Local address.
    ///
    /// # Errors
    /// Errors of the socket.
    fn local_addr(&self) -> io::Result<SocketAddr>;

    /// The next connection with the address of its peer. Cancel-safe.
    ///
    /// # Errors
    /// Errors of the connection, or too few descriptors; later connections may be accepted.
    fn accept(&self) -> BoxFuture<'_, io::Result<(Box<dyn Socket>, SocketAddr)>>;
}

/// A connection of TCP. When it is closed before it is complete, by a drop or because its process
/// ends, however it ends, its peer sees a reset and not an end.
pub trait Socket: AsyncRead + AsyncWrite + fmt::Debug + Send + Sync + Unpin {
    /// Both directions.
    fn split(&mut self) -> (Box<dyn Source + '_>, Box<dyn Sink + '_>);

    /// Waits until the peer has reset the connection, or the kernel has given it up.
    fn failed(&self) -> BoxFuture<'_, io::Error>;

    /// Waits for data or the end, without taking it. Returns whether there is data. Cancel-safe.
    ///
    /// # Errors
    /// If the connection has failed.
    fn has_data(&self) -> BoxFuture<'_, io::Result<bool>>;

    /// Own address.
    ///
    /// # Errors
    /// Errors of the socket.
    fn local_addr(&self) -> io::Result<SocketAddr>;

    /// The peer's address.
    ///
    /// # Errors
    /// Errors of the socket.
    fn peer_addr(&self) -> io::Result<SocketAddr>;

    /// Destination of the connection before the packet filter redirected it here; `None` if it did
    /// not.
    fn original_destination(&self) -> Option<SocketAddr>;

    /// Records that everything was carried: the close is no reset any more.
    fn complete(&self);
}

/// Direction from an end.
pub trait Source: AsyncRead + Send + Unpin {
    /// Waits until the end has failed, without reading.
    fn failed(&mut self) -> BoxFuture<'_, io::Error>;
}

/// Direction to an end.
pub trait Sink: AsyncWrite + Send + Unpin {
    /// Waits until the end has failed, without writing.
    fn failed(&mut self) -> BoxFuture<'_, io::Error>;
}
