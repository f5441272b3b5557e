//! UDP sockets of tunnels: those of the kernel, or of a network in memory.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::task::{Context, Poll, ready};
use std::{fmt, net};

use noq::udp::{RecvMeta, Transmit, UdpSocketState};
use noq::{AsyncUdpSocket, Runtime, TokioRuntime};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::config;
use crate::socket::bind_udp;

/// Socket buffers, bytes: with the default of 212 kB downloads over two paths fall to a third.
const BUFFER: usize = 4 << 20;

/// Binds sockets.
pub trait Udp: fmt::Debug + Send + Sync {
    /// A socket of `near` for this path, which reaches `far` at this address.
    fn bind_path(&self, path: &config::Path, far: SocketAddr) -> io::Result<Box<dyn PathSocket>>;

    /// The socket of `far` at this address; both families at `[::]`.
    fn bind_far(&self, address: SocketAddr) -> io::Result<Box<dyn AsyncUdpSocket>>;
}

/// A socket of one path.
pub trait PathSocket: fmt::Debug + Send + Sync {
    /// Own address.
    fn local_addr(&self) -> io::Result<SocketAddr>;

    /// Sends without waiting.
    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()>;

    /// Receives datagrams, or wakes the last caller when that may succeed.
    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>>;

    /// Whether datagrams might be fragmented.
    fn may_fragment(&self) -> bool;

    /// Most datagrams that may be sent as one.
    fn max_transmit_segments(&self) -> NonZeroUsize;

    /// Most datagrams that may be received as one.
    fn max_receive_segments(&self) -> NonZeroUsize;
}

/// Sockets of the kernel.
#[derive(Debug)]
pub struct Kernel;

impl Udp for Kernel {
    fn bind_path(&self, path: &config::Path, far: SocketAddr) -> io::Result<Box<dyn PathSocket>> {
        let socket = Socket::new(Domain::for_address(far), Type::DGRAM, Some(Protocol::UDP))?;
        if far.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        if let Some(interface) = &path.interface {
            bind_to_interface(&socket, interface)?;
        }
        let any = match far {
            SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
        };
        socket.bind(&SocketAddr::new(path.address.unwrap_or(any), 0).into())?;
        socket.set_nonblocking(true)?;
        Ok(Box::new(Bound::new(socket.into())?))
    }

    fn bind_far(&self, address: SocketAddr) -> io::Result<Box<dyn AsyncUdpSocket>> {
        let socket = bind_udp(address)?;
        set_buffers(&socket);
        TokioRuntime.wrap_udp_socket(socket)
    }
}

/// A bound socket.
#[derive(Debug)]
struct Bound {
    io: UdpSocket,
    state: UdpSocketState,
}

impl Bound {
    fn new(socket: net::UdpSocket) -> io::Result<Bound> {
        set_buffers(&socket);
        let state = UdpSocketState::new((&socket).into())?;
        let io = UdpSocket::from_std(socket)?;
        Ok(Bound { io, state })
    }
}

impl PathSocket for Bound {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    /// Sends without asking whether the socket is writable: one that was just bound is not known to
    /// be.
    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.state.try_send((&self.io).into(), transmit)
    }

    /// Receives until a call leaves a buffer empty, which means that the socket is empty. That call
    /// ends with `WouldBlock` for tokio, which saves a system call.
    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.io.poll_recv_ready(cx))?;
            let mut received = 0;
            let tried = self.io.try_io(Interest::READABLE, || {
                received = self.state.recv((&self.io).into(), bufs, meta)?;
                match received < bufs.len() {
                    true => Err(io::ErrorKind::WouldBlock.into()),
                    false => Ok(()),
                }
            });
            match tried {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    return Poll::Ready(Err(error));
                }
                _ if received > 0 => return Poll::Ready(Ok(received)),
                _ => {}
            }
        }
    }

    fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }

    fn max_transmit_segments(&self) -> NonZeroUsize {
        self.state.max_gso_segments()
    }

    fn max_receive_segments(&self) -> NonZeroUsize {
        self.state.gro_segments()
    }
}

/// Raises the buffers as far as the system allows.
fn set_buffers(socket: &net::UdpSocket) {
    let socket = socket2::SockRef::from(socket);
    // A smaller buffer costs throughput, nothing else.
    let _ = socket.set_recv_buffer_size(BUFFER);
    let _ = socket.set_send_buffer_size(BUFFER);
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn bind_to_interface(socket: &Socket, interface: &str) -> io::Result<()> {
    socket.bind_device(Some(interface.as_bytes()))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn bind_to_interface(_: &Socket, _: &str) -> io::Result<()> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "this system cannot bind a socket to an interface: give the path an address",
    ))
}
