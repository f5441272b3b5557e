//! Changes at run time, and the end.

use std::sync::Arc;

use anabranch_gateway::config;
use anabranch_gateway::config::difference::Differs;
use anabranch_gateway::near::Near;
use tokio::net::TcpStream;

use super::harness::*;

#[test]
fn listeners_rules_limits_and_the_allow_list_change_at_run_time() {
    each_carrier(async |carrier| {
        let pair = Pair::far_with(carrier, "allow = []").await;
        let echo = echo().await;
        assert_eq!(pair.connect(echo).await.err(), Some(2));
        let mut far = pair.far_config.clone();
        far.allow = config::destination::Destinations(vec!["127.0.0.1".parse().expect("one")]);
        assert_eq!(pair.far().apply(far.clone()).await.0, far);
        let mut old = pair.connect(echo).await.expect("allowed now");

        let before = pair.at("socks").await;
        let mut near = pair.near_config.clone();
        near.socks = None;
        near.forwards = vec![config::Forward {
            listen: "127.0.0.1:0".parse().expect("an address"),
            to: echo.into(),
            clients: vec![],
            udp: false,
        }];
        near.limits.connections = Some(2);
        near.limits.connections_per_client = Some(2);
        assert_eq!(pair.near.apply(near.clone()).await, (near.clone(), vec![]));
        assert!(TcpStream::connect(before).await.is_err());
        exchange(&mut old, "it continues").await;
        let forward = pair.at("forwards[0]").await;
        let mut new = TcpStream::connect(forward).await.expect("listens");
        exchange(&mut new, "a new listener").await;
        assert!(resets(forward).await);

        // Parts that can't change, and listeners that can't be opened, are reported; the rest is
        // applied.
        near.far = "127.0.0.1:1".into();
        near.paths[0].weight = 0.5;
        near.socks = Some(config::Listen {
            listen: forward,
            clients: vec![],
        });
        near.limits.connections = Some(3);
        near.limits.connections_per_client = Some(3);
        let (running, faults) = pair.near.apply(near.clone()).await;
        let missing = ["far", "paths", "services"];
        assert_eq!(running.parts(&near), missing);
        assert!(
            faults[0].starts_with(&format!("socks.listen: {forward}: ")),
            "{faults:?}"
        );
        exchange(
            &mut TcpStream::connect(forward).await.expect("listens"),
            "a third",
        )
        .await;
        pair.close().await;
    });
}

#[test]
fn far_drains_and_closes() {
    each_carrier(async |carrier| {
        let mut pair = Pair::start(carrier).await;
        let echo = echo().await;
        let mut socket = pair.connect(echo).await.expect("connected");
        pair.far().stop_accepting().await;
        assert_eq!(pair.connect(echo).await.err(), Some(1));
        exchange(&mut socket, "it continues").await;
        assert_eq!(pair.far().active(), 1);
        pair.stop_far().await;
        assert!(is_reset(&mut socket).await);
        pair.close().await;
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn near_is_no_open_proxy_by_accident() {
    let pair = Pair::start("mptcp").await;
    for listen in ["0.0.0.0:0", "[::]:0", "192.0.2.1:1080"] {
        let mut config = pair.near_config.clone();
        config.socks = Some(config::Listen {
            listen: listen.parse().expect("an address"),
            clients: vec![],
        });
        let near = Near::start(config, pair.near_identity.clone(), Arc::default()).await;
        let message = near.expect_err("a fault").to_string();
        let expected = format!("socks.clients: missing key: {listen} can be reached by others");
        assert!(message.starts_with(&expected), "{message}");
    }
}
