//! A far from which nothing returns.

use std::time::Duration;

use anabranch_gateway::carrier::{self, Carrier, Path, Settings};
use anabranch_gateway::keys::KeyPair;
use anabranch_gateway::network::Network;
use anabranch_gateway::tls::Identity;
use anabranch_net::{LinkConfig, MILLISECOND};
use tokio::time::Instant;

use super::gateways::FAR;
use super::host::{Process, path_address};
use super::internet::Internet;
use super::virtual_runtime;

/// Probes for 1 s, then a handshake of 4 s, over all paths at once.
const MOST: Duration = Duration::from_millis(5100);

#[test]
fn near_says_within_5_s_that_nothing_returns_over_any_of_its_paths() {
    let (error, took) = virtual_runtime().block_on(async {
        let link = LinkConfig::constant(8e6, 10 * MILLISECOND);
        let links = (0..2).map(|i| (path_address(i), link.clone()));
        let internet = Internet::new(links.collect(), 1);
        let far: std::net::SocketAddr = FAR.parse().expect("an address");
        let path = |i| Path {
            address: Some(path_address(i)),
            ..Path::new(&format!("path{i}"))
        };
        let near = carrier::Near {
            far: far.into(),
            paths: vec![path(0), path(1)],
            settings: Settings::new(Carrier::Quic, "olia"),
        };
        let key = || KeyPair::generate().expect("random numbers");
        let identity = Identity::new(&key(), vec![key().public().clone()]);
        let start = Instant::now();
        let udp = Process::new(&internet).udp();
        let connected = carrier::connect_over(&udp, &near, &identity).await;
        let error = connected.expect_err("nobody is there").to_string();
        (error, start.elapsed())
    });
    let words = format!("far = {FAR}: no answer from {FAR} over UDP in 5s: ");
    assert!(error.starts_with(&words), "{error}");
    assert!(took <= MOST, "{took:?}");
}
