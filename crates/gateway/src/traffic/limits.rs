//! Limits on connections and rates: of a gateway, and of each client of it.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use tokio::time::Instant;

use crate::config;

/// How far a client may be ahead of its rate.
const BURST: Duration = Duration::from_millis(100);

/// What counts as one client of `near`: an IPv4 address, or the 64 bits that an IPv6 host can't
/// choose.
pub fn client_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}

/// Admits connections of clients, which are told apart by `K`.
#[derive(Debug)]
pub struct Limiter<K: Eq + Hash> {
    limits: RwLock<config::Limits>,
    clients: Mutex<Clients<K>>,
}

#[derive(Debug)]
struct Clients<K> {
    total: usize,
    each: HashMap<K, Client>,
}

#[derive(Debug)]
struct Client {
    connections: usize,
    rate: Arc<Rate>,
}

impl<K: Eq + Hash + Clone> Limiter<K> {
    /// A limiter with these limits.
    pub fn new(limits: &config::Limits) -> Arc<Limiter<K>> {
        Arc::new(Limiter {
            limits: RwLock::new(limits.clone()),
            clients: Mutex::new(Clients {
                total: 0,
                each: HashMap::new(),
            }),
        })
    }

    /// The present limits.
    pub fn limits(&self) -> config::Limits {
        self.limits
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Replaces the limits. Admitted connections stay; a new rate counts for them, too.
    pub fn replace(&self, limits: &config::Limits) {
        *self.limits.write().unwrap_or_else(PoisonError::into_inner) = limits.clone();
        for client in self.clients().each.values() {
            client.rate.set(limits.client_mbps);
        }
    }

    /// Admits a connection until the permit is dropped; `None` at a limit.
    pub fn admit(self: &Arc<Self>, client: &K) -> Option<Permit<K>> {
        let limits = self.limits();
        let mut clients = self.clients();
        if clients.total >= limits.connections {
            return None;
        }
        let entry = clients
            .each
            .entry(client.clone())
            .or_insert_with(|| Client {
                connections: 0,
                rate: Arc::new(Rate::new(limits.client_mbps)),
            });
        if entry.connections >= limits.connections_per_client {
            return None;
        }
        entry.connections += 1;
        let rate = entry.rate.clone();
        clients.total += 1;
        Some(Permit {
            limiter: self.clone(),
            client: client.clone(),
            rate,
        })
    }

    /// Connections at present.
    pub fn active(&self) -> usize {
        self.clients().total
    }

    fn clients(&self) -> MutexGuard<'_, Clients<K>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An admitted connection.
#[derive(Debug)]
pub struct Permit<K: Eq + Hash + Clone> {
    limiter: Arc<Limiter<K>>,
    client: K,
    /// The rate that all connections of the client share.
    pub rate: Arc<Rate>,
}

impl<K: Eq + Hash + Clone> Permit<K> {
    /// The client.
    pub fn client(&self) -> &K {
        &self.client
    }
}

impl<K: Eq + Hash + Clone> Drop for Permit<K> {
    fn drop(&mut self) {
        let mut clients = self.limiter.clients();
        clients.total -= 1;
        if let Some(client) = clients.each.get_mut(&self.client) {
            client.connections -= 1;
            if client.connections == 0 {
                clients.each.remove(&self.client);
            }
        }
    }
}

/// A rate that several connections share: a token bucket, kept as the time at which it is full.
#[derive(Debug)]
pub struct Rate(Mutex<Bucket>);

#[derive(Debug)]
struct Bucket {
    bytes_per_s: Option<f64>,
    full_at: Instant,
}

impl Rate {
    /// A rate in Mbit/s; `None` is unlimited.
    pub fn new(mbps: Option<f64>) -> Rate {
        Rate(Mutex::new(Bucket {
            bytes_per_s: mbps.map(|mbps| mbps * 1e6 / 8.0),
            full_at: Instant::now(),
        }))
    }

    fn set(&self, mbps: Option<f64>) {
        self.bucket().bytes_per_s = mbps.map(|mbps| mbps * 1e6 / 8.0);
    }

    /// Waits until these bytes are within the rate.
    pub async fn take(&self, bytes: usize) {
        let until = {
            let mut bucket = self.bucket();
            let Some(bytes_per_s) = bucket.bytes_per_s else {
                return;
            };
            let start = bucket.full_at.max(Instant::now());
            bucket.full_at = start + Duration::from_secs_f64(bytes as f64 / bytes_per_s);
            bucket.full_at - BURST
        };
        tokio::time::sleep_until(until).await;
    }

    fn bucket(&self) -> MutexGuard<'_, Bucket> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_limited_per_client_and_in_total() {
        let mut limits = config::Limits {
            connections: 3,
            connections_per_client: 2,
            ..Default::default()
        };
        let limiter = Limiter::new(&limits);
        let a = [limiter.admit(&1), limiter.admit(&1)].map(|it| it.expect("within the limits"));
        assert!(limiter.admit(&1).is_none());
        let b = limiter.admit(&2).expect("within the limits");
        assert!(limiter.admit(&3).is_none());
        limits.connections = 4;
        limiter.replace(&limits);
        assert!(limiter.admit(&3).is_some());
        drop((a, b));
        assert_eq!(limiter.active(), 0);
        assert!(limiter.clients().each.is_empty());
    }

    #[test]
    fn a_client_is_an_ipv4_address_or_64_bits_of_ipv6() {
        let client = |text: &str| client_of(text.parse().expect("an address"));
        assert_eq!(client("192.0.2.1"), client("::ffff:192.0.2.1"));
        assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
        assert_eq!(client("2001:db8::1"), client("2001:db8::ffff:0:0:2"));
        assert_ne!(client("2001:db8::1"), client("2001:db8:0:1::1"));
    }

    #[tokio::test(start_paused = true)]
    async fn connections_of_a_client_share_its_rate() {
        // 8 Mbit/s are 1 MB/s: 2 x 500 kB take 1 s less the burst of 0.1 s.
        let rate = Rate::new(Some(8.0));
        let start = Instant::now();
        let half = async {
            for _ in 0..50 {
                rate.take(10_000).await;
            }
        };
        tokio::join!(half, async {
            for _ in 0..50 {
                rate.take(10_000).await;
            }
        });
        let took = start.elapsed().as_secs_f64();
        assert!((0.89..1.01).contains(&took), "{took}");
        Rate::new(None).take(usize::MAX).await;
    }
}
