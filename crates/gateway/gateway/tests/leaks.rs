//! Nothing is left of connections: descriptors and tasks. A process of its own, for /proc/self/fd.

#[path = "traffic/harness.rs"]
#[expect(dead_code, reason = "shared with the tests of traffic")]
mod harness;

use harness::{Pair, each_carrier, echo, exchange, request, reset, until};
use tokio::io::AsyncWriteExt;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("Linux").count()
}

/// Connections that end in every way.
async fn traffic(pair: &Pair) {
    let echo = echo().await;
    for i in 0..20 {
        let mut complete = pair.connect(echo).await.expect("connected");
        exchange(&mut complete, "complete").await;
        reset(&pair.connect(echo).await.expect("connected"));
        let refused = "127.0.0.1:1".parse().expect("an address");
        assert_eq!(pair.connect(refused).await.err(), Some(5));
        let mut garbage = pair.dial("socks").await;
        garbage.write_all(&[i; 30]).await.expect("sent");
        let mut udp = pair.dial("socks").await;
        request(&mut udp, 3, &[1, 0, 0, 0, 0], 0)
            .await
            .expect("associated");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn nothing_is_left_of_connections_and_gateways() {
    each_carrier(async |carrier| {
        let before = descriptors();
        let metrics = tokio::runtime::Handle::current().metrics();
        let tasks = metrics.num_alive_tasks();
        let pair = Pair::start(carrier).await;
        traffic(&pair).await;
        pair.idle().await;
        // Over `mptcp` near opens another one for datagrams, which takes a while.
        let tunnels = if carrier == "mptcp" { 2 } else { 1 };
        until("tunnels", async || pair.near.tunnels().len() == tunnels).await;
        let first = descriptors();
        traffic(&pair).await;
        pair.idle().await;
        // Each `echo` leaves its listener.
        until("descriptors", async || descriptors() <= first + 1).await;
        pair.close().await;
        until("descriptors", async || descriptors() <= before + 2).await;
        until("tasks", async || metrics.num_alive_tasks() <= tasks + 2).await;
    });
}
