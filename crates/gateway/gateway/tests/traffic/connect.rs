//! TCP connections by SOCKS5 and port forwards.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::harness::*;

#[test]
fn socks_and_forwards_carry_connections() {
    each_carrier(async |carrier| {
        let echo = echo().await;
        let near = format!("forwards = [{{ listen = \"127.0.0.1:0\", to = \"{echo}\" }}]");
        let pair = Pair::near_with(carrier, &near).await;
        let by_socks = pair.connect(echo).await.expect("connected");
        // "localhost" is allowed because 127.0.0.0/8 is.
        let by_name = pair.connect_name("localhost", echo.port()).await;
        let by_forward = pair.dial("forwards[0]").await;
        for mut socket in [by_socks, by_name.expect("connected"), by_forward] {
            socket.write_all(b"there and back").await.expect("sent");
            socket.shutdown().await.expect("ended");
            assert_eq!(rest(&mut socket).await, "there and back");
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
        let (listener, _) = listen().await;
        let (mut client, mut server) = pair.ends(&listener).await;
        client.write_all(b"question").await.expect("sent");
        client.shutdown().await.expect("ended");
        assert_eq!(rest(&mut server).await, "question");
        // The other direction works for as long as it is needed.
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            server.write_all(b"answer.").await.expect("sent");
        }
        drop(server);
        assert_eq!(rest(&mut client).await, "answer.answer.answer.");
        reaches(&pair.near_counters.ended_complete, 1).await;
        assert_eq!(pair.near_counters.ended_reset.value(), 0);
        pair.close().await;
    });
}

#[test]
fn a_reset_of_either_side_resets_the_other() {
    each_carrier(async |carrier| {
        let pair = Pair::start(carrier).await;
        let (listener, _) = listen().await;
        for client_resets in [true, false] {
            let (client, server) = pair.ends(&listener).await;
            let (resets, mut other) = if client_resets {
                (client, server)
            } else {
                (server, client)
            };
            reset(&resets);
            drop(resets);
            assert!(is_reset(&mut other).await, "client resets: {client_resets}");
        }
        reaches(&pair.near_counters.ended_reset, 2).await;
        reaches(&pair.far_counters.ended_reset, 2).await;
        pair.close().await;
    });
}

#[test]
fn a_client_has_its_rate() {
    each_carrier(async |carrier| {
        // 8 Mbit/s are 1 MB/s, for both directions together: 500 kB and their echo take 1 s, less
        // the burst of 0.1 s.
        let pair = Pair::near_with(carrier, "limits.client_mbps = 8.0").await;
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
