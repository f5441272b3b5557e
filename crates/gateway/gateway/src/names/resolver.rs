//! Resolution of names, by the file of hosts and then by DNS. A lookup is a task with two sockets:
//! it has no thread, and ends with the future that waits for it.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::dns::{addresses, ask, parse_query, queries};
use super::system::{Changed, System};
use crate::wire::{Destination, Host, Name};

/// Longest time of resolving a name.
pub const RESOLVE: Duration = Duration::from_secs(5);

/// Longest time of all servers together for one type of address: less than `RESOLVE`, so that a
/// server that answers queries for one type only is of use.
const ASK: Duration = Duration::from_secs(4);

/// Most lookups at a time. Each has two sockets.
const LOOKUPS: usize = 256;

/// Most names that are remembered.
const MAX_NAMES: usize = 4096;

/// Most addresses of each family of a name that are remembered.
const MAX_ADDRESSES: usize = 4;

/// Least time for which an answer is remembered.
const MIN_TTL: Duration = Duration::from_secs(1);

/// Longest time for which an answer is remembered: addresses are in the order of the routes at the
/// time of the answer.
const MAX_TTL: Duration = Duration::from_secs(300);

/// Time for which it is remembered that a name has no address (RFC 2308).
const NONE_TTL: Duration = Duration::from_secs(5);

/// Time for which it is remembered that no server answered (RFC 9520).
const FAILED_TTL: Duration = Duration::from_secs(1);

/// Resolver for clients, which are told apart by `K`.
///
/// Each lookup finds a place. When all are taken, the client with the most lookups loses the oldest
/// of them, which is the least likely to be answered.
#[derive(Debug)]
pub struct Resolver<K> {
    names: Mutex<Names>,
    lookups: Mutex<Lookups<K>>,
}

/// Present lookups, the oldest first, with the notification that one has lost its place.
type Lookups<K> = VecDeque<(K, Arc<Notify>)>;

/// Names that are known without asking.
#[derive(Debug)]
struct Names {
    server: Option<SocketAddr>,
    changed: Changed,
    system: Arc<System>,
    remembered: HashMap<Name, (Instant, Vec<IpAddr>)>,
}

impl Names {
    fn new(server: Option<SocketAddr>) -> Names {
        let changed = Changed::now();
        let system = System::read();
        Names {
            server,
            changed,
            system: Arc::new(match server {
                Some(server) => system.with_server(server),
                None => system,
            }),
            remembered: HashMap::new(),
        }
    }
}

impl<K: Clone + Eq + Hash> Resolver<K> {
    /// A resolver that asks this server or, without one, those of the system.
    pub fn new(server: Option<SocketAddr>) -> Resolver<K> {
        Resolver {
            names: Mutex::new(Names::new(server)),
            lookups: Mutex::default(),
        }
    }

    /// Asks another server from now on.
    pub fn set_server(&self, server: Option<SocketAddr>) {
        let mut names = self.names.lock();
        if names.server != server {
            *names = Names::new(server);
        }
    }

    /// Resolves a destination. Returns its addresses in the order in which they are to be tried,
    /// IPv4-mapped ones as IPv4.
    pub async fn resolve(
        &self,
        client: &K,
        destination: &Destination,
    ) -> io::Result<Vec<SocketAddr>> {
        let found = match (self.known(destination), &destination.host) {
            (None, Host::Name(name)) => {
                let addresses = self.look_up(client, name).await?;
                with_port(&addresses, destination.port)
            }
            (known, _) => known.unwrap_or_default(),
        };
        if found.is_empty() {
            return Err(io::Error::new(io::ErrorKind::HostUnreachable, "no address"));
        }
        Ok(found)
    }

    /// The result of [`Resolver::resolve`] if no server must be asked; empty for an error.
    pub fn known(&self, destination: &Destination) -> Option<Vec<SocketAddr>> {
        let name = match &destination.host {
            Host::Ip(address) => return Some(vec![SocketAddr::new(*address, destination.port)]),
            Host::Name(name) => name,
        };
        let mut names = self.names.lock();
        if names.changed != Changed::now() {
            *names = Names::new(names.server);
        }
        let addresses = match names.system.local(name) {
            Some(local) => in_order(local),
            None => {
                let (until, addresses) = names.remembered.get(name)?;
                (Instant::now() < *until).then(|| addresses.clone())?
            }
        };
        Some(with_port(&addresses, destination.port))
    }

    async fn look_up(&self, client: &K, name: &Name) -> io::Result<Vec<IpAddr>> {
        let system = self.names.lock().system.clone();
        let turn = self.take_turn(client);
        let asked = tokio::select! {
            // An answer that has arrived counts.
            biased;
            asked = timeout(RESOLVE, ask_for(&system, name)) => asked,
            () = turn.lost.notified() => return Err(io::Error::other("too many lookups")),
        };
        let asked = asked.unwrap_or_else(|late| Err(late.into()));
        let (addresses, valid) = asked.unwrap_or((Vec::new(), FAILED_TTL));
        let addresses = in_order(addresses);
        let mut names = self.names.lock();
        if Arc::ptr_eq(&names.system, &system) {
            if names.remembered.len() >= MAX_NAMES {
                names.remembered.clear();
            }
            let until = Instant::now() + valid.clamp(MIN_TTL, MAX_TTL);
            let entry = (until, addresses.clone());
            names.remembered.insert(name.clone(), entry);
        }
        Ok(addresses)
    }

    /// Takes a place for a lookup.
    fn take_turn(&self, client: &K) -> Turn<'_, K> {
        let mut lookups = self.lookups.lock();
        if lookups.len() == LOOKUPS {
            let mut counts = HashMap::new();
            for (client, _) in &*lookups {
                *counts.entry(client).or_insert(0) += 1;
            }
            let most = counts.values().max();
            let oldest = lookups
                .iter()
                .position(|(client, _)| counts.get(client) == most);
            if let Some((_, lost)) = oldest.and_then(|oldest| lookups.remove(oldest)) {
                lost.notify_one();
            }
        }
        let lost = Arc::new(Notify::new());
        lookups.push_back((client.clone(), lost.clone()));
        Turn {
            resolver: self,
            lost,
        }
    }
}

/// Place of a lookup, until it is dropped.
struct Turn<'a, K: Clone + Eq + Hash> {
    resolver: &'a Resolver<K>,
    lost: Arc<Notify>,
}

impl<K: Clone + Eq + Hash> Drop for Turn<'_, K> {
    fn drop(&mut self) {
        let mut lookups = self.resolver.lookups.lock();
        lookups.retain(|(_, lost)| !Arc::ptr_eq(lost, &self.lost));
    }
}

/// Addresses of `far`, a host and port, as the system resolves it.
pub async fn resolve_far(far: &str) -> io::Result<Vec<SocketAddr>> {
    Resolver::new(None).resolve(&(), &far.parse()?).await
}

/// Addresses of a name and their time to live: of the first candidate that has any.
async fn ask_for(system: &System, name: &Name) -> io::Result<(Vec<IpAddr>, Duration)> {
    let mut failure = None;
    for candidate in system.candidates(name) {
        let [ipv6, ipv4] = queries(&candidate);
        let both = tokio::join!(
            ask_in_turn(&system.servers, &ipv6),
            ask_in_turn(&system.servers, &ipv4),
        );
        let mut found = Vec::new();
        let mut valid = MAX_TTL;
        for answer in [both.0, both.1] {
            match answer {
                Ok((addresses, ttl)) => {
                    let canonical = addresses.iter().map(IpAddr::to_canonical);
                    found.extend(canonical.take(MAX_ADDRESSES));
                    valid = valid.min(ttl);
                }
                Err(error) => failure = Some(error),
            }
        }
        if !found.is_empty() {
            return Ok((found, valid));
        }
    }
    failure.map_or(Ok((Vec::new(), NONE_TTL)), Err)
}

/// Addresses in the answer of the first server that has one.
async fn ask_in_turn(servers: &[SocketAddr], query: &[u8]) -> io::Result<(Vec<IpAddr>, Duration)> {
    let parsed = parse_query(query).expect("an own query");
    let patience = ASK / u32::try_from(servers.len()).unwrap_or(u32::MAX);
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    for server in servers {
        failure = match timeout(patience, ask(*server, query, &parsed)).await {
            Ok(Ok(answer)) => match addresses(&answer) {
                Some(found) => return Ok(found),
                None => io::Error::other("the server reports a failure"),
            },
            Ok(Err(error)) => error,
            Err(late) => late.into(),
        };
    }
    Err(failure)
}

fn with_port(addresses: &[IpAddr], port: u16) -> Vec<SocketAddr> {
    let with_port = addresses.iter().map(|ip| SocketAddr::new(*ip, port));
    with_port.collect()
}

/// Sorts addresses: both families in turn, IPv6 first (RFC 8305, section 4), those without a route
/// last (RFC 6724, section 6, rule 1).
fn in_order(addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    let (ipv6, ipv4): (Vec<_>, Vec<_>) = addresses.into_iter().partition(IpAddr::is_ipv6);
    let ranked = ipv6
        .into_iter()
        .enumerate()
        .chain(ipv4.into_iter().enumerate());
    let mut ranked: Vec<_> = ranked.collect();
    ranked.sort_by_cached_key(|(rank, address)| (!has_route(*address), *rank));
    ranked.into_iter().map(|(_, address)| address).collect()
}

/// Whether the system has a route; no packet is sent.
fn has_route(to: IpAddr) -> bool {
    const DISCARD: u16 = 9;
    let any: IpAddr = match to {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    UdpSocket::bind((any, 0)).is_ok_and(|socket| socket.connect((to, DISCARD)).is_ok())
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn has_lost(turn: &Turn<'_, u8>) -> bool {
        turn.lost.notified().now_or_never().is_some()
    }

    #[test]
    fn the_client_with_the_most_lookups_loses_its_oldest() {
        let resolver = Resolver::new(None);
        let other = resolver.take_turn(&0);
        let mut many: Vec<_> = (1..LOOKUPS).map(|_| resolver.take_turn(&1)).collect();
        assert!(!many.iter().any(has_lost));
        let another = resolver.take_turn(&2);
        many.push(resolver.take_turn(&1));
        let lost = many.iter().map(has_lost);
        assert!(lost.eq((0..LOOKUPS).map(|i| i < 2)));
        assert!(![&other, &another].into_iter().any(has_lost));
        assert_eq!(resolver.lookups.lock().len(), LOOKUPS);
        drop((many, other, another));
        assert!(resolver.lookups.lock().is_empty());
    }

    #[tokio::test]
    async fn a_server_that_fails_or_is_silent_is_followed_by_the_next() {
        let server = async |code: Option<u8>| {
            let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await;
            let socket = socket.expect("a port");
            let address = socket.local_addr().expect("bound");
            tokio::spawn(async move {
                let mut buffer = [0; 512];
                while let Ok((n, from)) = socket.recv_from(&mut buffer).await {
                    let Some(code) = code else { continue };
                    buffer[2] |= 0x80;
                    buffer[3] = code;
                    let _ = socket.send_to(&buffer[..n], from).await;
                }
            });
            address
        };
        let query = &queries(&"a.test".parse().expect("a name"))[0];
        let (no_name, failure) = (server(Some(3)).await, server(Some(2)).await);
        let silent = server(None).await;
        let none = ask_in_turn(&[failure, silent, no_name], query).await;
        assert_eq!(none.expect("an answer").0, [] as [IpAddr; 0]);
        assert!(ask_in_turn(&[failure], query).await.is_err());
    }
}
