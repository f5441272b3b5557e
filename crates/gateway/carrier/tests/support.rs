//! Configurations and pairs of gateways, over either carrier.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anabranch_carrier::keys::{KeyPair, PublicKey};
use anabranch_carrier::tls::Identity;
use anabranch_carrier::{Carrier, Condition, Far, Limits, Listener, Near, Path, PathState};
use anabranch_carrier::{Settings, Tunnel, connect, quic};

/// The addresses of paths.
pub const A: &str = "127.0.0.2";
pub const B: &str = "127.0.0.3";
pub const C: &str = "127.0.0.4";

/// Identities that accept each other, and the key of the first.
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

/// A path with this address, which is its name.
pub fn path(address: &str) -> Path {
    Path {
        address: Some(address.parse().expect("an address")),
        ..Path::new(address)
    }
}

/// The configuration of `near`.
pub fn near(far: SocketAddr, paths: Vec<Path>) -> Near {
    Near {
        far: far.into(),
        paths,
        settings: Settings::new(Carrier::Quic, "olia"),
    }
}

/// The configuration of `far`.
pub fn far() -> Far {
    Far {
        listen: "127.0.0.1:0".parse().expect("an address"),
        settings: Settings::new(Carrier::Quic, "olia"),
    }
}

/// The configurations of both over this carrier and one path, at a port that is most likely free.
pub fn configs(carrier: Carrier) -> (Near, Far) {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    let listen = socket.local_addr().expect("bound");
    let settings = Settings::new(carrier, "reno");
    let near = Near {
        far: listen.into(),
        paths: vec![path("127.0.0.1")],
        settings: settings.clone(),
    };
    (near, Far { listen, settings })
}

/// Both ends of a tunnel over this carrier.
pub async fn tunnel(carrier: Carrier, limits: Limits) -> (Tunnel, Tunnel, Listener) {
    tunnel_between(carrier, limits, limits).await
}

/// Both ends of a tunnel, with limits of their own.
pub async fn tunnel_between(
    carrier: Carrier,
    of_near: Limits,
    of_far: Limits,
) -> (Tunnel, Tunnel, Listener) {
    let (near, far, key) = identities();
    let (mut near_config, mut far_config) = configs(carrier);
    near_config.settings.limits = of_near;
    far_config.settings.limits = of_far;
    let listener = Listener::bind(&far_config, &far).await.expect("bound");
    let (connected, accepted) = tokio::join!(connect(&near_config, &near), listener.accept());
    let (accepted, peer) = accepted.expect("accepted");
    assert_eq!(peer, key);
    (connected.expect("connected"), accepted, listener)
}

/// Both ends of `far`'s tunnel and its listener.
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
pub async fn pair_at(listener: quic::Listener, config: Near, near: &Arc<Identity>) -> Pair {
    let (near, accepted) = tokio::join!(connect(&config, near), listener.accept());
    Pair {
        near: near.expect("a tunnel"),
        far: accepted.expect("a tunnel").0,
        _listener: listener,
    }
}

/// A pair with these paths.
pub async fn pair(paths: Vec<Path>) -> Pair {
    let (near_identity, far_identity, _) = identities();
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

/// Waits until this holds. Returns how long that took.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    start.elapsed()
}
