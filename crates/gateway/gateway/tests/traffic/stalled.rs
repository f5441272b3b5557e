//! Connections whose receiver does not read stop no others.

use std::cell::Cell;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::harness::*;

/// Number of connections: more than twice as many as fill the windows of one tunnel with 2 MB each.
const STALLED: usize = 20;

/// A quarter of the default, because the sockets of each connection that stalls take megabytes.
const LIMITS: &str = "limits.tunnel_buffer_bytes = 16_000_000";

/// Time in which a new connection is opened and echoes, however many others are stalled.
const SOON: Duration = Duration::from_secs(5);

/// Writes until the connection ends, which it does not.
fn fill(mut socket: TcpStream) {
    tokio::spawn(async move { while socket.write_all(&[7; 1 << 16]).await.is_ok() {} });
}

/// Opens connections that carry data in one direction to a receiver that does not read. Returns
/// those that are to be kept open.
async fn stall(pair: &Pair, count: usize, up: bool) -> Vec<TcpStream> {
    let (listener, address) = listen().await;
    let mut receivers = Vec::new();
    for _ in 0..count {
        let client = timeout(SOON, pair.connect(address)).await;
        let client = client.unwrap_or_else(|_| panic!("frozen by {}", receivers.len()));
        let (server, _) = listener.accept().await.expect("connected");
        let (sender, receiver) = match up {
            true => (client.expect("connected"), server),
            false => (server, client.expect("connected")),
        };
        fill(sender);
        receivers.push(receiver);
    }
    let carried = || pair.near_counters.bytes_up.value() + pair.near_counters.bytes_down.value();
    let before = Cell::new(u64::MAX);
    until("they stall", async || {
        sleep(Duration::from_millis(200)).await;
        before.replace(carried()) == carried()
    })
    .await;
    receivers
}

async fn echoes(pair: &Pair, text: &str) {
    let to = echo().await;
    let echoes = async {
        let mut socket = pair.connect(to).await.expect("connected");
        exchange(&mut socket, text).await;
    };
    let echoed = timeout(SOON, echoes).await;
    assert!(echoed.is_ok(), "frozen: {text}");
}

#[test]
fn connections_that_are_not_read_freeze_nothing() {
    each_carrier(async |carrier| {
        for up in [false, true] {
            let limits = Options {
                near: LIMITS,
                far: LIMITS,
            };
            let pair = Pair::with(carrier, limits).await;
            let _receivers = stall(&pair, STALLED, up).await;
            echoes(&pair, &format!("{carrier}, up: {up}")).await;
            pair.close().await;
        }
    });
}

/// Reads until the window of the stream is as large as it gets.
async fn read(client: &mut TcpStream, bytes: usize) {
    let mut buffer = vec![0; bytes];
    let read = timeout(PATIENCE, client.read_exact(&mut buffer)).await;
    read.expect("in time").expect("received");
}

#[test]
fn the_connection_stalled_longest_is_reset_once_the_buffer_is_used_up() {
    each_carrier(async |carrier| {
        if carrier != "quic" {
            return;
        }
        let pair = Pair::near_with(carrier, "limits.tunnel_buffer_bytes = 1_000_000").await;
        let (listener, address) = listen().await;
        let mut clients = Vec::new();
        for _ in 0..3 {
            let mut client = pair.connect(address).await.expect("connected");
            fill(listener.accept().await.expect("connected").0);
            read(&mut client, 2_000_000).await;
            clients.push(client);
        }
        let [mut first, mut second, mut third] = <[_; 3]>::try_from(clients).expect("three");
        let stalled = || pair.near_counters.ended_stalled.value();
        // The third window wants to grow.
        let waited = Instant::now();
        while stalled() == 0 {
            assert!(waited.elapsed() < PATIENCE, "nothing is reset");
            read(&mut third, 100_000).await;
        }
        assert!(is_reset(&mut first).await);
        assert_eq!(stalled(), 1);
        read(&mut third, 1_000_000).await;
        read(&mut second, 1_000_000).await;
        echoes(&pair, "afterwards").await;
        pair.close().await;
    });
}
