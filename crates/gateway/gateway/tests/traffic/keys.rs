//! Peers by their keys: limits of a key over all its tunnels, its removal, limits that change.

use anabranch_gateway::config::Peer;
use anabranch_gateway::config::destination::Destinations;

use super::harness::*;

#[test]
fn all_tunnels_of_a_key_share_its_connections() {
    each_carrier(async |carrier| {
        let pair = Pair::far_with(carrier, "limits.connections_per_client = 2").await;
        let echo = echo().await;
        let mut open = vec![pair.connect(echo).await.expect("the first")];
        let mut nears = Vec::new();
        for _ in 0..3 {
            let near = pair.another_near(pair.near_config.clone()).await;
            for _ in 0..2 {
                open.extend(connect_by(&near, echo).await);
            }
            nears.push(near);
        }
        // The second client behind the key has got a place of the first.
        assert!(open.len() >= 2);
        until("two connections of one key over four tunnels", async || {
            pair.far().active() == 2
        })
        .await;
        pair.close().await;
    });
}

#[test]
fn a_key_that_is_removed_loses_its_tunnels_and_connections() {
    each_carrier(async |carrier| {
        let pair = Pair::far_with(carrier, "").await;
        let echo = echo().await;
        let mut open = pair.connect(echo).await.expect("connected");
        exchange(&mut open, "the key is accepted").await;
        pair.far_identity.replace(&pair.far_key, vec![]);
        let far = pair.far_config.clone();
        assert_eq!(pair.far().apply(far.clone()).await.0, far);
        assert!(is_reset(&mut open).await);
        until("no tunnel", async || pair.far().tunnels().is_empty()).await;
        assert!(pair.connect(echo).await.is_err());
        let peers = vec![pair.near_key.public().clone()];
        pair.far_identity.replace(&pair.far_key, peers);
        until("a tunnel with the key that is accepted again", async || {
            pair.connect(echo).await.is_ok()
        })
        .await;
        pair.close().await;
    });
}

#[test]
fn limits_of_far_change_for_tunnels_old_and_new() {
    each_carrier(async |carrier| {
        let pair = Pair::far_with(carrier, "limits.connections_per_client = 2").await;
        let echo = echo().await;
        let mut open = Vec::new();
        for _ in 0..2 {
            open.push(pair.connect(echo).await.expect("within the limit"));
        }
        assert!(pair.connect(echo).await.is_err());
        let mut far = pair.far_config.clone();
        far.limits = toml::from_str("connections_per_client = 700").expect("limits");
        assert_eq!(pair.far().apply(far.clone()).await.0, far);
        for _ in 2..20 {
            open.push(pair.connect(echo).await.expect("in the old tunnel"));
        }
        let another = pair.another_near(pair.near_config.clone()).await;
        for _ in 20..40 {
            open.push(connect_by(&another, echo).await.expect("in a new tunnel"));
        }
        far.limits = toml::from_str("connections_per_client = 40").expect("limits");
        assert_eq!(pair.far().apply(far.clone()).await.0, far);
        assert!(connect_by(&another, echo).await.is_err());
        another.close_all().await;
        pair.close().await;
    });
}

#[test]
fn a_key_has_a_limited_number_of_tunnels() {
    each_carrier(async |carrier| {
        let pair = Pair::far_with(carrier, "limits.tunnels_per_client = 3").await;
        // Over Multipath TCP near has a second tunnel for datagrams.
        let own = if carrier == "mptcp" { 2 } else { 1 };
        until("its tunnels", async || pair.far().tunnels().len() == own).await;
        let echo = echo().await;
        let mut nears = Vec::new();
        for _ in 0..4 {
            nears.push(pair.another_near(pair.near_config.clone()).await);
        }
        let refused = &pair.far_counters.tunnels_refused;
        until("refusals", async || refused.value() > 4).await;
        assert_eq!(pair.far().tunnels().len(), 3);
        let mut first = pair.connect(echo).await.expect("it has a tunnel");
        exchange(&mut first, "the first tunnel stays").await;
        for near in nears {
            near.close_all().await;
        }
        until("a place again", async || {
            let tunnels = pair.far().tunnels();
            tunnels.len() < 3
        })
        .await;
        let another = pair.another_near(pair.near_config.clone()).await;
        connect_by(&another, echo).await.expect("another tunnel");
        another.close_all().await;
        pair.close().await;
    });
}

#[test]
fn a_peer_with_an_allow_list_of_its_own_reaches_that_alone() {
    each_carrier(async |carrier| {
        let pair = Pair::far_with(carrier, "").await;
        let (one, other) = (echo().await, echo().await);
        pair.connect(one).await.expect("allowed to all");
        let mut far = pair.far_config.clone();
        let mut peer = Peer::from(pair.near_key.public().clone());
        peer.allow = Some(Destinations(vec![other.to_string().parse().expect("one")]));
        far.tunnel.peers = vec![peer];
        assert_eq!(pair.far().apply(far.clone()).await.0, far);
        assert_eq!(pair.connect(one).await.err(), Some(2));
        let mut allowed = pair.connect(other).await.expect("its own list");
        exchange(&mut allowed, "allowed").await;
        // Another peer's list does not count.
        far.tunnel.peers[0].key = key().public().clone();
        assert_eq!(pair.far().apply(far.clone()).await.0, far);
        pair.connect(one).await.expect("allowed to all");
        pair.close().await;
    });
}

#[test]
fn near_leaves_a_far_whose_key_is_removed() {
    each_carrier(async |carrier| {
        let pair = Pair::far_with(carrier, "").await;
        let echo = echo().await;
        let near = &pair.near;
        let mut config = pair.near_config.clone();
        let other = key().public().clone();
        config.tunnel.peers = vec![pair.far_key.public().clone().into(), other.into()];
        assert_eq!(near.apply(config.clone()).await, (config.clone(), vec![]));
        let mut open = pair.connect(echo).await.expect("connected");
        exchange(&mut open, "a key that is added closes nothing").await;
        config.tunnel.peers.remove(0);
        assert_eq!(near.apply(config.clone()).await, (config, vec![]));
        assert!(is_reset(&mut open).await);
        pair.close().await;
    });
}
