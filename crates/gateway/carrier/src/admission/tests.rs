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

/// The start of a handshake from an address, known or not, or the end of the `n`th one in progress.
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
            assert!(closing.has_room(near, now), "{sources} sources");
            if closing.has_room(attacker, now) {
                closing.failed(attacker, now);
            }
            assert!(closing.0.len() <= CLOSING);
        }
        assert!(closing.0.len() >= CLOSING / 2, "{sources} sources");
        assert!(closing.has_room(near, start + Duration::from_secs(13)));
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
    // The same host at a socket of both families.
    let IpAddr::V4(mapped) = address(99) else {
        unreachable!()
    };
    assert!(known.has(mapped.to_ipv6_mapped().into()));
}
