//! Configurations and tunnels for the tests.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anabranch_gateway::carrier::{Listener, Tunnel, connect};
use anabranch_gateway::config::{self, Carrier, Limits};
use anabranch_gateway::keys::{KeyPair, PublicKey};
use anabranch_gateway::tls::Identity;

pub const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

pub fn tunnel_config() -> config::Tunnel {
    config::Tunnel {
        carrier: Carrier::Mptcp,
        algorithm: "reno".to_owned(),
        key: "unused".into(),
        peers: Vec::new(),
        itcp: None,
    }
}

pub fn far_config() -> config::Far {
    config::Far {
        listen: SocketAddr::new(LOOPBACK, free_port()),
        tunnel: tunnel_config(),
        allow: Default::default(),
        resolver: None,
        limits: Limits::default(),
        operation: Default::default(),
    }
}

pub fn near_config(far: SocketAddr, addresses: &[IpAddr]) -> config::Near {
    let path = |&address: &IpAddr| config::Path {
        name: address.to_string(),
        address: Some(address),
        interface: None,
        role: config::Role::Available,
        weight: 1.0,
        rate_mbps: None,
        cap_bytes: None,
    };
    config::Near {
        far: far.to_string(),
        tunnel: tunnel_config(),
        paths: addresses.iter().map(path).collect(),
        socks: None,
        forwards: Vec::new(),
        redirect: None,
        dns: None,
        rules: Vec::new(),
        limits: Limits::default(),
        operation: Default::default(),
    }
}

fn free_port() -> u16 {
    let socket = std::net::TcpListener::bind((LOOPBACK, 0)).expect("loopback");
    socket.local_addr().expect("bound").port()
}

pub fn identities() -> (Arc<Identity>, Arc<Identity>, PublicKey) {
    let pair = || KeyPair::generate().expect("random numbers");
    let (near, far) = (pair(), pair());
    let key = near.public().clone();
    (
        Identity::new(&near, vec![far.public().clone()]),
        Identity::new(&far, vec![key.clone()]),
        key,
    )
}

/// Both ends of a tunnel.
pub async fn tunnel(limits: Limits) -> (Tunnel, Tunnel, Listener) {
    let (near, far, key) = identities();
    let far_config = config::Far {
        limits: limits.clone(),
        ..far_config()
    };
    let listener = Listener::bind(&far_config, &far).await.expect("bound");
    let near_config = config::Near {
        limits,
        ..near_config(far_config.listen, &[LOOPBACK])
    };
    let connecting = connect(&near_config, &near, &near_config.paths);
    let (connected, accepted) = tokio::join!(connecting, listener.accept());
    let (accepted, peer) = accepted.expect("accepted");
    assert_eq!(peer, key);
    (connected.expect("connected"), accepted, listener)
}
