//! UDP sockets towards clients and destinations.

use std::collections::{HashSet, VecDeque};
use std::future::poll_fn;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{io, mem};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::net::UdpSocket;
use tokio::time::Instant;

use super::association::Packet;
use super::limits::Party;
use crate::counters::Counters;
use crate::names::Resolver;
use crate::socket::{bind_udp, receive_from};
use crate::wire::Destination;

/// Time without datagrams after which an association ends.
pub const IDLE: Duration = Duration::from_secs(120);

/// Most destinations that an association resolves at a time.
const MAX_LOOKUPS: usize = 16;

/// Most bytes that wait for one destination.
const MAX_WAITING: usize = 8 << 10;

/// Memory of a datagram that waits besides its payload, bytes, about.
const OVERHEAD: usize = 64;

/// Socket of an association towards destinations. It receives only from addresses to which it has
/// sent. Datagrams to a name wait until it is resolved, and delay no others.
pub struct Outside<K: Clone + Eq + Hash> {
    socket: UdpSocket,
    is_ipv6: bool,
    peers: Peers,
    resolver: Arc<Resolver<K>>,
    client: Party<K>,
    unresolved: VecDeque<Unresolved>,
    counters: Arc<Counters>,
}

/// A destination that is being resolved, with the datagrams that wait for its addresses.
struct Unresolved {
    destination: Destination,
    datagrams: Vec<Packet>,
    lookup: BoxFuture<'static, Vec<SocketAddr>>,
}

impl<K: Clone + Eq + Hash + Send + Sync + 'static> Outside<K> {
    /// Binds a socket for IPv4 and IPv6, as far as the system has them.
    pub fn bind(
        resolver: &Arc<Resolver<K>>,
        client: &Party<K>,
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
            unresolved: VecDeque::new(),
            counters: counters.clone(),
        })
    }

    /// Sends a datagram to the destination's first address that `allows` accepts, once that is
    /// known. Counts a datagram that is dropped.
    pub async fn send(&mut self, packet: Packet, allows: impl Fn(&Destination, IpAddr) -> bool) {
        let destination = &packet.peer;
        if let Some(addresses) = self.resolver.known(destination) {
            // A datagram that has waited for a name does not wait for the socket.
            let _ = self.socket.writable().await;
            self.send_to(destination, &addresses, &packet.payload, &allows);
            return;
        }
        let mut all = self.unresolved.iter();
        let unresolved = match all.position(|it| it.destination == *destination) {
            Some(i) => &mut self.unresolved[i],
            None => self.look_up(destination.clone()),
        };
        let size = |datagram: &Packet| datagram.payload.len() + OVERHEAD;
        let waiting: usize = unresolved.datagrams.iter().map(size).sum();
        if waiting + size(&packet) <= MAX_WAITING {
            unresolved.datagrams.push(packet);
        } else {
            self.counters.dropped_full.increment();
        }
    }

    /// Resolves a destination, in place of the one that takes longest if there are too many.
    fn look_up(&mut self, destination: Destination) -> &mut Unresolved {
        if self.unresolved.len() == MAX_LOOKUPS
            && let Some(oldest) = self.unresolved.pop_front()
        {
            let dropped = oldest.datagrams.len() as u64;
            self.counters.dropped_full.add(dropped);
        }
        let (resolver, client) = (self.resolver.clone(), self.client.clone());
        let to = destination.clone();
        let lookup = async move { resolver.resolve(&client, &to).await.unwrap_or_default() };
        self.unresolved.push_back(Unresolved {
            destination,
            datagrams: Vec::new(),
            lookup: lookup.boxed(),
        });
        self.unresolved.back_mut().expect("it was added")
    }

    /// Receives the next datagram from a peer. Meanwhile sends those that have waited for their
    /// destination's addresses. Cancel-safe.
    pub async fn receive(
        &mut self,
        allows: impl Fn(&Destination, IpAddr) -> bool,
    ) -> io::Result<(Bytes, SocketAddr)> {
        loop {
            tokio::select! {
                (resolved, addresses) = poll_fn(|cx| poll_resolved(&mut self.unresolved, cx)) => {
                    for packet in resolved.datagrams {
                        self.send_to(&packet.peer, &addresses, &packet.payload, &allows);
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

/// Removes a destination whose lookup has finished.
fn poll_resolved(
    unresolved: &mut VecDeque<Unresolved>,
    cx: &mut Context<'_>,
) -> Poll<(Unresolved, Vec<SocketAddr>)> {
    for i in 0..unresolved.len() {
        if let Poll::Ready(addresses) = unresolved[i].lookup.poll_unpin(cx)
            && let Some(resolved) = unresolved.remove(i)
        {
            return Poll::Ready((resolved, addresses));
        }
    }
    Poll::Pending
}

/// Number of peers used last that are always known; at most twice as many are.
const ALWAYS: usize = 512;

/// Time without a datagram for which a peer is known (RFC 4787, section 4.3), and at most twice.
const KNOWN: Duration = Duration::from_secs(120);

/// Peers used lately. They are in two generations: the older one is forgotten once the newer one
/// has `ALWAYS` peers or has lasted for `KNOWN`.
#[derive(Debug)]
pub struct Peers {
    newer: HashSet<SocketAddr>,
    older: HashSet<SocketAddr>,
    since: Instant,
}

impl Peers {
    /// No peers.
    pub fn new(now: Instant) -> Peers {
        Peers {
            newer: HashSet::new(),
            older: HashSet::new(),
            since: now,
        }
    }

    /// Records that a datagram is sent to this peer.
    pub fn use_now(&mut self, peer: SocketAddr, now: Instant) {
        let is_full = self.newer.len() == ALWAYS && !self.newer.contains(&peer);
        if is_full || now - self.since >= KNOWN {
            self.older = mem::take(&mut self.newer);
            self.since = now;
        }
        self.newer.insert(peer);
    }

    /// Whether a datagram from here is from a peer, which is then used.
    pub fn heard(&mut self, from: SocketAddr, now: Instant) -> bool {
        let known = self.newer.contains(&from) || self.older.contains(&from);
        if known {
            self.use_now(from, now);
        }
        known
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn peer(port: u16) -> SocketAddr {
        ([192, 0, 2, 1], port).into()
    }

    proptest! {
        #[test]
        fn the_peers_used_last_are_known_and_no_more_than_twice_as_many(
            ports in prop::collection::vec(1..2000_u16, 1..3000),
        ) {
            let now = Instant::now();
            let mut peers = Peers::new(now);
            for &port in &ports {
                peers.use_now(peer(port), now);
                prop_assert!(peers.newer.len() + peers.older.len() <= 2 * ALWAYS);
            }
            let mut last: Vec<u16> = Vec::new();
            for &port in ports.iter().rev() {
                if last.len() < ALWAYS && !last.contains(&port) {
                    last.push(port);
                }
            }
            for port in last {
                let peer = peer(port);
                prop_assert!(peers.newer.contains(&peer) || peers.older.contains(&peer));
            }
            prop_assert!(!peers.heard(peer(2000), now));
        }
    }

    #[test]
    fn a_peer_is_forgotten_two_idle_times_after_its_last_datagram_in_either_direction() {
        let start = Instant::now();
        let mut peers = Peers::new(start);
        peers.use_now(peer(1), start);
        peers.use_now(peer(2), start);
        for n in 1..=3 {
            assert!(peers.heard(peer(1), start + n * KNOWN));
        }
        assert!(!peers.heard(peer(2), start + 3 * KNOWN));
    }
}
