//! Peers of a UDP association: the senders whose datagrams it accepts.

use std::collections::HashSet;
use std::mem;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::Instant;

/// Number of peers used last that are always known; at most twice as many are.
const ALWAYS: usize = 512;

/// Time without a datagram for which a peer is known (RFC 4787, section 4.3), and at most twice.
const IDLE: Duration = Duration::from_secs(120);

/// Peers used lately. They are in two generations: the older one is forgotten once the newer one
/// has `ALWAYS` peers or has lasted for `IDLE`.
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
        if is_full || now - self.since >= IDLE {
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
            assert!(peers.heard(peer(1), start + n * IDLE));
        }
        assert!(!peers.heard(peer(2), start + 3 * IDLE));
    }
}
