//! Paths that die, return, are tried, and are limited. The time that each change takes is printed
//! here and measured by `crates/gateway/acceptance`.

use std::time::{Duration, Instant};

use anabranch_carrier::{Condition, Path, Role, Tunnel};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::relay::{Fate, Relay};
use crate::support::{A, B, C, Pair, condition, identities, listen, near, pair, pair_at, path};
use crate::support::{PATIENCE, state, until};

/// A pair behind a relay, with these paths.
async fn relayed(paths: &[&str]) -> (Pair, Relay) {
    let (near_identity, far_identity, _) = identities();
    let (listener, address) = listen(&far_identity).await;
    let relay = Relay::to(address).await;
    let paths = paths.iter().map(|address| path(address)).collect();
    let config = near(relay.address, paths);
    (pair_at(listener, config, &near_identity).await, relay)
}

async fn up(tunnel: &Tunnel, paths: &[&str]) -> Duration {
    let all = || {
        paths
            .iter()
            .all(|path| condition(tunnel, path) == Condition::Up)
    };
    until(&format!("{paths:?} up"), all).await
}

/// Sends data from `from` to `to` for a while. Returns the longest time without an arrival.
async fn longest_stall(from: &Tunnel, to: &Tunnel, seconds: u64) -> Duration {
    let mut stream = from.open().await.expect("open");
    let end = Instant::now() + Duration::from_secs(seconds);
    let write = tokio::spawn(async move {
        // At most 20 Mbit/s, so that the relay keeps up.
        while Instant::now() < end {
            stream.write_all(&[0; 25_000]).await.expect("written");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        stream.shutdown().await.expect("open");
    });
    let mut accepted = to.accept().await.expect("a stream");
    let (mut longest, mut last) = (Duration::ZERO, Instant::now());
    let mut buffer = vec![0; 1 << 16];
    while accepted.read(&mut buffer).await.expect("read") > 0 {
        longest = longest.max(last.elapsed());
        last = Instant::now();
    }
    write.await.expect("no panic");
    longest
}

#[tokio::test(flavor = "multi_thread")]
async fn data_continues_over_another_path_and_a_dead_one_returns() {
    for (dies, other) in [(A, B), (B, A)] {
        let (pair, relay) = relayed(&[A, B]).await;
        up(&pair.near, &[A, B]).await;
        let (from, to) = (pair.near.clone(), pair.far.clone());
        let upload = tokio::spawn(async move { longest_stall(&from, &to, 3).await });
        tokio::time::sleep(Duration::from_millis(200)).await;
        let (from, to) = (pair.far.clone(), pair.near.clone());
        let download = tokio::spawn(async move { longest_stall(&from, &to, 3).await });
        tokio::time::sleep(Duration::from_millis(500)).await;
        relay.set(dies, Fate::DEAD);
        until("dead", || condition(&pair.near, dies) == Condition::Dead).await;
        assert_eq!(condition(&pair.near, other), Condition::Up);
        for stall in [upload.await, download.await] {
            let stall = stall.expect("no panic");
            println!("{dies} dies: longest stall {stall:?}");
        }
        until("far knows", || {
            condition(&pair.far, dies) == Condition::Dead
        })
        .await;
        relay.set(dies, Fate::default());
        let returned = up(&pair.near, &[A, B]).await;
        println!("{dies} returned: used after {returned:?}");
        until("far knows", || condition(&pair.far, dies) == Condition::Up).await;
        let dead = state(&pair.near, dies).expect("known");
        assert_eq!(dead.deaths, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_only_loses_one_direction_is_dead() {
    for up_direction in [true, false] {
        let (pair, relay) = relayed(&[A, B]).await;
        up(&pair.near, &[A, B]).await;
        let fate = Fate {
            loses_up: up_direction,
            loses_down: !up_direction,
            ..Fate::default()
        };
        relay.set(A, fate);
        let died = until("dead", || condition(&pair.near, A) == Condition::Dead).await;
        assert_eq!(condition(&pair.near, B), Condition::Up);
        println!("up {up_direction}: dead after {died:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tunnel_connects_although_the_first_link_is_dead() {
    let (near_identity, far_identity, _) = identities();
    let (listener, address) = listen(&far_identity).await;
    let relay = Relay::to(address).await;
    relay.set(A, Fate::DEAD);
    let config = near(relay.address, vec![path(A), path(B)]);
    let start = Instant::now();
    let pair = pair_at(listener, config, &near_identity).await;
    println!("connected after {:?}", start.elapsed());
    until("up", || condition(&pair.near, B) == Condition::Up).await;
    until("dead", || condition(&pair.near, A) == Condition::Dead).await;
    relay.set(A, Fate::default());
    up(&pair.near, &[A, B]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_without_an_interface_is_dead_and_others_work() {
    // From TEST-NET-1, which no interface has.
    let pair = pair(vec![path("192.0.2.1"), path(A)]).await;
    until("up", || condition(&pair.near, A) == Condition::Up).await;
    until("dead", || {
        condition(&pair.near, "192.0.2.1") == Condition::Dead
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_paths_may_be_dead_for_a_while() {
    let (pair, relay) = relayed(&[A, B]).await;
    up(&pair.near, &[A, B]).await;
    let mut stream = pair.near.open().await.expect("open");
    stream.write_all(b"before").await.expect("written");
    let mut accepted = pair.far.accept().await.expect("a stream");
    [A, B].iter().for_each(|path| relay.set(path, Fate::DEAD));
    stream.write_all(b"after").await.expect("written");
    tokio::time::sleep(Duration::from_secs(5)).await;
    relay.set(B, Fate::default());
    let start = Instant::now();
    let mut all = [0; 11];
    let read = tokio::time::timeout(PATIENCE, accepted.read_exact(&mut all)).await;
    read.expect("in time").expect("read");
    assert_eq!(&all, b"beforeafter");
    println!("data {:?} after the first path returned", start.elapsed());
    until("dead", || condition(&pair.near, A) == Condition::Dead).await;
    until("up", || condition(&pair.near, B) == Condition::Up).await;
}

/// A link that flaps often exhausts no path numbers.
#[tokio::test(flavor = "multi_thread")]
async fn a_link_may_die_many_times() {
    let (pair, relay) = relayed(&[A, B]).await;
    for _ in 0..4 {
        up(&pair.near, &[A, B]).await;
        relay.set(A, Fate::DEAD);
        until("dead", || condition(&pair.near, A) == Condition::Dead).await;
        relay.set(A, Fate::default());
    }
    up(&pair.near, &[A, B]).await;
}

/// Sends this many bytes and waits until they have arrived.
async fn carry(from: &Tunnel, to: &Tunnel, bytes: usize) -> Duration {
    let start = Instant::now();
    let mut stream = from.open().await.expect("open");
    let write = tokio::spawn(async move {
        stream.write_all(&vec![0; bytes]).await.expect("written");
        stream.shutdown().await.expect("open");
    });
    let mut accepted = to.accept().await.expect("a stream");
    let mut all = Vec::new();
    accepted.read_to_end(&mut all).await.expect("read");
    write.await.expect("no panic");
    start.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_decide_which_paths_carry_data_in_both_directions() {
    let (near_identity, far_identity, _) = identities();
    let (listener, address) = listen(&far_identity).await;
    let relay = Relay::to(address).await;
    let mut paths = vec![path(A), path(B), path(C)];
    paths[0].role = Role::Backup;
    paths[1].role = Role::Never;
    let config = near(relay.address, paths);
    let pair = pair_at(listener, config, &near_identity).await;
    until("ready", || {
        condition(&pair.near, A) == Condition::Standby
            && condition(&pair.near, C) == Condition::Up
            && condition(&pair.far, A) == Condition::Standby
    })
    .await;
    assert_eq!(condition(&pair.near, B), Condition::Off);
    tokio::time::sleep(Duration::from_millis(100)).await;
    for (from, to) in [(&pair.near, &pair.far), (&pair.far, &pair.near)] {
        let sent = |name| state(from, name).expect("known").sent_bytes;
        let before = (sent(A), sent(C));
        carry(from, to, 1_000_000).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(sent(A) - before.0 < 50_000, "{}", sent(A) - before.0);
        assert!(sent(C) - before.1 > 1_000_000);
    }
    // The backup takes over.
    relay.set(C, Fate::DEAD);
    let took = carry(&pair.near, &pair.far, 100_000).await;
    println!("the backup took over, and 100 kB took {took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_holds_in_both_directions() {
    let mut paths = vec![path(A)];
    paths[0].rate_mbps = Some(20.0);
    let pair = pair(paths).await;
    // far has heard of it.
    until("known", || state(&pair.far, A).is_some()).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    for (from, to) in [(&pair.near, &pair.far), (&pair.far, &pair.near)] {
        let took = carry(from, to, 2_500_000).await.as_secs_f64();
        // 20 Mbit in 1 s, and headers. A busy machine may take longer, never less.
        assert!(took > 0.98, "{took} s");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_weight_bounds_the_share_in_both_directions() {
    let mut paths = vec![path(A), path(B)];
    paths[0].weight = 0.1;
    paths[1].rate_mbps = Some(100.0); // or it carries all
    let pair = pair(paths).await;
    up(&pair.near, &[A, B]).await;
    until("known", || {
        state(&pair.far, A).is_some() && state(&pair.far, B).is_some()
    })
    .await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    for (from, to) in [(&pair.near, &pair.far), (&pair.far, &pair.near)] {
        carry(from, to, 20_000_000).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        let sent = |name| state(from, name).expect("known").sent_bytes as f64;
        let share = sent(A) / sent(B);
        // 0.1, and 64 KiB ahead.
        assert!(share < 0.11 + 65_536.0 / sent(B), "{share}");
        assert!(share > 0.05, "{share}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_is_off_once_its_cap_is_reached() {
    let mut paths = vec![path(A), path(B)];
    paths[0].cap_bytes = Some(1_000_000);
    paths[1].rate_mbps = Some(100.0); // or it carries all
    let pair = pair(paths).await;
    up(&pair.near, &[A, B]).await;
    carry(&pair.near, &pair.far, 5_000_000).await;
    until("off", || condition(&pair.near, A) == Condition::Off).await;
    let carried = state(&pair.near, A).expect("known");
    let carried = carried.sent_bytes + carried.received_bytes;
    println!("carried {carried} bytes with a cap of 1000000");
    assert!(carried >= 1_000_000);
    let before = state(&pair.near, A).expect("known").sent_bytes;
    carry(&pair.near, &pair.far, 1_000_000).await;
    assert_eq!(state(&pair.near, A).expect("known").sent_bytes, before);
}

#[tokio::test]
async fn kappa_is_that_of_the_rule() {
    let (near_identity, far_identity, _) = identities();
    let (listener, address) = listen(&far_identity).await;
    let mut config = near(address, vec![path(A)]);
    config.settings.algorithm = "vegas:kappa=3".into();
    let pair = pair_at(listener, config, &near_identity).await;
    assert_eq!(pair.near.kappa(), Some(3.0));
    pair.near.set_kappa(5.0);
    assert_eq!(pair.near.kappa(), Some(5.0));
    assert_eq!(pair.far.kappa(), None);
    pair.far.set_kappa(5.0);
    assert_eq!(pair.far.kappa(), None);
}

/// One path's fault stops no other, and has a reason.
#[tokio::test]
async fn a_path_that_cannot_be_used_stops_no_other_and_says_why() {
    let never = Path {
        role: Role::Never,
        ..path("::2")
    };
    let gone = Path {
        interface: Some("nowhere7".to_owned()),
        ..Path::new("gone")
    };
    let backup = Path {
        role: Role::Backup,
        ..path(B)
    };
    // Nobody answers at an address of another network.
    let strange = path("192.0.2.77");
    let paths = vec![path("::1"), never, gone, backup, strange, path(A)];
    let pair = pair(paths).await;
    for (name, condition, reason) in [
        (
            "::1",
            Condition::Off,
            Some("far has no address of its family"),
        ),
        (
            "::2",
            Condition::Off,
            Some("far has no address of its family"),
        ),
        (
            "gone",
            Condition::Dead,
            Some("this host has no interface nowhere7"),
        ),
        (B, Condition::Standby, Some("its role is backup")),
        (
            "192.0.2.77",
            Condition::Dead,
            Some("this host has no address 192.0.2.77"),
        ),
        (A, Condition::Up, None),
    ] {
        let now = || {
            let state = state(&pair.near, name).expect("a path");
            (state.condition, state.reason)
        };
        let expected = (condition, reason.map(str::to_owned));
        until(&format!("{name}: {expected:?}"), || now() == expected).await;
    }
    let lo = state(&pair.near, A).expect("a path").interface;
    // 127.0.0.2 is no address of an interface, although lo has it.
    assert_eq!(lo, None);
}
