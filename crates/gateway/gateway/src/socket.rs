//! Receiving from UDP sockets, and the TCP connections that this process opens.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;

pub(crate) use anabranch_carrier::socket::{Opened, bind_udp, canonical, connect, is_opened_here};
use bytes::Bytes;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::Interest;
use tokio::net::TcpStream;

thread_local! {
    /// Buffer for datagrams of any size; sockets need none of their own.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; 1 << 16]);
}

/// Receives the next datagram, with its origin, an IPv4-mapped one as IPv4; or the error of the
/// socket, such as one that ICMP has reported. Cancel-safe.
pub(crate) async fn receive_from(
    socket: &tokio::net::UdpSocket,
) -> io::Result<(Bytes, SocketAddr)> {
    loop {
        let ready = socket.ready(Interest::READABLE | Interest::ERROR).await?;
        if ready.is_error() {
            if let Some(error) = socket.take_error()? {
                return Err(error);
            }
            let no_error = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
            let _ = socket.try_io(Interest::ERROR, no_error);
        }
        let received: io::Result<_> = BUFFER.with_borrow_mut(|buffer| {
            let (n, from) = socket.try_recv_from(buffer)?;
            let from = SocketAddr::new(from.ip().to_canonical(), from.port());
            Ok((Bytes::copy_from_slice(&buffer[..n]), from))
        });
        match received {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            received => return received,
        }
    }
}

/// Connects to this address.
pub(crate) async fn connect_tcp(to: SocketAddr) -> io::Result<(TcpStream, Opened)> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    connect(socket, to).await
}
