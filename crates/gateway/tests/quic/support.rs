//! A pair of gateways.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anabranch_gateway::carrier::{Condition, PathState, Tunnel, connect, quic};
use anabranch_gateway::config::{self, Role};
use anabranch_gateway::keys::KeyPair;
use anabranch_gateway::tls::Identity;

/// The addresses of paths.
pub const A: &str = "127.0.0.2";
pub const B: &str = "127.0.0.3";
pub const C: &str = "127.0.0.4";

/// Identities that accept each other.
pub fn identities() -> (Arc<Identity>, Arc<Identity>) {
    let pair = || KeyPair::generate().expect("random numbers");
    let (near, far) = (pair(), pair());
    (
        Identity::new(&near, vec![far.public().clone()]),
        Identity::new(&far, vec![near.public().clone()]),
    )
}

/// A path with this address, which is its name.
pub fn path(address: &str) -> config::Path {
    config::Path {
        name: address.into(),
        address: Some(address.parse().expect("an address")),
        interface: None,
        role: Role::Available,
        weight: 1.0,
        rate_mbps: None,
        cap_bytes: None,
    }
}

/// How the tunnel behaves, with this rule.
pub fn tunnel(algorithm: &str) -> config::Tunnel {
    config::Tunnel {
        carrier: config::Carrier::Quic,
        algorithm: algorithm.into(),
        key: "unused".into(),
        peers: Vec::new(),
        itcp: None,
    }
}

/// The configuration of `near`.
pub fn near(far: SocketAddr, paths: Vec<config::Path>) -> config::Near {
    config::Near {
        far: far.to_string(),
        tunnel: tunnel("olia"),
        paths,
        socks: None,
        forwards: Vec::new(),
        redirect: None,
        dns: None,
        rules: Vec::new(),
        limits: config::Limits::default(),
        operation: config::Operation::default(),
    }
}

/// The configuration of `far`.
pub fn far() -> config::Far {
    config::Far {
        listen: "127.0.0.1:0".parse().expect("an address"),
        tunnel: tunnel("olia"),
        allow: Default::default(),
        resolver: None,
        limits: config::Limits::default(),
        operation: config::Operation::default(),
    }
}

/// Both ends of a tunnel and `far`'s listener.
pub struct Pair {
    pub near: Tunnel,
    pub far: Tunnel,
    pub _listener: quic::Listener,
}

/// `far`, and its listener's address.
pub async fn listen(identity: &Arc<Identity>) -> (quic::Listener, SocketAddr) {
    let listener = quic::Listener::bind(&far(), identity).await.expect("free");
    let address = listener.local_addr().expect("bound");
    (listener, address)
}

/// Connects over these paths to `far` at this address.
pub async fn pair_at(listener: quic::Listener, config: config::Near, near: &Arc<Identity>) -> Pair {
    let paths = config.paths.clone();
    let (near, accepted) = tokio::join!(connect(&config, near, &paths), listener.accept());
    Pair {
        near: near.expect("a tunnel"),
        far: Tunnel::Quic(accepted.expect("a tunnel").0),
        _listener: listener,
    }
}

/// A pair with these paths.
pub async fn pair(paths: Vec<config::Path>) -> Pair {
    let (near_identity, far_identity) = identities();
    let (listener, address) = listen(&far_identity).await;
    pair_at(listener, near(address, paths), &near_identity).await
}

/// The state of a path.
pub fn state(tunnel: &Tunnel, name: &str) -> Option<PathState> {
    tunnel.paths().into_iter().find(|path| path.name == name)
}

/// The condition of a path; `Off` for one that is unknown.
pub fn condition(tunnel: &Tunnel, name: &str) -> Condition {
    state(tunnel, name).map_or(Condition::Off, |path| path.condition)
}

/// Longer than anything takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until this holds, and says how long that took.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    start.elapsed()
}
