//! UDP sockets towards clients and destinations.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use tokio::net::UdpSocket;
use tokio::time::Instant;

use super::connect::resolve;
use super::peers::Peers;
use crate::socket::bind_udp;
use crate::wire::{Destination, Host, Name};

/// An association without datagrams for so long ends.
pub const IDLE: Duration = Duration::from_secs(120);

/// How long a resolved name, or that it can't be resolved, is remembered.
const REMEMBER: Duration = Duration::from_secs(60);

/// Names that an association remembers.
const MAX_NAMES: usize = 64;

thread_local! {
    /// Where datagrams of any size are received; sockets need no buffer of their own.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; 1 << 16]);
}

/// The next datagram and its origin, an IPv4-mapped one as IPv4. Cancel-safe.
///
/// # Errors
/// Errors of the socket.
pub async fn receive_from(socket: &UdpSocket) -> io::Result<(Bytes, SocketAddr)> {
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

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It was sent.
    Yes,
    /// No address of its destination is allowed.
    NotAllowed,
    /// The name has no address, or the system can't send it.
    Impossible,
}

/// An association's socket towards destinations. It receives only from where it has sent to.
#[derive(Debug)]
pub struct Outside {
    socket: UdpSocket,
    is_ipv6: bool,
    names: HashMap<Name, (Instant, Vec<SocketAddr>)>,
    peers: Peers,
}

impl Outside {
    /// A socket for IPv4 and IPv6, as far as the system has them.
    ///
    /// # Errors
    /// If the system has no socket.
    pub fn bind() -> io::Result<Outside> {
        let any = |ip| bind_udp(SocketAddr::new(ip, 0)).and_then(UdpSocket::from_std);
        let ipv6 = any(Ipv6Addr::UNSPECIFIED.into());
        Ok(Outside {
            is_ipv6: ipv6.is_ok(),
            socket: ipv6.or_else(|_| any(Ipv4Addr::UNSPECIFIED.into()))?,
            names: HashMap::new(),
            peers: Peers::new(Instant::now()),
        })
    }

    /// Sends a datagram to the destination's first address that `allows` accepts.
    pub async fn send(
        &mut self,
        destination: &Destination,
        payload: &[u8],
        allows: impl Fn(IpAddr) -> bool,
    ) -> Sent {
        let addresses = self.addresses(destination).await;
        if addresses.is_empty() {
            return Sent::Impossible;
        }
        let Some(peer) = addresses.into_iter().find(|address| allows(address.ip())) else {
            return Sent::NotAllowed;
        };
        self.peers.use_now(peer, Instant::now());
        let to = match peer.ip() {
            IpAddr::V4(address) if self.is_ipv6 => address.to_ipv6_mapped().into(),
            address => address,
        };
        match self.socket.send_to(payload, (to, peer.port())).await {
            Ok(_) => Sent::Yes,
            Err(_) => Sent::Impossible,
        }
    }

    /// The next datagram from a peer. Cancel-safe.
    ///
    /// # Errors
    /// Errors of the socket.
    pub async fn receive(&mut self) -> io::Result<(Bytes, SocketAddr)> {
        loop {
            let (payload, from) = receive_from(&self.socket).await?;
            if self.peers.heard(from, Instant::now()) {
                return Ok((payload, from));
            }
        }
    }

    async fn addresses(&mut self, destination: &Destination) -> Vec<SocketAddr> {
        let Host::Name(name) = &destination.host else {
            return resolve(destination).await.unwrap_or_default();
        };
        let with_port = |addresses: &[SocketAddr]| {
            let port = destination.port;
            addresses
                .iter()
                .map(|found| SocketAddr::new(found.ip(), port))
                .collect()
        };
        let now = Instant::now();
        if let Some((until, addresses)) = self.names.get(name)
            && now < *until
        {
            return with_port(addresses);
        }
        let addresses = resolve(destination).await.unwrap_or_default();
        if self.names.len() == MAX_NAMES {
            self.names.clear();
        }
        self.names
            .insert(name.clone(), (now + REMEMBER, addresses.clone()));
        addresses
    }
}
