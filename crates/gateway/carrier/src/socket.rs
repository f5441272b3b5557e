//! Sockets of UDP, TCP connections that this process opens, and attempts with several addresses
//! (Happy Eyeballs, RFC 8305).

use std::collections::HashSet;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::LazyLock;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use if_addrs::get_if_addrs;
use parking_lot::{Mutex, MutexGuard};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A non-blocking socket bound to this address; `[::]` is both families.
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

/// Connection Attempt Delay of RFC 8305, section 5.
const DELAY: Duration = Duration::from_millis(250);

/// Most addresses that are tried.
const MAX_ADDRESSES: usize = 4;

/// Returns the first success of attempts with these addresses. The next attempt starts when one
/// fails, or beside those that have not finished after the Connection Attempt Delay.
///
/// # Errors
/// The error of the attempt that failed last; `None` without addresses.
pub async fn race<T, E, Attempt: Future<Output = Result<T, E>>>(
    addresses: &[SocketAddr],
    attempt: impl Fn(SocketAddr) -> Attempt,
) -> Result<T, Option<E>> {
    let mut untried = addresses.iter().take(MAX_ADDRESSES);
    let mut attempts = FuturesUnordered::new();
    let mut failure = None;
    loop {
        attempts.extend(untried.next().map(|address| attempt(*address)));
        let finished = async {
            match untried.len() {
                0 => Ok(attempts.next().await),
                _ => timeout(DELAY, attempts.next()).await,
            }
        };
        match finished.await {
            Ok(Some(Ok(success))) => return Ok(success),
            Ok(Some(Err(error))) => failure = Some(error),
            Ok(None) => return Err(failure),
            Err(_) => {}
        }
    }
}

/// The first address of an interface that can reach the peer's family.
pub fn address_of(interface: &str, ipv4: bool) -> Option<IpAddr> {
    let usable = |address: &IpAddr| match address {
        IpAddr::V4(_) => ipv4,
        IpAddr::V6(v6) => !ipv4 && !v6.is_unicast_link_local(),
    };
    let own = get_if_addrs().into_iter().flatten();
    let own = own.filter(|found| found.name == interface);
    own.map(|found| found.ip()).find(usable)
}

/// The interface that has this address.
pub fn interface_of(address: IpAddr) -> Option<String> {
    let mut all = get_if_addrs().into_iter().flatten();
    all.find(|found| found.ip() == address)
        .map(|found| found.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_address_without_an_answer_delays_the_next_by_a_quarter_of_a_second() {
        let addresses = [1, 2, 3, 4, 5].map(|port| SocketAddr::from(([192, 0, 2, 1], port)));
        let start = tokio::time::Instant::now();
        // The first never answers, the second refuses at once, the third accepts.
        let attempt = async |address: SocketAddr| match address.port() {
            1 => std::future::pending().await,
            2 => Err("refused"),
            port => Ok(port),
        };
        assert_eq!(race(&addresses, attempt).await, Ok(3));
        assert_eq!(start.elapsed(), DELAY);
        let refuses = async |address: SocketAddr| Err::<(), _>(address.port());
        assert_eq!(race(&addresses, refuses).await, Err(Some(4)));
        assert_eq!(race(&[], refuses).await, Err(None));
    }
}
