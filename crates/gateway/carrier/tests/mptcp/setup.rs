//! Configurations and tunnels for the tests.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anabranch_carrier::keys::{KeyPair, PublicKey};
use anabranch_carrier::tls::Identity;
use anabranch_carrier::{Carrier, Far, Limits, Listener, Near, Path, Settings, Tunnel, connect};

pub const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

pub fn far_config() -> Far {
    Far {
        listen: SocketAddr::new(LOOPBACK, free_port()),
        settings: Settings::new(Carrier::Mptcp, "reno"),
    }
}

pub fn near_config(far: SocketAddr, addresses: &[IpAddr]) -> Near {
    let path = |&address: &IpAddr| Path {
        address: Some(address),
        ..Path::new(&address.to_string())
    };
    Near {
        far: far.into(),
        paths: addresses.iter().map(path).collect(),
        settings: Settings::new(Carrier::Mptcp, "reno"),
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
    tunnel_between(limits, limits).await
}

/// Both ends of a tunnel, with limits of their own.
pub async fn tunnel_between(of_near: Limits, of_far: Limits) -> (Tunnel, Tunnel, Listener) {
    let (near, far, key) = identities();
    let mut far_config = far_config();
    let mut near_config = near_config(far_config.listen, &[LOOPBACK]);
    near_config.settings.limits = of_near;
    far_config.settings.limits = of_far;
    let listener = Listener::bind(&far_config, &far).await.expect("bound");
    let (connected, accepted) = tokio::join!(connect(&near_config, &near), listener.accept());
    let (accepted, peer) = accepted.expect("accepted");
    assert_eq!(peer, key);
    (connected.expect("connected"), accepted, listener)
}
