//! Network of a gateway's host: connections with clients and servers, and sockets of tunnels. Tests
//! give a gateway one in memory, in virtual time.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};

use crate::carrier::udp::{self, Udp};
use crate::socket::{Opened, canonical, connect_tcp};

/// A network as one host sees it.
pub trait Network: fmt::Debug + Send + Sync {
    /// Listens for connections at this address.
    fn listen(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Listener>>>;

    /// Connects to this address.
    fn connect(&self, to: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Socket>>>;

    /// Binder of the sockets of tunnels.
    fn udp(&self) -> Arc<dyn Udp>;
}

/// A listening socket of TCP.
pub trait Listener: fmt::Debug + Send + Sync {
    /// Local address.
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
    fn has_data(&self) -> BoxFuture<'_, io::Result<bool>>;

    /// Own address.
    fn local_addr(&self) -> io::Result<SocketAddr>;

    /// The peer's address.
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

/// Sockets of the kernel, in tokio's runtime.
#[derive(Debug)]
pub struct Kernel;

impl Network for Kernel {
    fn listen(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Listener>>> {
        async move { Ok(Box::new(TcpListener::bind(address).await?) as Box<dyn Listener>) }.boxed()
    }

    fn connect(&self, to: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Socket>>> {
        async move {
            let (stream, opened) = connect_tcp(to).await?;
            Ok(Tcp::boxed(stream, Some(opened)))
        }
        .boxed()
    }

    fn udp(&self) -> Arc<dyn Udp> {
        Arc::new(udp::Kernel)
    }
}

impl Listener for TcpListener {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        TcpListener::local_addr(self)
    }

    fn accept(&self) -> BoxFuture<'_, io::Result<(Box<dyn Socket>, SocketAddr)>> {
        async move {
            let (stream, peer) = TcpListener::accept(self).await?;
            Ok((Tcp::boxed(stream, None), peer))
        }
        .boxed()
    }
}

/// A connection of TCP.
#[derive(Debug)]
struct Tcp {
    stream: TcpStream,
    /// Record of a connection that this gateway has opened.
    _opened: Option<Opened>,
}

impl Tcp {
    /// A connection without delay for small segments, with keep-alives, so that a peer that has
    /// vanished doesn't hold it forever. TCP_USER_TIMEOUT (RFC 5482) is not set: with it Linux also
    /// resets a connection whose peer lives and does not read.
    fn boxed(stream: TcpStream, opened: Option<Opened>) -> Box<dyn Socket> {
        let keepalive = TcpKeepalive::new()
            .with_time(Duration::from_secs(120))
            .with_interval(Duration::from_secs(30));
        let socket = SockRef::from(&stream);
        // Without these options a connection works, too.
        let _ = socket.set_tcp_keepalive(&keepalive);
        let _ = socket.set_tcp_nodelay(true);
        // Set now, so that it also counts when the process is killed.
        let _ = socket.set_linger(Some(Duration::ZERO));
        Box::new(Tcp {
            stream,
            _opened: opened,
        })
    }
}

impl Socket for Tcp {
    fn split(&mut self) -> (Box<dyn Source + '_>, Box<dyn Sink + '_>) {
        let (reader, writer) = self.stream.split();
        (Box::new(reader), Box::new(writer))
    }

    fn failed(&self) -> BoxFuture<'_, io::Error> {
        failure(&self.stream).boxed()
    }

    fn has_data(&self) -> BoxFuture<'_, io::Result<bool>> {
        async { Ok(self.stream.peek(&mut [0]).await? > 0) }.boxed()
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.stream.local_addr()
    }

    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.stream.peer_addr()
    }

    #[cfg(target_os = "linux")]
    fn original_destination(&self) -> Option<SocketAddr> {
        let here = canonical(self.local_addr().ok()?);
        let socket = SockRef::from(&self.stream);
        let original = match here {
            SocketAddr::V4(_) => socket.original_dst_v4(),
            SocketAddr::V6(_) => socket.original_dst_v6(),
        };
        let original = canonical(original.ok()?.as_socket()?);
        (original != here).then_some(original)
    }

    #[cfg(not(target_os = "linux"))]
    fn original_destination(&self) -> Option<SocketAddr> {
        None
    }

    fn complete(&self) {
        let _ = SockRef::from(&self.stream).set_linger(None);
    }
}

impl Source for ReadHalf<'_> {
    fn failed(&mut self) -> BoxFuture<'_, io::Error> {
        async move { failure((*self).as_ref()).await }.boxed()
    }
}

impl Sink for WriteHalf<'_> {
    fn failed(&mut self) -> BoxFuture<'_, io::Error> {
        async move { failure((*self).as_ref()).await }.boxed()
    }
}

/// Waits until the peer of a socket has reset the connection, or the kernel has given it up.
async fn failure(socket: &TcpStream) -> io::Error {
    match socket.ready(Interest::ERROR).await {
        Ok(_) => ErrorKind::ConnectionReset.into(),
        Err(error) => error,
    }
}

impl AsyncRead for Tcp {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Tcp {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
