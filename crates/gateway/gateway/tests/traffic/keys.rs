//! Peers by their keys: limits of a key over all its tunnels, its removal, limits that change.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anabranch_gateway::config::Peer;
use anabranch_gateway::config::destination::Destinations;
use anabranch_gateway::keys::{KeyPair, PublicKey};
use anabranch_gateway::near::Near;
use anabranch_gateway::tls::Identity;
use tokio::net::TcpStream;

use super::harness::{Options, Pair, each_carrier, echo, exchange, is_reset, key, request, until};

/// A pair with its identities and the keys of near and far.
struct Keyed {
    pair: Pair,
    near_identity: Arc<Identity>,
    far_identity: Arc<Identity>,
    far_key: KeyPair,
    near_public: PublicKey,
}

impl Keyed {
    async fn start(carrier: &str, far: &str) -> Keyed {
        let (near_key, far_key) = (key(), key());
        let far_identity = Identity::new(&far_key, vec![near_key.public().clone()]);
        let near_identity = Identity::new(&near_key, vec![far_key.public().clone()]);
        let options = Options { near: "", far };
        let (near, far) = (near_identity.clone(), far_identity.clone());
        let pair = Pair::with_identities(carrier, options, near, far).await;
        Keyed {
            pair,
            near_identity,
            far_identity,
            near_public: near_key.public().clone(),
            far_key,
        }
    }

    /// Another near with the same key.
    async fn another_near(&self) -> Near {
        let config = self.pair.near_config.clone();
        let near = Near::start(config, self.near_identity.clone(), Arc::default()).await;
        near.expect("near starts")
    }
}

/// A connection by this near, or the code of the reply.
async fn connect_by(near: &Near, to: SocketAddr) -> Result<TcpStream, u8> {
    let addresses = near.addresses().await;
    let mut socket = TcpStream::connect(addresses[0].1).await.expect("listens");
    let IpAddr::V4(address) = to.ip() else {
        panic!("an IPv4 address")
    };
    let mut host = vec![1];
    host.extend(address.octets());
    request(&mut socket, 1, &host, to.port())
        .await
        .map(|_| socket)
}

#[test]
fn all_tunnels_of_a_key_share_its_connections() {
    each_carrier(async |carrier| {
        let keyed = Keyed::start(carrier, "limits.connections_per_client = 2").await;
        let echo = echo().await;
        let mut open = vec![keyed.pair.connect(echo).await.expect("the first")];
        let mut nears = Vec::new();
        for _ in 0..3 {
            let near = keyed.another_near().await;
            for _ in 0..2 {
                open.extend(connect_by(&near, echo).await);
            }
            nears.push(near);
        }
        assert_eq!(open.len(), 2, "connections of one key over four tunnels");
        keyed.pair.close().await;
    });
}

#[test]
fn a_key_that_is_removed_loses_its_tunnels_and_connections() {
    each_carrier(async |carrier| {
        let keyed = Keyed::start(carrier, "").await;
        let echo = echo().await;
        let mut open = keyed.pair.connect(echo).await.expect("connected");
        exchange(&mut open, "the key is accepted").await;
        keyed.far_identity.replace(&keyed.far_key, vec![]);
        let far = keyed.pair.far_config.clone();
        assert_eq!(keyed.pair.far().apply(far.clone()), far);
        assert!(is_reset(&mut open).await);
        until("no tunnel", async || keyed.pair.far().tunnels().is_empty()).await;
        assert!(keyed.pair.connect(echo).await.is_err());
        let peers = vec![keyed.near_public.clone()];
        keyed.far_identity.replace(&keyed.far_key, peers);
        until("a tunnel with the key that is accepted again", async || {
            keyed.pair.connect(echo).await.is_ok()
        })
        .await;
        keyed.pair.close().await;
    });
}

#[test]
fn limits_of_far_change_for_tunnels_old_and_new() {
    each_carrier(async |carrier| {
        let keyed = Keyed::start(carrier, "limits.connections_per_client = 2").await;
        let echo = echo().await;
        let mut open = Vec::new();
        for _ in 0..2 {
            open.push(keyed.pair.connect(echo).await.expect("within the limit"));
        }
        assert!(keyed.pair.connect(echo).await.is_err());
        let mut far = keyed.pair.far_config.clone();
        far.limits = toml::from_str("connections_per_client = 700").expect("limits");
        assert_eq!(keyed.pair.far().apply(far.clone()), far);
        for _ in 2..20 {
            open.push(keyed.pair.connect(echo).await.expect("in the old tunnel"));
        }
        let another = keyed.another_near().await;
        for _ in 20..40 {
            open.push(connect_by(&another, echo).await.expect("in a new tunnel"));
        }
        far.limits = toml::from_str("connections_per_client = 40").expect("limits");
        assert_eq!(keyed.pair.far().apply(far.clone()), far);
        assert!(connect_by(&another, echo).await.is_err());
        another.close_all().await;
        keyed.pair.close().await;
    });
}

#[test]
fn a_key_has_a_limited_number_of_tunnels() {
    each_carrier(async |carrier| {
        let keyed = Keyed::start(carrier, "limits.tunnels_per_client = 3").await;
        // Over Multipath TCP near has a second tunnel for datagrams.
        let own = if carrier == "mptcp" { 2 } else { 1 };
        until("its tunnels", async || {
            keyed.pair.far().tunnels().len() == own
        })
        .await;
        let echo = echo().await;
        let mut nears = Vec::new();
        for _ in 0..4 {
            nears.push(keyed.another_near().await);
        }
        let refused = &keyed.pair.far_counters.tunnels_refused;
        until("refusals", async || refused.value() > 4).await;
        assert_eq!(keyed.pair.far().tunnels().len(), 3);
        let mut first = keyed.pair.connect(echo).await.expect("it has a tunnel");
        exchange(&mut first, "the first tunnel stays").await;
        for near in nears {
            near.close_all().await;
        }
        until("a place again", async || {
            let tunnels = keyed.pair.far().tunnels();
            tunnels.len() < 3
        })
        .await;
        let another = keyed.another_near().await;
        connect_by(&another, echo).await.expect("another tunnel");
        another.close_all().await;
        keyed.pair.close().await;
    });
}

#[test]
fn a_peer_with_an_allow_list_of_its_own_reaches_that_alone() {
    each_carrier(async |carrier| {
        let keyed = Keyed::start(carrier, "").await;
        let (one, other) = (echo().await, echo().await);
        keyed.pair.connect(one).await.expect("allowed to all");
        let mut far = keyed.pair.far_config.clone();
        let mut peer = Peer::from(keyed.near_public.clone());
        peer.allow = Some(Destinations(vec![other.to_string().parse().expect("one")]));
        far.tunnel.peers = vec![peer];
        assert_eq!(keyed.pair.far().apply(far.clone()), far);
        assert_eq!(keyed.pair.connect(one).await.err(), Some(2));
        let mut allowed = keyed.pair.connect(other).await.expect("its own list");
        exchange(&mut allowed, "allowed").await;
        // Another peer's list does not count.
        far.tunnel.peers[0].key = key().public().clone();
        assert_eq!(keyed.pair.far().apply(far.clone()), far);
        keyed.pair.connect(one).await.expect("allowed to all");
        keyed.pair.close().await;
    });
}

#[test]
fn near_leaves_a_far_whose_key_is_removed() {
    each_carrier(async |carrier| {
        let keyed = Keyed::start(carrier, "").await;
        let echo = echo().await;
        let near = &keyed.pair.near;
        let mut config = keyed.pair.near_config.clone();
        let other = key().public().clone();
        config.tunnel.peers = vec![keyed.far_key.public().clone().into(), other.into()];
        assert_eq!(near.apply(config.clone()).await, (config.clone(), vec![]));
        let mut open = keyed.pair.connect(echo).await.expect("connected");
        exchange(&mut open, "a key that is added closes nothing").await;
        config.tunnel.peers.remove(0);
        assert_eq!(near.apply(config.clone()).await, (config, vec![]));
        assert!(is_reset(&mut open).await);
        keyed.pair.close().await;
    });
}
