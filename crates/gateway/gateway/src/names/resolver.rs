//! Resolution of names, by the file of hosts and then by DNS. A lookup is a task with two sockets:
//! it has no thread, and ends with the future that waits for it.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::dns::{addresses, ask, parse_query, queries};
use super::system::{Changed, System};
use crate::party::Party;
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
/// of them, which is the least likely to be answered. Names are remembered in the same way. A name
/// is asked for once at a time, because each further question with a number of its own would make
/// a forged answer likelier (RFC 5452, section 5).
#[derive(Debug)]
pub struct Resolver<K: Clone + Eq + Hash> {
    names: Arc<Mutex<Names<K>>>,
    lookups: Arc<Mutex<Lookups<K>>>,
}

/// Present lookups, the oldest first.
type Lookups<K> = VecDeque<Lookup<K>>;

#[derive(Debug)]
struct Lookup<K> {
    client: Party<K>,
    /// Notification that it has lost its place.
    lost: Arc<Notify>,
}

/// A lookup that all who wait for the name share; `None` if it has lost its place.
type Asked = Shared<BoxFuture<'static, Option<Vec<IpAddr>>>>;

/// Names that are known without asking.
#[derive(Debug)]
struct Names<K> {
    server: Option<SocketAddr>,
    changed: Changed,
    system: Arc<System>,
    remembered: HashMap<Name, Remembered<K>>,
    /// Lookups at present, if somebody waits for them.
    asked: HashMap<Name, WeakShared<BoxFuture<'static, Option<Vec<IpAddr>>>>>,
    /// Number of uses, for their order.
    uses: u64,
}

#[derive(Debug)]
struct Remembered<K> {
    until: Instant,
    addresses: Vec<IpAddr>,
    /// Client that has asked for it.
    client: Party<K>,
    used: u64,
}

impl<K: Clone + Eq + Hash> Names<K> {
    fn new(server: Option<SocketAddr>) -> Names<K> {
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
            asked: HashMap::new(),
            uses: 0,
        }
    }

    /// Remembers the addresses of a name, in place of the one unused longest of the client that has
    /// most if there are too many.
    fn remember(&mut self, name: Name, addresses: Vec<IpAddr>, valid: Duration, client: Party<K>) {
        let now = Instant::now();
        if self.remembered.len() >= MAX_NAMES {
            self.remembered.retain(|_, it| now < it.until);
        }
        if self.remembered.len() >= MAX_NAMES {
            let clients = self.remembered.values().map(|it| &it.client);
            let most = holder_of_most(clients).cloned();
            let held = self
                .remembered
                .iter()
                .filter(|(_, it)| Some(&it.client) == most.as_ref());
            let unused = held
                .min_by_key(|(_, it)| it.used)
                .map(|(name, _)| name.clone());
            unused.and_then(|name| self.remembered.remove(&name));
        }
        self.uses += 1;
        let remembered = Remembered {
            until: now + valid.clamp(MIN_TTL, MAX_TTL),
            addresses,
            client,
            used: self.uses,
        };
        self.remembered.insert(name, remembered);
    }
}

/// The part that holds most, of the owner that does.
fn holder_of_most<'a, K: Eq + Hash + 'a>(
    holders: impl Iterator<Item = &'a Party<K>> + Clone,
) -> Option<&'a Party<K>> {
    let mut owners: HashMap<&K, usize> = HashMap::new();
    for holder in holders.clone() {
        *owners.entry(&holder.owner).or_default() += 1;
    }
    let mut parts: HashMap<&Party<K>, usize> = HashMap::new();
    for holder in holders.clone() {
        *parts.entry(holder).or_default() += 1;
    }
    let held = |party: &Party<K>| (owners[&party.owner], parts[party]);
    // The first one of those that hold as much.
    holders.min_by_key(|party| Reverse(held(party)))
}

impl<K: Clone + Eq + Hash + Send + Sync + 'static> Resolver<K> {
    /// A resolver that asks this server or, without one, those of the system.
    pub fn new(server: Option<SocketAddr>) -> Resolver<K> {
        Resolver {
            names: Arc::new(Mutex::new(Names::new(server))),
            lookups: Arc::default(),
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
        client: &Party<K>,
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
                names.uses += 1;
                let uses = names.uses;
                let remembered = names.remembered.get_mut(name)?;
                remembered.used = uses;
                (Instant::now() < remembered.until).then(|| remembered.addresses.clone())?
            }
        };
        Some(with_port(&addresses, destination.port))
    }

    /// Looks a name up, or waits for another's lookup of it. If that has lost its place, which was
    /// another client's, looks it up again.
    async fn look_up(&self, client: &Party<K>, name: &Name) -> io::Result<Vec<IpAddr>> {
        loop {
            let (asked, is_own) = self.asked(client, name);
            match asked.await {
                Some(addresses) => return Ok(addresses),
                None if is_own => return Err(io::Error::other("too many lookups")),
                None => {}
            }
        }
    }

    /// The present lookup of a name, or a new one; and whether it is new.
    fn asked(&self, client: &Party<K>, name: &Name) -> (Asked, bool) {
        let mut names = self.names.lock();
        let present = names.asked.get(name).and_then(WeakShared::upgrade);
        if let Some(present) = present.filter(|it| it.peek().is_none()) {
            return (present, false);
        }
        names.asked.retain(|_, it| it.upgrade().is_some());
        let (system, turn) = (names.system.clone(), self.take_turn(client));
        let (all, client, name) = (self.names.clone(), client.clone(), name.clone());
        let key = name.clone();
        let asked = async move {
            let asked = tokio::select! {
                // An answer that has arrived counts.
                biased;
                asked = timeout(RESOLVE, ask_for(&system, &name)) => asked,
                () = turn.lost.notified() => return None,
            };
            let asked = asked.unwrap_or_else(|late| Err(late.into()));
            let (addresses, valid) = asked.unwrap_or((Vec::new(), FAILED_TTL));
            let addresses = in_order(addresses);
            let mut names = all.lock();
            if Arc::ptr_eq(&names.system, &system) {
                names.remember(name, addresses.clone(), valid, client);
            }
            Some(addresses)
        };
        let asked = asked.boxed().shared();
        names
            .asked
            .extend(asked.downgrade().map(|asked| (key, asked)));
        (asked, true)
    }

    /// Takes a place for a lookup.
    fn take_turn(&self, client: &Party<K>) -> Turn<K> {
        let mut lookups = self.lookups.lock();
        if lookups.len() == LOOKUPS {
            let most = holder_of_most(lookups.iter().map(|lookup| &lookup.client));
            let oldest = lookups
                .iter()
                .position(|lookup| Some(&lookup.client) == most);
            if let Some(lookup) = oldest.and_then(|oldest| lookups.remove(oldest)) {
                lookup.lost.notify_one();
            }
        }
        let lost = Arc::new(Notify::new());
        lookups.push_back(Lookup {
            client: client.clone(),
            lost: lost.clone(),
        });
        Turn {
            lookups: self.lookups.clone(),
            lost,
        }
    }
}

/// Place of a lookup, until it is dropped.
struct Turn<K> {
    lookups: Arc<Mutex<Lookups<K>>>,
    lost: Arc<Notify>,
}

impl<K> Drop for Turn<K> {
    fn drop(&mut self) {
        let mut lookups = self.lookups.lock();
        lookups.retain(|lookup| !Arc::ptr_eq(&lookup.lost, &self.lost));
    }
}

/// Addresses of `far`, a host and port, as the system resolves it.
pub async fn resolve_far(far: &str) -> io::Result<Vec<SocketAddr>> {
    let nobody = Party { owner: (), part: 0 };
    Resolver::new(None).resolve(&nobody, &far.parse()?).await
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
    use super::*;

    fn party(owner: u8, part: u32) -> Party<u8> {
        Party { owner, part }
    }

    fn has_lost(turn: &Turn<u8>) -> bool {
        turn.lost.notified().now_or_never().is_some()
    }

    #[test]
    fn the_client_with_the_most_lookups_loses_its_oldest() {
        let resolver = Resolver::new(None);
        let other = resolver.take_turn(&party(0, 0));
        let mut many: Vec<_> = (1..LOOKUPS)
            .map(|_| resolver.take_turn(&party(1, 0)))
            .collect();
        assert!(!many.iter().any(has_lost));
        let another = resolver.take_turn(&party(2, 0));
        many.push(resolver.take_turn(&party(1, 0)));
        let lost = many.iter().map(has_lost);
        assert!(lost.eq((0..LOOKUPS).map(|i| i < 2)));
        assert!(![&other, &another].into_iter().any(has_lost));
        assert_eq!(resolver.lookups.lock().len(), LOOKUPS);
        drop((many, other, another));
        assert!(resolver.lookups.lock().is_empty());
    }

    #[test]
    fn a_key_with_many_clients_takes_no_lookups_of_another_key() {
        let resolver = Resolver::new(None);
        let others = [(); 2].map(|()| resolver.take_turn(&party(0, 1)));
        let many: Vec<_> = (0..2 * LOOKUPS as u32)
            .map(|part| resolver.take_turn(&party(1, part)))
            .collect();
        assert!(!others.iter().any(has_lost));
        assert!(has_lost(&many[0]));
    }

    /// A resolver with a server that counts the questions and answers NXDOMAIN after a while.
    async fn counting() -> (Resolver<u8>, Arc<Mutex<Vec<u16>>>) {
        let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await;
        let socket = Arc::new(socket.expect("a port"));
        let address = socket.local_addr().expect("bound");
        let asked = Arc::<Mutex<Vec<u16>>>::default();
        let ports = asked.clone();
        tokio::spawn(async move {
            let mut buffer = [0; 512];
            while let Ok((n, from)) = socket.recv_from(&mut buffer).await {
                ports.lock().push(from.port());
                buffer[2] |= 0x80;
                buffer[3] = 3;
                let (socket, answer) = (socket.clone(), buffer[..n].to_vec());
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    let _ = socket.send_to(&answer, from).await;
                });
            }
        });
        (Resolver::new(Some(address)), asked)
    }

    #[tokio::test]
    async fn a_name_is_asked_for_once_at_a_time() {
        let (resolver, asked) = counting().await;
        let to: Destination = "a.test:1".parse().expect("a destination");
        let clients = [party(0, 0), party(1, 0)];
        let waiting = (0..200).map(|i| resolver.resolve(&clients[i % 2], &to));
        let found = futures_util::future::join_all(waiting).await;
        assert!(found.iter().all(Result::is_err));
        // For IPv6 and for IPv4.
        assert_eq!(asked.lock().len(), 2);
        assert!(resolver.lookups.lock().is_empty());
    }

    #[tokio::test]
    async fn who_waits_for_the_lookup_of_another_client_does_not_lose_it_with_that_one() {
        let (resolver, _) = counting().await;
        let to: Destination = "b.test:1".parse().expect("a destination");
        let [first, second] = [party(0, 0), party(1, 0)];
        let (mut lost, mut waits) = (
            Box::pin(resolver.resolve(&first, &to)),
            Box::pin(resolver.resolve(&second, &to)),
        );
        assert!((&mut lost).now_or_never().is_none() && (&mut waits).now_or_never().is_none());
        let turns: Vec<_> = (0..LOOKUPS).map(|_| resolver.take_turn(&first)).collect();
        let text = |found: io::Result<_>| found.expect_err("no address").to_string();
        assert_eq!(text(lost.await), "too many lookups");
        assert_eq!(text(waits.await), "no address");
        drop(turns);
    }

    #[test]
    fn names_of_one_client_push_out_no_name_of_another() {
        let mut names = Names::new(None);
        let name = |i: usize| format!("n{i}.test").parse::<Name>().expect("a name");
        names.remember(name(0), Vec::new(), MAX_TTL, party(0, 0));
        for i in 1..MAX_NAMES + 100 {
            names.remember(name(i), Vec::new(), MAX_TTL, party(1, 0));
            // Used again and again.
            if let Some(used) = names.remembered.get_mut(&name(1)) {
                used.used = u64::MAX;
            }
        }
        assert_eq!(names.remembered.len(), MAX_NAMES);
        for kept in [0, 1, MAX_NAMES + 99] {
            assert!(names.remembered.contains_key(&name(kept)), "{kept}");
        }
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
