//! Limits of connections and rates: of a gateway, and of each of its clients.

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::warn;

use crate::config::{self, Live};

/// Least time between two logged refusals.
const LOGGED: Duration = Duration::from_secs(60);

/// Time by which a client may be ahead of its rate.
const BURST: Duration = Duration::from_millis(100);

/// The client of `near` that an address belongs to: this host, an IPv4 address, or the 64 bits that
/// an IPv6 host can't choose.
pub fn client_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        address if address.is_loopback() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}

/// Purpose of a place. Queries have places of their own: connections may stay for days.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    /// A TCP connection or a UDP association.
    Connection,
    /// A DNS query, or a TCP connection with queries.
    Query,
}

/// Admission of connections and queries of clients, which are told apart by `K`.
#[derive(Debug)]
pub struct Limiter<K: Eq + Hash> {
    limits: Live<config::Limits>,
    clients: Mutex<Clients<K>>,
}

#[derive(Debug)]
struct Clients<K> {
    /// Taken places, by kind.
    total: [usize; 2],
    each: HashMap<K, Client>,
    refusals: Refusals,
}

/// Refusals since the last one that was logged.
#[derive(Debug, Default)]
struct Refusals {
    logged: Option<Instant>,
    unlogged: u64,
}

impl Refusals {
    /// Counts a refusal. Returns the number that were not logged before it, if it is to be logged.
    fn count(&mut self, now: Instant) -> Option<u64> {
        if self.logged.is_some_and(|then| now < then + LOGGED) {
            self.unlogged += 1;
            return None;
        }
        self.logged = Some(now);
        Some(std::mem::take(&mut self.unlogged))
    }
}

#[derive(Debug)]
struct Client {
    /// Taken places, by kind.
    places: [usize; 2],
    rate: Arc<Rate>,
}

impl<K: Eq + Hash + Clone + Display> Limiter<K> {
    /// A limiter with these limits.
    pub fn new(limits: &config::Limits) -> Arc<Limiter<K>> {
        Arc::new(Limiter {
            limits: Live::new(limits.clone()),
            clients: Mutex::new(Clients {
                total: [0; 2],
                each: HashMap::new(),
                refusals: Refusals::default(),
            }),
        })
    }

    /// Present limits.
    pub fn limits(&self) -> Arc<config::Limits> {
        self.limits.get()
    }

    /// Replaces the limits. Admitted connections stay; a new rate counts for them, too.
    pub fn replace(&self, limits: &config::Limits) {
        let clients = self.clients.lock();
        self.limits.set(limits.clone());
        for client in clients.each.values() {
            client.rate.set(limits.client_mbps);
        }
    }

    /// Admits a connection or query until the permit is dropped. Returns `None` at a limit, which
    /// is logged, at most once a minute.
    pub fn admit(self: &Arc<Self>, kind: Purpose, client: &K) -> Option<Permit<K>> {
        let mut clients = self.clients.lock();
        // Limits are read while nobody replaces them, or a client would keep the rate before.
        let limits = self.limits();
        let (most, most_each) = match kind {
            Purpose::Connection => (limits.connections(), limits.connections_per_client()),
            Purpose::Query => (limits.queries(), limits.queries_per_client()),
        };
        let i = kind as usize;
        let taken = clients.each.get(client).map_or(0, |it| it.places[i]);
        if clients.total[i] >= most || taken >= most_each {
            let unlogged = clients.refusals.count(Instant::now())?;
            let limit = match taken >= most_each {
                true => "limits.connections_per_client",
                false => "limits.connections",
            };
            warn!(%client, unlogged, "{kind:?} refused: {taken} at present, see {limit}");
            return None;
        }
        clients.total[i] += 1;
        let entry = clients
            .each
            .entry(client.clone())
            .or_insert_with(|| Client {
                places: [0; 2],
                rate: Arc::new(Rate::new(limits.client_mbps)),
            });
        entry.places[i] += 1;
        Some(Permit {
            limiter: self.clone(),
            client: client.clone(),
            kind,
            rate: entry.rate.clone(),
        })
    }

    /// Number of present connections and queries.
    pub fn active(&self) -> usize {
        self.clients.lock().total.iter().sum()
    }
}

/// An admitted connection or query.
#[derive(Debug)]
pub struct Permit<K: Eq + Hash + Clone> {
    limiter: Arc<Limiter<K>>,
    client: K,
    kind: Purpose,
    /// Rate that all connections of the client share.
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
        let i = self.kind as usize;
        let mut clients = self.limiter.clients.lock();
        clients.total[i] -= 1;
        if let Some(client) = clients.each.get_mut(&self.client) {
            client.places[i] -= 1;
            if client.places == [0; 2] {
                clients.each.remove(&self.client);
            }
        }
    }
}

/// Rate that several connections share: a token bucket, kept as the time at which it is full.
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
        self.0.lock().bytes_per_s = mbps.map(|mbps| mbps * 1e6 / 8.0);
    }

    /// Waits until the rate allows these bytes.
    pub async fn take(&self, bytes: usize) {
        let until = {
            let mut bucket = self.0.lock();
            let Some(bytes_per_s) = bucket.bytes_per_s else {
                return;
            };
            let start = bucket.full_at.max(Instant::now());
            bucket.full_at = start + Duration::from_secs_f64(bytes as f64 / bytes_per_s);
            bucket.full_at - BURST
        };
        tokio::time::sleep_until(until).await;
    }
}
