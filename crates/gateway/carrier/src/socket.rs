//! Sockets of UDP, and the TCP connections that this process opens.

use std::collections::HashSet;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::LazyLock;

use parking_lot::{Mutex, MutexGuard};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpStream;

/// A non-blocking socket bound to this address; `[::]` is both families.
///
/// # Errors
/// If the address cannot be bound.
pub fn bind_udp(address: SocketAddr) -> io::Result<UdpSocket> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// TCP connection that this process has opened, until it is dropped.
#[derive(Debug)]
pub struct Opened(Ends);

/// Local and remote address.
type Ends = (SocketAddr, SocketAddr);

fn opened() -> MutexGuard<'static, HashSet<Ends>> {
    static OPENED: LazyLock<Mutex<HashSet<Ends>>> = LazyLock::new(Mutex::default);
    OPENED.lock()
}

/// The address without scope and flow, an IPv4-mapped one as IPv4.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Whether this process has opened the connection between these canonical addresses.
pub fn is_opened_here(local: SocketAddr, remote: SocketAddr) -> bool {
    opened().contains(&(local, remote))
}

impl Drop for Opened {
    fn drop(&mut self) {
        opened().remove(&self.0);
    }
}

/// Connects this socket, which does not block.
///
/// # Errors
/// If the connection cannot be established.
pub async fn connect(socket: Socket, to: SocketAddr) -> io::Result<(TcpStream, Opened)> {
    let opened = {
        // The connection may be accepted in this process before connect(2) returns.
        let mut opened = opened();
        match socket.connect(&to.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
            _ => {}
        }
        let local = socket.local_addr()?.as_socket();
        let local = local.ok_or(io::ErrorKind::AddrNotAvailable)?;
        let ends = (canonical(local), canonical(to));
        opened.insert(ends);
        Opened(ends)
    };
    let stream = TcpStream::from_std(socket.into())?;
    stream.writable().await?;
    match stream.take_error()? {
        Some(error) => Err(error),
        None => Ok((stream, opened)),
    }
}
