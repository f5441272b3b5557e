//! Limits of a gateway, and the parts that its clients have in them.
//!
//! Places are shared max-min: when all are taken, a client gets one from the client that holds
//! most, if that has more than it would have itself. Whatever others do, a new client finds a
//! place. If it holds most itself, the place of its oldest query is for the next one, and that of a
//! half-closed connection in which nothing moves for the next connection. Room for waiting bytes
//! cannot be taken back, so a client gets more only while it has less than what is free (dynamic
//! thresholds, Choudhury and Hahne 1998).

use std::collections::{BTreeMap, HashMap};
use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::rate::{Flow, Rate};
use crate::carrier::Lines;
use crate::config::{self, Live};
pub use crate::party::Party;

/// Something of which there is a limited amount.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    /// Places for TCP connections and UDP: an association at near, and each socket with which its
    /// datagrams are sent.
    Connection,
    /// Places for DNS queries, or TCP connections with queries. Connections may stay for days, so
    /// these have places of their own.
    Query,
    /// Bytes of datagrams that wait.
    Datagrams,
}

/// Amounts that are taken, by purpose.
type Used = [usize; 3];

/// Limits of the clients `K`.
#[derive(Debug)]
pub struct Limiter<K: Eq + Hash> {
    limits: Live<config::Limits>,
    clients: Mutex<Clients<K>>,
}

#[derive(Debug)]
struct Clients<K> {
    used: Used,
    each: HashMap<K, Client>,
    /// Number of the client or permit that begins next.
    next: u64,
    refusals: Lines,
}

#[derive(Debug)]
struct Client {
    number: u32,
    used: Used,
    parts: HashMap<u32, Part>,
    rate: Arc<Rate>,
}

/// A client behind a key; at near the only part of a client.
#[derive(Debug, Default)]
struct Part {
    used: Used,
    /// Permits by age.
    permits: [BTreeMap<u64, Arc<Place>>; 2],
}

/// State of a permit that its holder shares.
#[derive(Debug, Default)]
pub struct Place {
    /// Cancelled when somebody else gets the place.
    pub lost: CancellationToken,
    /// Whether it is a connection of which one direction has ended, and in which nothing moves.
    pub is_stuck: AtomicBool,
}

impl<K: Eq + Hash + Clone + Display> Limiter<K> {
    /// A limiter with these limits.
    pub fn new(limits: &config::Limits) -> Arc<Limiter<K>> {
        Arc::new(Limiter {
            limits: Live::new(limits.clone()),
            clients: Mutex::new(Clients {
                used: Used::default(),
                each: HashMap::new(),
                next: 1,
                refusals: Lines::default(),
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

    /// Admits a connection or query until the permit is dropped or lost. Returns `None` at a limit,
    /// which is logged, at most once a minute.
    pub fn admit(self: &Arc<Self>, purpose: Purpose, party: &Party<K>) -> Option<Permit<K>> {
        let mut clients = self.clients.lock();
        // Limits are read while nobody replaces them, or a client would keep the rate before.
        let limits = self.limits();
        let (most, most_each) = match purpose {
            Purpose::Query => (limits.queries(), limits.queries_per_client()),
            _ => (limits.connections(), limits.connections_per_client()),
        };
        let i = purpose as usize;
        let (own, of_part) = clients.used_by(party, i);
        let full = if own >= most_each {
            let behind = clients.loser_behind(&party.owner, i, of_part);
            Some(("limits.connections_per_client", behind))
        } else if clients.used[i] >= most {
            Some(("limits.connections", clients.loser(i, own)))
        } else {
            None
        };
        let mut loser = None;
        if let Some((limit, other)) = full {
            loser = other.or_else(|| clients.own_loser(purpose, party));
            if let Some(unlogged) = clients.refusals.count(Instant::now()) {
                let what = match &loser {
                    Some((other, _)) => format!("takes a place of {other}"),
                    None => "refused".to_owned(),
                };
                warn!(%party, unlogged, "{purpose:?} {what}: {own} at present, see {limit}");
            }
            loser.as_ref()?;
        }
        let lost = loser.and_then(|(party, number)| clients.remove(&party, i, number));
        let number = clients.next;
        clients.next += 1;
        let client = clients.take(party, i, 1, &limits);
        let place = Arc::<Place>::default();
        let part = client.parts.entry(party.part).or_default();
        part.permits[i].insert(number, place.clone());
        let flow = match party.part {
            0 => number << 32,
            part => part.into(),
        };
        let permit = Permit {
            limiter: self.clone(),
            party: party.clone(),
            purpose,
            number,
            client: client.number,
            lost: place.lost.clone(),
            place,
            flow: Flow::new(client.rate.clone(), flow),
        };
        drop(clients);
        if let Some(lost) = lost {
            lost.lost.cancel();
        }
        Some(permit)
    }

    /// Number of present connections and queries.
    pub fn active(&self) -> usize {
        let used = self.clients.lock().used;
        used[Purpose::Connection as usize] + used[Purpose::Query as usize]
    }
}

impl<K: Eq + Hash + Clone> Clients<K> {
    /// Amounts that a client and its part use.
    fn used_by(&self, party: &Party<K>, i: usize) -> (usize, usize) {
        let Some(client) = self.each.get(&party.owner) else {
            return (0, 0);
        };
        let part = client.parts.get(&party.part);
        (client.used[i], part.map_or(0, |part| part.used[i]))
    }

    /// Permit that makes way for a client with `own` places: the latest of those that hold most.
    fn loser(&self, i: usize, own: usize) -> Option<(Party<K>, u64)> {
        let most = self.each.iter().max_by_key(|(_, client)| client.used[i]);
        let (owner, client) = most.filter(|(_, client)| client.used[i] > own + 1)?;
        client.loser(owner, i)
    }

    /// The same among the parts of one client.
    fn loser_behind(&self, owner: &K, i: usize, own: usize) -> Option<(Party<K>, u64)> {
        let client = self.each.get(owner)?;
        let most = client.parts.values().map(|part| part.used[i]).max();
        client.loser(owner, i).filter(|_| most > Some(own + 1))
    }

    fn take(
        &mut self,
        party: &Party<K>,
        i: usize,
        amount: usize,
        limits: &config::Limits,
    ) -> &mut Client {
        self.used[i] += amount;
        let number = self.next;
        self.next += 1;
        let client = self.each.entry(party.owner.clone());
        let client = client.or_insert_with(|| Client {
            // It wraps around to others' only after 2^32.
            number: u32::try_from(number % u64::from(u32::MAX)).expect("in range") + 1,
            used: Used::default(),
            parts: HashMap::new(),
            rate: Arc::new(Rate::new(limits.client_mbps)),
        });
        client.used[i] += amount;
        client.parts.entry(party.part).or_default().used[i] += amount;
        client
    }

    /// Permit of a client itself that makes way for its next one.
    fn own_loser(&self, purpose: Purpose, party: &Party<K>) -> Option<(Party<K>, u64)> {
        let part = self.each.get(&party.owner)?.parts.get(&party.part)?;
        let mut permits = part.permits[purpose as usize].iter();
        let (number, _) = match purpose {
            Purpose::Query => permits.next()?,
            _ => permits.find(|(_, place)| place.is_stuck.load(Ordering::Relaxed))?,
        };
        Some((party.clone(), *number))
    }

    /// Removes a permit, unless it was lost.
    fn remove(&mut self, party: &Party<K>, i: usize, number: u64) -> Option<Arc<Place>> {
        let part = self
            .each
            .get_mut(&party.owner)?
            .parts
            .get_mut(&party.part)?;
        let place = part.permits[i].remove(&number)?;
        self.give_back(party, i, 1);
        Some(place)
    }

    fn give_back(&mut self, party: &Party<K>, i: usize, amount: usize) {
        self.used[i] -= amount;
        let Some(client) = self.each.get_mut(&party.owner) else {
            return;
        };
        client.used[i] -= amount;
        if let Some(part) = client.parts.get_mut(&party.part) {
            part.used[i] -= amount;
            if part.used == Used::default() {
                client.parts.remove(&party.part);
            }
        }
        if client.used == Used::default() {
            self.each.remove(&party.owner);
        }
    }
}

impl Client {
    /// The latest permit of the part that holds most; of queries the oldest, as it will hardly be
    /// answered.
    fn loser<K: Clone>(&self, owner: &K, i: usize) -> Option<(Party<K>, u64)> {
        let (number, part) = self.parts.iter().max_by_key(|(_, part)| part.used[i])?;
        let owner = owner.clone();
        let (latest, _) = match i == Purpose::Query as usize {
            true => part.permits[i].first_key_value()?,
            false => part.permits[i].last_key_value()?,
        };
        Some((
            Party {
                owner,
                part: *number,
            },
            *latest,
        ))
    }
}

/// An admitted connection or query.
#[derive(Debug)]
pub struct Permit<K: Eq + Hash + Clone> {
    limiter: Arc<Limiter<K>>,
    party: Party<K>,
    purpose: Purpose,
    number: u64,
    /// Number of the client, for the other gateway.
    pub client: u32,
    /// Cancelled when its place is somebody else's.
    pub lost: CancellationToken,
    place: Arc<Place>,
    /// Flow in the rate that all connections of the client share.
    pub flow: Flow,
}

impl<K: Eq + Hash + Clone + Display> Permit<K> {
    /// The client.
    pub fn party(&self) -> &Party<K> {
        &self.party
    }

    /// Records whether it is a half-closed connection in which nothing moves.
    pub fn set_stuck(&self, is_stuck: bool) {
        self.place.is_stuck.store(is_stuck, Ordering::Relaxed);
    }

    /// Another permit of the same client for the same purpose.
    pub fn another(&self) -> Option<Permit<K>> {
        self.limiter.admit(self.purpose, &self.party)
    }
}

impl<K: Eq + Hash + Clone> Drop for Permit<K> {
    fn drop(&mut self) {
        let mut clients = self.limiter.clients.lock();
        clients.remove(&self.party, self.purpose as usize, self.number);
    }
}

/// Room for datagrams that wait, of which a client has a part.
pub trait Room: Debug + Send + Sync {
    /// Takes these bytes, if the client may have them.
    fn take(&self, bytes: usize) -> bool;

    /// Gives them back.
    fn give_back(&self, bytes: usize);
}

impl<K: Eq + Hash + Clone + Display + Debug + Send + Sync> Room for (Arc<Limiter<K>>, Party<K>) {
    fn take(&self, bytes: usize) -> bool {
        let i = Purpose::Datagrams as usize;
        let limits = self.0.limits();
        let mut clients = self.0.clients.lock();
        let free = limits.datagram_bytes().saturating_sub(clients.used[i]);
        let (own, _) = clients.used_by(&self.1, i);
        let may = own < free && bytes <= free;
        if may {
            clients.take(&self.1, i, bytes, &limits);
        }
        may
    }

    fn give_back(&self, bytes: usize) {
        let mut clients = self.0.clients.lock();
        clients.give_back(&self.1, Purpose::Datagrams as usize, bytes);
    }
}

impl<K: Eq + Hash + Clone + Display + Debug + Send + Sync + 'static> Limiter<K> {
    /// The room of a client's datagrams.
    pub fn room(self: &Arc<Self>, party: &Party<K>) -> Arc<dyn Room> {
        Arc::new((self.clone(), party.clone()))
    }
}
