//! TCP connections by SOCKS5 and port forwards.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::harness::{Options, Pair, each_carrier, echo, exchange, is_reset, until};

#[test]
fn socks_and_forwards_carry_connections() {
    each_carrier(async |carrier| {
        let echo = echo().await;
        let options = Options {
            near: &format!("forwards = [{{ listen = \"127.0.0.1:0\", to = \"{echo}\" }}]"),
            ..Options::default()
        };
        let pair = Pair::with(carrier, options).await;
        let by_socks = pair.connect(echo).await.expect("connected");
        let by_name = pair.connect_name("localhost", echo.port()).await;
        let by_forward = TcpStream::connect(pair.at("forwards[0]").await).await;
        // "localhost" is allowed because 127.0.0.0/8 is.
        for mut socket in [
            by_socks,
            by_name.expect("connected"),
            by_forward.expect("connected"),
        ] {
            socket.write_all(b"there and back").await.expect("sent");
            socket.shutdown().await.expect("ended");
            let mut text = String::new();
            socket.read_to_string(&mut text).await.expect("received");
            assert_eq!(text, "there and back");
        }
        assert_eq!(pair.near_counters.relayed_tunnel.value(), 3);
        assert_eq!(pair.far_counters.bytes_up.value(), 3 * 14);
        pair.close().await;
    });
}

#[test]
fn each_direction_ends_by_itself() {
    each_carrier(async |carrier| {
        let pair = Pair::start(carrier).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let mut client = pair
            .connect(listener.local_addr().expect("bound"))
            .await
            .expect("connected");
        let (mut server, _) = listener.accept().await.expect("connected");
        client.write_all(b"question").await.expect("sent");
        client.shutdown().await.expect("ended");
        let mut text = String::new();
        server
            .read_to_string(&mut text)
            .await
            .expect("the question ends");
        assert_eq!(text, "question");
        // The other direction works for as long as it is needed.
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            server.write_all(b"answer.").await.expect("sent");
        }
        drop(server);
        text.clear();
        client
            .read_to_string(&mut text)
            .await
            .expect("the answer ends");
        assert_eq!(text, "answer.answer.answer.");
        until("complete", async || {
            pair.near_counters.ended_complete.value() == 1
        })
        .await;
        assert_eq!(pair.near_counters.ended_reset.value(), 0);
        pair.close().await;
    });
}

#[test]
fn a_reset_of_either_side_resets_the_other() {
    each_carrier(async |carrier| {
        let pair = Pair::start(carrier).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let to = listener.local_addr().expect("bound");
        for client_resets in [true, false] {
            let client = pair.connect(to).await.expect("connected");
            let (server, _) = listener.accept().await.expect("connected");
            let (resets, mut other) = if client_resets {
                (client, server)
            } else {
                (server, client)
            };
            socket2::SockRef::from(&resets)
                .set_linger(Some(Duration::ZERO))
                .expect("set");
            drop(resets);
            assert!(is_reset(&mut other).await, "client resets: {client_resets}");
        }
        until("counted", async || {
            pair.near_counters.ended_reset.value() == 2
        })
        .await;
        until("counted", async || {
            pair.far_counters.ended_reset.value() == 2
        })
        .await;
        pair.close().await;
    });
}

#[test]
fn a_receiver_that_does_not_read_stops_the_sender() {
    each_carrier(async |carrier| {
        let pair = Pair::start(carrier).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let mut client = pair
            .connect(listener.local_addr().expect("bound"))
            .await
            .expect("connected");
        let (mut server, _) = listener.accept().await.expect("connected");
        let data = vec![7; 1 << 16];
        let mut sent = 0;
        while let Ok(written) = timeout(Duration::from_secs(1), client.write(&data)).await {
            sent += written.expect("sent");
            // Buffers of four sockets, of the stream and of the gateways: some MB each at most.
            assert!(sent < 64 << 20, "there is no back-pressure");
        }
        // Another connection is not affected.
        let other = echo().await;
        exchange(
            &mut pair.connect(other).await.expect("connected"),
            "meanwhile",
        )
        .await;
        client.shutdown().await.expect("ended");
        let mut received = Vec::new();
        server.read_to_end(&mut received).await.expect("received");
        assert_eq!(received.len(), sent);
        pair.close().await;
    });
}

/// 200 connections at once, each with other bytes: every byte returns, in order.
#[test]
fn many_connections_carry_their_own_bytes() {
    each_carrier(async |carrier| {
        let pair = Arc::new(Pair::start(carrier).await);
        let echo = echo().await;
        let mut clients = JoinSet::new();
        for seed in 0..200_u32 {
            let pair = pair.clone();
            clients.spawn(async move {
                let mut socket = pair.connect(echo).await.expect("connected");
                let byte = |i: u32| (seed ^ i).wrapping_mul(0x9e37_79b9).to_be_bytes()[0];
                let length = 10_000 + 2_000 * (seed % 50);
                let sent: Vec<u8> = (0..length).map(byte).collect();
                let (mut reader, mut writer) = socket.split();
                let send = async {
                    writer.write_all(&sent).await?;
                    writer.shutdown().await
                };
                let mut received = Vec::new();
                let result = tokio::try_join!(send, reader.read_to_end(&mut received));
                result.expect("carried");
                assert!(received == sent, "connection {seed}");
            });
        }
        while let Some(client) = clients.join_next().await {
            client.expect("no panic");
        }
        until("they end", async || pair.near.active() == 0).await;
        until("they end", async || pair.far().active() == 0).await;
        assert_eq!(pair.near_counters.ended_complete.value(), 200);
        assert_eq!(
            pair.near_counters.bytes_up.value(),
            pair.near_counters.bytes_down.value()
        );
    });
}

#[test]
fn a_client_has_its_rate() {
    each_carrier(async |carrier| {
        // 8 Mbit/s are 1 MB/s, for both directions together: 500 kB and their echo take 1 s, less
        // the burst of 0.1 s.
        let options = Options {
            near: "limits.client_mbps = 8.0",
            ..Options::default()
        };
        let pair = Pair::with(carrier, options).await;
        let mut socket = pair.connect(echo().await).await.expect("connected");
        let start = Instant::now();
        let (mut reader, mut writer) = socket.split();
        let data = vec![1; 500_000];
        let send = async {
            writer.write_all(&data).await?;
            writer.shutdown().await
        };
        let mut received = Vec::new();
        tokio::try_join!(send, reader.read_to_end(&mut received)).expect("carried");
        assert_eq!(received.len(), 500_000, "{carrier}");
        let took = start.elapsed().as_secs_f64();
        assert!(took > 0.85, "{took}");
        pair.close().await;
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_cap_counts_what_all_tunnels_carry() {
    let (one, other) = (echo().await, echo().await);
    let near = format!(
        "paths = [{{ name = \"a\", address = \"127.0.0.1\", cap_bytes = 3_000_000 }}]
        rules = [{{ to = \"{one}\", via = \"path:a\" }}]"
    );
    let pair = Pair::near_with("quic", &near).await;
    // 0.9 MB there and back are 1.8 MB and headers: less than the cap over each tunnel alone.
    let data = "x".repeat(900_000);
    let mut stream = pair.connect(one).await.expect("connected");
    exchange(&mut stream, &data).await;
    let stream = pair.connect(other).await.expect("connected");
    // The cap ends it, sooner or later.
    let (mut reader, mut writer) = stream.into_split();
    tokio::spawn(async move { writer.write_all(data.as_bytes()).await });
    tokio::spawn(async move { tokio::io::copy(&mut reader, &mut tokio::io::sink()).await });
    until("the cap is reached", async || {
        pair.near.tunnels().is_empty()
    })
    .await;
    assert!(pair.connect(other).await.is_err());
    pair.close().await;
}
