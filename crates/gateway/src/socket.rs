//! UDP sockets.

use std::cell::RefCell;
use std::io;
use std::net::{SocketAddr, UdpSocket};

use bytes::Bytes;
use socket2::{Domain, Protocol, Socket, Type};

/// A socket bound to this address, which does not block; `[::]` is both families.
///
/// # Errors
/// If the address cannot be bound.
pub(crate) fn bind_udp(address: SocketAddr) -> io::Result<UdpSocket> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

thread_local! {
    /// Where datagrams of any size are received; sockets need no buffer of their own.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; 1 << 16]);
}

/// The next datagram and its origin, an IPv4-mapped one as IPv4. Cancel-safe.
///
/// # Errors
/// Errors of the socket.
pub(crate) async fn receive_from(
    socket: &tokio::net::UdpSocket,
) -> io::Result<(Bytes, SocketAddr)> {
    loop {
        socket.readable().await?;
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
