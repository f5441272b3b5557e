//! Far ends and returns; keys do not fit; there is no tunnel.

use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anabranch_gateway::config;
use anabranch_gateway::near::Near;
use anabranch_gateway::tls::Identity;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::harness::*;

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
            reaches(&pair.near_counters.ended_complete, round).await;
        }
        // With the carrier mptcp near may also have had tunnels for datagrams.
        let closed = pair.near_counters.tunnels_closed.value();
        assert!(closed == 2 || carrier == "mptcp" && (2..=4).contains(&closed));
        reaches(&pair.near_counters.ended_reset, 2).await;
        pair.close().await;
    });
}

#[test]
fn without_a_tunnel_a_request_fails_in_bounded_time() {
    each_carrier(async |carrier| {
        let mut pair = Pair::start(carrier).await;
        let echo = echo().await;
        pair.echoes(echo, "before").await;
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
            let keys = [near.clone(), far.clone()];
            let pins = [near_expects.clone(), far_expects.clone()];
            let pair = Pair::with_keys(carrier, Options::default(), keys, pins).await;
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

struct Killed(Child);

impl Killed {
    fn start(file: &Path) -> Killed {
        let mut far = Command::new(env!("CARGO_BIN_EXE_anabranch-gateway"));
        Killed(
            far.arg("-q")
                .arg("far")
                .arg(file)
                .spawn()
                .expect("the gateway starts"),
        )
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it ends");
    }
}

#[test]
fn when_far_was_killed_old_connections_are_reset_and_new_ones_work_soon() {
    each_carrier(async |carrier| {
        let folder = tempfile::tempdir().expect("a folder");
        let (near_key, far_key) = (key(), key());
        far_key
            .write(&folder.path().join("far.key"))
            .expect("written");
        let (address, file) = (free_address(), folder.path().join("far.toml"));
        let tunnel = |peer: &str| {
            format!(
                "tunnel = {{ carrier = \"{carrier}\", algorithm = \"reno\", key = \"far.key\", \
                 peers = [\"{peer}\"] }}\n"
            )
        };
        let public = near_key.public().to_string();
        let far = format!(
            "listen = \"{address}\"\nallow = [\"127.0.0.1\"]\n{}",
            tunnel(&public)
        );
        std::fs::write(&file, far).expect("written");
        let near = format!(
            "far = \"{address}\"\n{}socks.listen = \"127.0.0.1:0\"\n\
             paths = [{{ name = \"a\", address = \"127.0.0.1\" }}]",
            tunnel(&far_key.public().to_string())
        );
        let near: config::Near = toml::from_str(&near).expect(&near);
        let identity = Identity::new(&near_key, vec![far_key.public().clone()]);

        let running = Killed::start(&file);
        let near = Near::start(near, identity, Arc::default())
            .await
            .expect("near starts");
        let echo = echo().await;
        let mut old = connect_by(&near, echo).await.expect("connected");
        exchange(&mut old, "before").await;
        let (listener, to) = listen().await;
        let mut client = connect_by(&near, to).await.expect("connected");
        let (mut server, _) = listener.accept().await.expect("connected");
        client.write_all(b"half").await.expect("sent");
        server.read_exact(&mut [0; 4]).await.expect("received");
        drop(running);
        // An end would say that this was all.
        assert!(is_reset(&mut server).await, "{carrier}");
        tokio::time::sleep(Duration::from_secs(1)).await;
        let _running = Killed::start(&file);
        let start = Instant::now();
        // It may use the tunnel that far no longer knows, and is then repeated in the next one.
        let mut new = connect_by(&near, echo).await.expect("connected");
        exchange(&mut new, "after").await;
        let took = start.elapsed();
        println!("{carrier}: connected {took:?} after the start of the process");
        assert!(is_reset(&mut old).await);
        near.close_all().await;
    });
}
