//! Sockets of a tunnel: Multipath TCP, or TCP where the kernel has none.

use std::io::{self, ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll, ready};
use std::time::Duration;

use anabranch_sockets::{algorithms, mptcp_info};
use anyhow::{Context, bail};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::io::{AsyncRead, AsyncWrite, BufReader, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::socket::{Opened, race};
use crate::{config, failure};

/// Time limit of a connection to one address: SYN is sent again after 1 s and 3 s.
const CONNECT: Duration = Duration::from_secs(4);

/// Connects to `far` over this path.
///
/// # Errors
/// If no address of `far` can be reached over it.
pub async fn connect(
    far: &config::Remote,
    path: &config::Path,
    rule: &str,
    protocol: Protocol,
) -> anyhow::Result<(TcpStream, Opened)> {
    let mut addresses = far.addresses.clone();
    let same_family = |far: &SocketAddr| {
        path.address
            .is_none_or(|own| own.is_ipv4() == far.is_ipv4())
    };
    addresses.retain(same_family);
    let attempt = async |address| connect_to(address, path, rule, protocol).await;
    let none = || anyhow::anyhow!("{far} has no address of the path's family");
    let raced = race(&addresses, attempt).await;
    raced.map_err(|failure| failure.unwrap_or_else(none))
}

async fn connect_to(
    far: SocketAddr,
    path: &config::Path,
    rule: &str,
    protocol: Protocol,
) -> anyhow::Result<(TcpStream, Opened)> {
    let socket = open(Domain::for_address(far), rule, protocol)?;
    if let Some(interface) = &path.interface {
        let bound = socket.bind_device(Some(interface.as_bytes()));
        bound.map_err(|error| failure::of_connect(&error, path, far))?;
    }
    if let Some(own) = path.address {
        let bound = socket.bind(&SocketAddr::new(own, 0).into());
        bound.map_err(|error| failure::of_connect(&error, path, far))?;
    }
    match timeout(CONNECT, crate::socket::connect(socket, far)).await {
        Ok(connected) => connected.map_err(|error| failure::of_connect(&error, path, far)),
        Err(_) => bail!(failure::of_silence("TCP", far, CONNECT)),
    }
}

/// Listens for tunnels.
pub fn listen(address: SocketAddr, rule: &str) -> anyhow::Result<TcpListener> {
    let socket = open(Domain::for_address(address), rule, Protocol::MPTCP)?;
    socket.set_reuse_address(true)?;
    let bound = socket.bind(&address.into());
    bound.with_context(|| format!("listening on {address}"))?;
    socket.listen(1024)?;
    Ok(TcpListener::from_std(socket.into())?)
}

/// A new socket. A socket that accepts connections passes its options on to them.
fn open(domain: Domain, rule: &str, protocol: Protocol) -> anyhow::Result<Socket> {
    let socket = match Socket::new(domain, Type::STREAM, Some(protocol)) {
        Ok(socket) => socket,
        Err(error) if protocol == Protocol::TCP => return Err(error.into()),
        // Multipath TCP is not compiled in, not enabled (net.mptcp.enabled), or not allowed.
        Err(error) => {
            static LOGGED: std::sync::Once = std::sync::Once::new();
            LOGGED.call_once(|| {
                tracing::warn!("no Multipath TCP in this kernel ({error}): one path by TCP");
            });
            Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?
        }
    };
    socket.set_nonblocking(true)?;
    let chosen = socket.set_tcp_congestion(rule.as_bytes());
    chosen.with_context(|| format!("choosing {rule} for congestion control"))?;
    prepare(&socket)?;
    Ok(socket)
}

/// Sets the options that are not inherited, or not by every kernel.
pub fn prepare<'s>(socket: impl Into<SockRef<'s>>) -> io::Result<()> {
    /// Data that the kernel takes before it can be sent, bytes.
    const UNSENT: u32 = 128 << 10;
    // A peer that has vanished does not hold connections forever, nor does a NAT forget them soon.
    let keep_alive = TcpKeepalive::new()
        .with_time(Duration::from_secs(30))
        .with_interval(Duration::from_secs(10))
        .with_retries(3);
    let socket = socket.into();
    let _ = socket.set_tcp_notsent_lowat(UNSENT);
    let _ = socket.set_tcp_keepalive(&keep_alive);
    socket.set_tcp_nodelay(true)
}

/// Makes the receive buffer of a connection of Multipath TCP larger than Linux does, which enlarges
/// it late, or never without timestamps. The send buffer stays Linux', two windows of each path:
/// with a larger one, Linux assigns data to a slow path seconds before it can send it. Without
/// CAP_NET_ADMIN, Linux sizes both.
pub fn raise_receive_buffer(socket: &TcpStream) {
    /// Half of the buffer, bytes: Linux doubles it.
    const BUFFER: usize = 8 << 20;
    if let Ok(Some(_)) = mptcp_info(socket) {
        let _ = set_socket_recv_buffer_size_force(socket, BUFFER);
    }
}

/// A socket below TLS, whose options others read and set meanwhile.
#[derive(Debug)]
pub struct Shared(pub Arc<TcpStream>);

/// A connection with an authenticated peer.
pub type Tls = tokio_rustls::TlsStream<BufReader<Shared>>;

/// The socket of a connection.
pub fn of(tls: &Tls) -> Arc<TcpStream> {
    tls.get_ref().0.get_ref().0.clone()
}

/// Prepares a connected socket for TLS, which by itself reads 4096 bytes.
pub fn buffered(stream: TcpStream) -> BufReader<Shared> {
    const READ: usize = 64 << 10;
    BufReader::with_capacity(READ, Shared(Arc::new(stream)))
}

impl AsyncRead for Shared {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Task<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            match self.0.try_read(buffer.initialize_unfilled()) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read.map(|bytes| buffer.advance(bytes))),
            }
        }
    }
}

impl AsyncWrite for Shared {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Task<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Task<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            match self.0.try_write_vectored(parts) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Task<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Task<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(&*self.0).shutdown(std::net::Shutdown::Write))
    }
}

/// Name of the rule in the kernel.
///
/// # Errors
/// If it is not registered, or has parameters, which are fixed when it is loaded.
pub fn kernel_rule(algorithm: &str) -> anyhow::Result<String> {
    let registered = algorithms::available()?;
    Ok(algorithms::kernel_name(algorithm, &registered)?)
}
