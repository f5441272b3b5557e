//! Far ends and returns; keys do not fit; there is no tunnel.

use std::time::{Duration, Instant};

use anabranch_gateway::tls::Identity;

use super::harness::{Options, Pair, each_carrier, echo, exchange, is_reset, key, until};

#[test]
fn connections_are_reset_with_their_tunnel_and_new_ones_work_soon_after_far_is_back() {
    each_carrier(async |carrier| {
        let mut pair = Pair::start(carrier).await;
        let echo = echo().await;
        for round in 1..=2 {
            let mut old = pair.connect(echo).await.expect("connected");
            exchange(&mut old, "before").await;
            pair.stop_far().await;
            assert!(is_reset(&mut old).await);
            // Near tries again and again meanwhile.
            tokio::time::sleep(Duration::from_secs(1)).await;
            pair.start_far().await;
            let start = Instant::now();
            let mut new = pair.connect(echo).await.expect("connected");
            exchange(&mut new, "after").await;
            let took = start.elapsed();
            println!("{carrier}: connected after {took:?}");
            drop(new);
            until("it ends", async || {
                pair.near_counters.ended_complete.value() == round
            })
            .await;
        }
        // With the carrier mptcp near may also have had tunnels for datagrams.
        let closed = pair.near_counters.tunnels_closed.value();
        assert!(closed == 2 || carrier == "mptcp" && (2..=4).contains(&closed));
        until("counted", async || {
            pair.near_counters.ended_reset.value() == 2
        })
        .await;
        pair.close().await;
    });
}

#[test]
fn without_a_tunnel_a_request_fails_in_bounded_time() {
    each_carrier(async |carrier| {
        let mut pair = Pair::start(carrier).await;
        let echo = echo().await;
        exchange(&mut pair.connect(echo).await.expect("connected"), "before").await;
        pair.stop_far().await;
        let start = Instant::now();
        // 3: network unreachable.
        assert_eq!(pair.connect(echo).await.err(), Some(3));
        assert!(start.elapsed() < Duration::from_secs(8));
        assert_eq!(pair.near_counters.refused_no_tunnel.value(), 1);
        assert!(pair.near_counters.tunnels_failed.value() > 0);
        pair.close().await;
    });
}

#[test]
fn wrong_keys_give_no_tunnel() {
    each_carrier(async |carrier| {
        let (near, far, other) = (key(), key(), key());
        for (near_expects, far_expects) in [(&other, &near), (&far, &other)] {
            let near = Identity::new(&near, vec![near_expects.public().clone()]);
            let far = Identity::new(&far, vec![far_expects.public().clone()]);
            let pair = Pair::with_identities(carrier, Options::default(), near, far).await;
            let echo = echo().await;
            assert_eq!(pair.connect(echo).await.err(), Some(3));
            assert!(pair.near.tunnels().is_empty());
            assert!(pair.far().tunnels().is_empty());
            let far = &pair.far_counters;
            assert_eq!(far.accepted_stream.value(), 0);
            until("counted", async || far.handshakes_failed.value() > 0).await;
            pair.close().await;
        }
    });
}
