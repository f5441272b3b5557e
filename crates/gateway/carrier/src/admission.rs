//! Admission of handshakes: which ones go on when clients without a key begin more than there are
//! places for, and which failures are logged. `handshakes` has I/O and clock.
//!
//! A new handshake always gets a place. When all are taken, the source prefix with the most places
//! gives up its oldest one, as fair queueing drops from the longest queue: an attacker takes places
//! from its own network. Some places are for addresses from which a key was proved before.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use tokio::time::Instant;

use crate::keys::PublicKey;

/// Most handshakes in progress at a time.
pub const PLACES: usize = 128;

/// Places that addresses with a proved key do not share with others.
const RESERVED: usize = PLACES / 4;

/// Connections over QUIC that may be closing after a failed handshake; about 100 kB each.
const CLOSING: usize = 512;

/// The same, of addresses with a proved key.
const CLOSING_KNOWN: usize = 128;

/// Closing time of a connection that has measured no round-trip time: three PTOs (RFC 9000, section
/// 10.2, and RFC 9002, section 6.2.2).
const CLOSES: Duration = Duration::from_secs(3);

/// Number of addresses remembered for each key, the latest ones.
const ADDRESSES: usize = 16;

/// Least time between two logged failures of the same source prefix.
const SAME_PREFIX: Duration = Duration::from_secs(60);

/// Least time between two logged failures.
const ANY_PREFIX: Duration = Duration::from_secs(1);

/// The network of a client, and the part of it that one host or household has: /24 and /32, or /48
/// and /64.
fn prefixes(address: IpAddr) -> [IpNet; 2] {
    let address = address.to_canonical();
    let lengths = if address.is_ipv4() {
        [24, 32]
    } else {
        [48, 64]
    };
    lengths.map(|length| IpNet::new(address, length).expect("in range").trunc())
}

/// Handshakes in progress, each with a value that is returned when it loses its place.
#[derive(Debug)]
pub struct Places<T> {
    /// Sorted by age.
    taken: BTreeMap<u64, Place<T>>,
    next: u64,
}

#[derive(Debug)]
struct Place<T> {
    prefixes: [IpNet; 2],
    is_known: bool,
    value: T,
}

impl<T> Places<T> {
    /// An empty set of places.
    pub fn new() -> Places<T> {
        Places {
            taken: BTreeMap::new(),
            next: 0,
        }
    }

    /// Number of places taken.
    pub fn taken(&self) -> usize {
        self.taken.len()
    }

    /// Enters a handshake. Returns its number, and the value of the handshake that it displaces, if
    /// any.
    pub fn enter(&mut self, address: IpAddr, is_known: bool, value: T) -> (u64, Option<T>) {
        let number = self.next;
        self.next += 1;
        let place = Place {
            prefixes: prefixes(address),
            is_known,
            value,
        };
        self.taken.insert(number, place);
        let loser = self.loser().and_then(|number| self.leave(number));
        (number, loser)
    }

    /// Removes a handshake. Returns its value, or `None` if it has lost its place.
    pub fn leave(&mut self, number: u64) -> Option<T> {
        self.taken.remove(&number).map(|place| place.value)
    }

    /// The handshake to displace next.
    fn loser(&self) -> Option<u64> {
        if self.taken.len() <= PLACES {
            return None;
        }
        let strangers = self.taken.values().filter(|place| !place.is_known).count();
        let is_known = strangers <= PLACES - RESERVED;
        let group = || self.taken.iter().filter(|(_, it)| it.is_known == is_known);
        let mut sizes: HashMap<IpNet, usize> = HashMap::new();
        for prefix in group().flat_map(|(_, place)| place.prefixes) {
            *sizes.entry(prefix).or_default() += 1;
        }
        let rank = |(number, place): &(&u64, &Place<T>)| {
            let sizes = place.prefixes.map(|prefix| sizes[&prefix]);
            (sizes, Reverse(**number))
        };
        group().max_by_key(rank).map(|(number, _)| *number)
    }
}

/// Connections that are closing after a failed handshake. Nothing ends them earlier, so their
/// number limits how many may begin. Addresses from which a key was proved have a limit of their
/// own.
#[derive(Debug, Default)]
pub struct Closing(VecDeque<Failed>);

#[derive(Debug)]
struct Failed {
    at: Instant,
    source: IpNet,
    is_known: bool,
}

impl Closing {
    /// Records that a handshake with this address has failed.
    pub fn failed(&mut self, address: IpAddr, is_known: bool, now: Instant) {
        self.remove_closed(now);
        self.0.push_back(Failed {
            at: now,
            source: Closing::source(address),
            is_known,
        });
    }

    /// Number of closing connections.
    pub fn count(&mut self, now: Instant) -> usize {
        self.remove_closed(now);
        self.0.len()
    }

    /// Whether another handshake from this address may fail: its source has fewer closing
    /// connections than there is room for, so a single source leaves half of the room to others.
    pub fn has_room(&mut self, address: IpAddr, is_known: bool, now: Instant) -> bool {
        self.remove_closed(now);
        let source = Closing::source(address);
        let like = self.0.iter().filter(|failed| failed.is_known == is_known);
        let own = like.clone().filter(|failed| failed.source == source);
        let most = if is_known { CLOSING_KNOWN } else { CLOSING };
        own.count() < most.saturating_sub(like.count())
    }

    fn remove_closed(&mut self, now: Instant) {
        let is_closed = |failed: &Failed| now.duration_since(failed.at) >= CLOSES;
        while self.0.front().is_some_and(is_closed) {
            self.0.pop_front();
        }
    }

    /// Prefix of the addresses that one attacker may easily have: an IPv4 address, an IPv6 /48.
    fn source(address: IpAddr) -> IpNet {
        let [network, host] = prefixes(address);
        if host.addr().is_ipv4() { host } else { network }
    }
}

/// Addresses from which keys were proved.
#[derive(Debug, Default)]
pub struct Known(HashMap<PublicKey, VecDeque<IpNet>>);

impl Known {
    /// Records that a client at this address has proved this key, which must be an accepted one.
    pub fn proved(&mut self, key: &PublicKey, address: IpAddr) {
        let [_, host] = prefixes(address);
        let hosts = self.0.entry(key.clone()).or_default();
        hosts.retain(|known| *known != host);
        hosts.push_back(host);
        if hosts.len() > ADDRESSES {
            hosts.pop_front();
        }
    }

    /// Forgets the keys that are not accepted any more.
    pub fn retain(&mut self, accepts: impl Fn(&PublicKey) -> bool) {
        self.0.retain(|key, _| accepts(key));
    }

    /// Whether a key was proved from this address.
    pub fn has(&self, address: IpAddr) -> bool {
        let [_, host] = prefixes(address);
        self.0.values().any(|hosts| hosts.contains(&host))
    }
}

/// Failures logged lately: one per source prefix and minute, one per second in all.
#[derive(Debug, Default)]
pub struct Lines {
    logged: Vec<(IpNet, Instant)>,
    unlogged: u64,
}

impl Lines {
    /// Records a failed handshake. Returns how many failures before it were not logged, or `None`
    /// if it is not to be logged either.
    pub fn failed(&mut self, address: IpAddr, now: Instant) -> Option<u64> {
        let [network, _] = prefixes(address);
        let age = |at: Instant| now.saturating_duration_since(at);
        self.logged.retain(|(_, at)| age(*at) < SAME_PREFIX);
        let excludes =
            |(logged, at): &(IpNet, Instant)| *logged == network || age(*at) < ANY_PREFIX;
        if self.logged.iter().any(excludes) {
            self.unlogged += 1;
            return None;
        }
        self.logged.push((network, now));
        Some(std::mem::take(&mut self.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::net::Ipv6Addr;

    use proptest::prelude::*;

    use super::*;
    use crate::keys::KeyPair;

    /// Addresses of three hosts in each of three networks, of either family.
    fn address() -> impl Strategy<Value = IpAddr> {
        (any::<bool>(), 0..3u8, 0..3u8).prop_map(|(is_ipv4, network, host)| match is_ipv4 {
            true => [10, 0, network, host].into(),
            false => {
                let (network, host) = (u16::from(network), u16::from(host));
                Ipv6Addr::new(0x2001, 0xdb8, network, host, 1, 2, 3, 4).into()
            }
        })
    }

    /// The start of a handshake from an address, known or not, or the end of the `n`th one.
    fn step() -> impl Strategy<Value = Result<(IpAddr, bool), usize>> {
        let begin = (address(), prop::bool::weighted(0.2)).prop_map(Ok);
        prop_oneof![8 => begin, 1 => any::<usize>().prop_map(Err)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        #[test]
        fn places_are_bounded_and_each_handshake_ends_once(steps in prop::collection::vec(step(), 600)) {
            let mut places = Places::new();
            let mut present: Vec<(u64, u64, IpAddr, bool)> = Vec::new();
            for (value, step) in (0..).zip(steps) {
                let (address, is_known) = match step {
                    Ok(begin) => begin,
                    Err(_) if present.is_empty() => continue,
                    Err(nth) => {
                        let (number, value, ..) = present.remove(nth % present.len());
                        prop_assert_eq!(places.leave(number), Some(value));
                        prop_assert_eq!(places.leave(number), None);
                        continue;
                    }
                };
                let (number, lost) = places.enter(address, is_known, value);
                let before = present.len();
                present.push((number, value, address, is_known));
                prop_assert_eq!(lost.is_some(), before == PLACES);
                if let Some(lost) = lost {
                    prop_assert_ne!(lost, value, "the new one stays");
                    let place = present.iter().position(|it| it.1 == lost).expect("in progress");
                    let (.., loser, was_known) = present.remove(place);
                    let network = |address| prefixes(address)[0];
                    let mut sizes: HashMap<IpNet, usize> = HashMap::new();
                    for it in present.iter().filter(|it| it.3 == was_known) {
                        *sizes.entry(network(it.2)).or_default() += 1;
                    }
                    let largest = sizes.values().max().expect("others");
                    let left = sizes.get(&network(loser)).unwrap_or(&0);
                    prop_assert!(largest <= &(left + 1), "the largest network gives way");
                    let known = present.iter().filter(|it| it.3).count();
                    prop_assert!(!was_known || known >= RESERVED, "reserved places are kept");
                }
                prop_assert_eq!(places.taken(), present.len());
            }
        }

        #[test]
        fn a_prefix_is_logged_once_a_minute_and_every_failure_is_logged_or_counted(
            failures in prop::collection::vec((address(), 0..20_000u64), 1..200)
        ) {
            let mut lines = Lines::default();
            let mut now = Instant::now();
            let (mut logged, mut counted) = (Vec::new(), 0);
            for (address, pause_ms) in &failures {
                now += Duration::from_millis(*pause_ms);
                if let Some(unlogged) = lines.failed(*address, now) {
                    logged.push((prefixes(*address)[0], now));
                    counted += 1 + unlogged;
                }
                prop_assert!(lines.logged.len() <= 60);
            }
            prop_assert_eq!(counted + lines.unlogged, failures.len() as u64);
            for (i, (network, at)) in logged.iter().enumerate() {
                for (other, earlier) in &logged[..i] {
                    prop_assert!(*at - *earlier >= ANY_PREFIX);
                    prop_assert!(network != other || *at - *earlier >= SAME_PREFIX);
                }
            }
        }
    }

    #[test]
    fn one_network_of_attackers_takes_no_place_of_others() {
        let mut places = Places::new();
        let near: IpAddr = "192.0.2.1".parse().expect("an address");
        places.enter(near, false, near);
        for i in 0..1000u32 {
            let [_, _, high, low] = i.to_be_bytes();
            let attacker = Ipv6Addr::new(0x2001, 0xdb8, 7, i as u16, 1, 1, high.into(), low.into());
            let (_, lost) = places.enter(attacker.into(), false, attacker.into());
            assert_ne!(lost, Some(near));
        }
    }

    #[test]
    fn a_thousand_networks_take_no_reserved_place() {
        let mut places = Places::new();
        let near = |i: u8| IpAddr::from([192, 0, 2, i]);
        let known: HashSet<_> = (0..RESERVED as u8).map(near).collect();
        for near in &known {
            places.enter(*near, true, *near);
        }
        for i in 0..1000u32 {
            let attacker = IpAddr::from((0x0a00_0000 + (i << 8)).to_be_bytes());
            let (_, lost) = places.enter(attacker, false, attacker);
            assert!(lost.is_none_or(|lost| !known.contains(&lost)));
        }
    }

    #[test]
    fn attackers_leave_room_for_a_handshake_that_fails_and_closing_connections_are_bounded() {
        let start = Instant::now();
        let near = IpAddr::from([192, 0, 2, 1]);
        for sources in [1, 2, 30, 200] {
            let mut closing = Closing::default();
            for i in 0..8000u32 {
                let attacker = IpAddr::from((0x0a00_0000 + i % sources).to_be_bytes());
                // 2000 per second.
                let now = start + i * Duration::from_micros(500);
                assert!(closing.has_room(near, false, now), "{sources} sources");
                if closing.has_room(attacker, false, now) {
                    closing.failed(attacker, false, now);
                }
                assert!(closing.0.len() <= CLOSING);
            }
            assert!(closing.0.len() >= CLOSING / 2, "{sources} sources");
            // However many strangers fail, an address with a proved key has room.
            let end = start + 8000 * Duration::from_micros(500);
            assert!(closing.has_room(near, true, end));
            assert!(closing.has_room(near, false, start + Duration::from_secs(13)));
            assert!(closing.0.is_empty());
        }
    }

    #[test]
    fn a_key_makes_its_latest_addresses_known_and_no_more() {
        let keys = [(); 2].map(|()| KeyPair::generate().expect("random numbers"));
        let address = |i: u8| IpAddr::from([192, 0, 2, i]);
        let mut known = Known::default();
        known.proved(keys[1].public(), address(200));
        for i in 0..100 {
            known.proved(keys[0].public(), address(i));
            known.proved(keys[0].public(), address(0));
        }
        let of_key = (0..100).filter(|i| known.has(address(*i)));
        assert_eq!(of_key.count(), ADDRESSES);
        assert!(known.has(address(0)) && known.has(address(99)) && known.has(address(200)));
        known.retain(|key| key == keys[0].public());
        assert!(
            known.has(address(0)) && !known.has(address(200)),
            "it was withdrawn"
        );
        // The same host at a socket of both families.
        let IpAddr::V4(mapped) = address(99) else {
            unreachable!()
        };
        assert!(known.has(mapped.to_ipv6_mapped().into()));
    }
}
