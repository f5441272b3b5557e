//! UDP sockets towards clients and destinations.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::net::UdpSocket;
use tokio::time::Instant;

use super::peers::Peers;
use crate::counters::Counters;
use crate::names::Resolver;
use crate::socket::{bind_udp, receive_from};
use crate::wire::Destination;

/// An association without datagrams for so long ends.
pub const IDLE: Duration = Duration::from_secs(120);

/// Destinations that an association resolves at a time, and bytes that wait for each of them.
const MAX_LOOKUPS: usize = 16;
const MAX_WAITING: usize = 8 << 10;

/// An association's socket towards destinations. It receives only from where it has sent to.
/// Datagrams to a name wait until it is resolved, and delay no others.
pub struct Outside<K> {
    socket: UdpSocket,
    is_ipv6: bool,
    peers: Peers,
    resolver: Arc<Resolver<K>>,
    client: K,
    lookups: FuturesUnordered<BoxFuture<'static, (Destination, Vec<SocketAddr>)>>,
    waiting: HashMap<Destination, Vec<Bytes>>,
    counters: Arc<Counters>,
}

impl<K> fmt::Debug for Outside<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outside").finish_non_exhaustive()
    }
}

impl<K: Clone + Eq + Hash + Send + Sync + 'static> Outside<K> {
    /// A socket for IPv4 and IPv6, as far as the system has them.
    ///
    /// # Errors
    /// If the system has no socket.
    pub fn bind(
        resolver: &Arc<Resolver<K>>,
        client: &K,
        counters: &Arc<Counters>,
    ) -> io::Result<Outside<K>> {
        let any = |ip| bind_udp(SocketAddr::new(ip, 0)).and_then(UdpSocket::from_std);
        let ipv6 = any(Ipv6Addr::UNSPECIFIED.into());
        Ok(Outside {
            is_ipv6: ipv6.is_ok(),
            socket: ipv6.or_else(|_| any(Ipv4Addr::UNSPECIFIED.into()))?,
            peers: Peers::new(Instant::now()),
            resolver: resolver.clone(),
            client: client.clone(),
            lookups: FuturesUnordered::new(),
            waiting: HashMap::new(),
            counters: counters.clone(),
        })
    }

    /// Sends a datagram to the destination's first address that `allows` accepts, once that is
    /// known. One that is dropped is counted.
    pub async fn send(
        &mut self,
        destination: Destination,
        payload: Bytes,
        allows: impl Fn(&Destination, IpAddr) -> bool,
    ) {
        if let Some(addresses) = self.resolver.known(&destination) {
            // What has waited for a name does not wait for the socket.
            let _ = self.socket.writable().await;
            self.send_to(&destination, &addresses, &payload, &allows);
            return;
        }
        let resolving = self.waiting.len();
        match self.waiting.get_mut(&destination) {
            Some(waiting) => {
                let bytes: usize = waiting.iter().map(Bytes::len).sum();
                if bytes + payload.len() <= MAX_WAITING {
                    return waiting.push(payload);
                }
                self.counters.dropped_full.increment();
            }
            None if resolving < MAX_LOOKUPS => {
                let (resolver, client) = (self.resolver.clone(), self.client.clone());
                let to = destination.clone();
                self.lookups.push(Box::pin(async move {
                    let addresses = resolver.resolve(&client, &to).await;
                    (to, addresses.unwrap_or_default())
                }));
                self.waiting.insert(destination, vec![payload]);
            }
            None => self.counters.dropped_full.increment(),
        }
    }

    /// The next datagram from a peer. Sends what has waited for its destination's address
    /// meanwhile. Cancel-safe.
    ///
    /// # Errors
    /// Errors of the socket.
    pub async fn receive(
        &mut self,
        allows: impl Fn(&Destination, IpAddr) -> bool,
    ) -> io::Result<(Bytes, SocketAddr)> {
        loop {
            tokio::select! {
                Some((destination, addresses)) = self.lookups.next() => {
                    for payload in self.waiting.remove(&destination).unwrap_or_default() {
                        self.send_to(&destination, &addresses, &payload, &allows);
                    }
                }
                received = receive_from(&self.socket) => {
                    let (payload, from) = received?;
                    if self.peers.heard(from, Instant::now()) {
                        return Ok((payload, from));
                    }
                }
            }
        }
    }

    fn send_to(
        &mut self,
        destination: &Destination,
        addresses: &[SocketAddr],
        payload: &[u8],
        allows: &impl Fn(&Destination, IpAddr) -> bool,
    ) {
        let counters = &self.counters;
        if addresses.is_empty() {
            return counters.dropped_unsendable.increment();
        }
        let mut addresses = addresses.iter();
        let Some(peer) = addresses.find(|address| allows(destination, address.ip())) else {
            return counters.dropped_destination.increment();
        };
        self.peers.use_now(*peer, Instant::now());
        let to = match peer.ip() {
            IpAddr::V4(address) if self.is_ipv6 => address.to_ipv6_mapped().into(),
            address => address,
        };
        match self.socket.try_send_to(payload, (to, peer.port()).into()) {
            Ok(_) => {
                counters.datagrams_up.increment();
                counters.datagram_bytes_up.add(payload.len() as u64);
            }
            Err(_) => counters.dropped_unsendable.increment(),
        }
    }
}
