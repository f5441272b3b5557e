//! Streams, datagrams, limits and keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anabranch_carrier::tls::SERVER_NAME;
use anabranch_carrier::{Condition, Far, NotSent, Path, connect, quic};
use bytes::Bytes;
use noq::crypto::rustls::QuicClientConfig;
use noq::{ClientConfig, Endpoint, TransportConfig, VarInt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use super::relay::{Fate, Relay};
use crate::support::{
    A, B, C, PATIENCE, condition, far, identities, listen, near, pair, pair_at, path, until,
};

/// Data that shows where it was changed.
pub fn data(bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|i| (i as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0])
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_carry_both_directions_over_three_paths() {
    let paths = [A, B, C].map(|address| Path {
        rate_mbps: Some(200.0), // or one carries all
        ..path(address)
    });
    let pair = pair(paths.into()).await;
    let all_up = || {
        [A, B, C]
            .iter()
            .all(|path| condition(&pair.far, path) == Condition::Up)
    };
    until("up", all_up).await;
    let far = pair.far.clone();
    let echo = tokio::spawn(async move {
        let stream = far.accept().await.expect("a stream");
        let (mut reader, mut writer) = (stream.reader, stream.writer);
        tokio::io::copy(&mut reader, &mut writer)
            .await
            .expect("copied");
        writer.shutdown().await.expect("open");
    });
    let stream = pair.near.open().await.expect("open");
    let (mut reader, mut writer) = (stream.reader, stream.writer);
    let sent = data(20_000_000);
    let expected = sent.clone();
    let write = tokio::spawn(async move {
        writer.write_all(&sent).await.expect("written");
        writer.shutdown().await.expect("open");
    });
    let mut received = Vec::new();
    reader.read_to_end(&mut received).await.expect("read");
    assert!(received == expected, "the data was changed");
    write.await.expect("no panic");
    echo.await.expect("no panic");
    assert_eq!(pair.near.accepted_bytes(), expected.len() as u64);
    for path in pair.near.paths() {
        assert!(path.sent_bytes > 1_000_000, "{path:?}");
    }
}

/// Messages of 20 bytes, of which every other is lost until a late acknowledgement: what is sent
/// again fills 60 holes from one datagram. noq-proto 1.4.0 discards some of it if data beyond the
/// holes was read (`Assembler::defragment`).
#[tokio::test(flavor = "multi_thread")]
async fn small_messages_that_fill_many_holes_at_once_arrive() {
    for bytes_before in [5, 300_000] {
        let (near_identity, far_identity, _) = identities();
        let (listener, address) = listen(&far_identity).await;
        let relay = Relay::to(address).await;
        let delay = Duration::from_millis(100);
        let clean = Fate {
            delay,
            ..Fate::default()
        };
        relay.set(A, clean);
        let config = near(relay.address, vec![path(A)]);
        let pair = pair_at(listener, config, &near_identity).await;
        let mut stream = pair.near.open().await.expect("open");
        let before = vec![0; bytes_before];
        let (written, mut accepted) = tokio::join!(stream.write_all(&before), async {
            let mut accepted = pair.far.accept().await.expect("a stream");
            let mut before = vec![0; bytes_before];
            accepted.read_exact(&mut before).await.expect("read");
            accepted
        });
        written.expect("written");
        let expected = data(2400);
        let read = tokio::spawn(async move {
            let mut received = Vec::new();
            accepted.read_to_end(&mut received).await.map(|_| received)
        });
        relay.set(
            A,
            Fate {
                halves_up: true,
                loses_down: true,
                ..clean
            },
        );
        for message in expected.chunks(20) {
            stream.write_all(message).await.expect("written");
            sleep(Duration::from_millis(1)).await;
        }
        let loses_up = true;
        relay.set(A, Fate { loses_up, ..clean });
        sleep(3 * delay).await; // longer than the time after which packets count as lost
        relay.set(A, clean);
        stream.shutdown().await.expect("open");
        let received = timeout(PATIENCE, read).await.expect("a stalled stream");
        let received = received.expect("no panic").expect("read");
        assert!(received == expected, "the data was changed");
    }
}

#[tokio::test]
async fn a_stream_that_was_shut_down_ends_after_its_data() {
    let pair = pair(vec![path(A), path(B)]).await;
    let mut stream = pair.near.open().await.expect("open");
    stream.write_all(b"all").await.expect("written");
    stream.shutdown().await.expect("open");
    drop(stream);
    let mut accepted = pair.far.accept().await.expect("a stream");
    let mut all = Vec::new();
    accepted.read_to_end(&mut all).await.expect("an end");
    assert_eq!(all, b"all");
}

#[tokio::test]
async fn datagrams_arrive_and_large_ones_are_refused() {
    let pair = pair(vec![path(A), path(B)]).await;
    pair.near
        .send_datagram(0, Bytes::from_static(b"up"))
        .expect("small");
    assert_eq!(pair.far.receive_datagram().await.expect("open"), "up");
    pair.far
        .send_datagram(0, Bytes::from_static(b"down"))
        .expect("small");
    assert_eq!(pair.near.receive_datagram().await.expect("open"), "down");
    let large = pair.near.send_datagram(0, Bytes::from(vec![0; 2000]));
    let Err(NotSent::TooLarge(largest)) = large else {
        panic!("{large:?}");
    };
    // 1200 bytes less a short header with its connection id, a tag and the frame.
    assert!((1100..1452).contains(&largest), "{largest}");
    pair.near
        .send_datagram(0, Bytes::from(vec![0; largest]))
        .expect("as large as possible");
}

#[tokio::test]
async fn closing_a_tunnel_ends_its_streams_and_says_why() {
    let pair = pair(vec![path(A)]).await;
    let mut stream = pair.near.open().await.expect("open");
    stream.write_all(b"data").await.expect("written");
    let mut accepted = pair.far.accept().await.expect("a stream");
    pair.far.close("drained");
    let closed = pair.near.closed().await;
    assert!(closed.to_string().contains("drained"), "{closed}");
    assert!(stream.read_u8().await.is_err());
    let mut rest = Vec::new();
    assert!(accepted.read_to_end(&mut rest).await.is_err());
    assert!(pair.near.open().await.is_err());
    let datagram = pair.near.send_datagram(0, Bytes::new());
    assert!(matches!(datagram, Err(NotSent::Closed(_))), "{datagram:?}");
}

/// The library keeps pieces that were not read apart and gives up at 1024 of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_may_be_slow() {
    for (piece, pieces) in [(100_000, 100), (100, 3000)] {
        let pair = pair(vec![path(A)]).await;
        let mut stream = pair.near.open().await.expect("open");
        let write = tokio::spawn(async move {
            for _ in 0..pieces {
                stream.write_all(&vec![1; piece]).await.expect("written");
                if piece < 1000 {
                    // A datagram each.
                    tokio::time::sleep(Duration::from_micros(100)).await;
                }
            }
            stream.shutdown().await.expect("open");
        });
        let mut accepted = pair.far.accept().await.expect("a stream");
        tokio::time::sleep(Duration::from_secs(2)).await;
        let mut all = Vec::new();
        accepted.read_to_end(&mut all).await.expect("open");
        assert_eq!(all.len(), piece * pieces);
        write.await.expect("no panic");
    }
}

/// One path is 100 ms slower than the other: what arrives over the fast one waits for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_path_does_not_stop_a_fast_one() {
    let (near_identity, far_identity, _) = identities();
    let (listener, address) = listen(&far_identity).await;
    let relay = Relay::to(address).await;
    let slow = Fate {
        delay: Duration::from_millis(100),
        ..Fate::default()
    };
    relay.set(B, slow);
    let mut paths = vec![path(A), path(B)];
    paths[0].rate_mbps = Some(30.0);
    paths[1].rate_mbps = Some(10.0);
    let pair = pair_at(listener, near(relay.address, paths), &near_identity).await;
    let both_up = || {
        [A, B]
            .iter()
            .all(|path| condition(&pair.far, path) == Condition::Up)
    };
    until("up", both_up).await;
    let sent = data(8_000_000);
    let expected = sent.clone();
    let mut stream = pair.far.open().await.expect("open");
    let write = tokio::spawn(async move {
        stream.write_all(&sent).await.expect("written");
        stream.shutdown().await.expect("open");
    });
    let mut received = Vec::new();
    let mut accepted = pair.near.accept().await.expect("a stream");
    accepted.read_to_end(&mut received).await.expect("read");
    assert!(received == expected, "the data was changed");
    write.await.expect("no panic");
    assert_eq!(pair.far.accepted_bytes(), 8_000_000);
    until("all acknowledged", || pair.far.unsent_bytes() == 0).await;
}

/// The window must grow to the 1.25 MB that such a path holds: with 64 KiB this would take 25 s.
#[tokio::test(flavor = "multi_thread")]
async fn one_stream_fills_a_long_path() {
    let (near_identity, far_identity, _) = identities();
    let (listener, address) = listen(&far_identity).await;
    let relay = Relay::to(address).await;
    let long = Fate {
        delay: Duration::from_millis(50),
        ..Fate::default()
    };
    relay.set(A, long);
    let mut paths = vec![path(A)];
    paths[0].rate_mbps = Some(100.0);
    let pair = pair_at(listener, near(relay.address, paths), &near_identity).await;
    let mut stream = pair.far.open().await.expect("open");
    let started = Instant::now();
    tokio::spawn(async move {
        stream
            .write_all(&vec![1; 16_000_000])
            .await
            .expect("written");
        stream.shutdown().await.expect("open");
    });
    let mut accepted = pair.near.accept().await.expect("a stream");
    let mut received = Vec::new();
    accepted.read_to_end(&mut received).await.expect("open");
    assert_eq!(received.len(), 16_000_000);
    let took = started.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
    println!("16 MB took {took:?}");
}

/// A new process has nothing of the old one but its key.
#[test]
fn a_restarted_far_ends_old_tunnels_at_once() {
    let runtime = || tokio::runtime::Runtime::new().expect("a runtime");
    let (near_identity, far_identity, _) = identities();
    let far = runtime();
    let (listener, address) = far.block_on(listen(&far_identity));
    let near_runtime = runtime();
    let config = near(address, vec![path(A), path(B)]);
    far.spawn(async move {
        let tunnel = listener.accept().await;
        std::future::pending::<()>().await;
        drop((tunnel, listener));
    });
    let tunnel = near_runtime.block_on(connect(&config, &near_identity));
    let tunnel = tunnel.expect("a tunnel");
    far.shutdown_background(); // without a word
    std::thread::sleep(Duration::from_millis(300));
    let far = runtime();
    let again = Far {
        listen: address,
        ..crate::support::far()
    };
    let listener = far.block_on(quic::Listener::bind(&again, &far_identity));
    let _listener = listener.expect("the address is free");
    let closed =
        near_runtime.block_on(async { tokio::time::timeout(PATIENCE, tunnel.closed()).await });
    let closed = closed.expect("in time").to_string();
    assert!(closed.contains("restarted"), "{closed}");
}

const STREAMS: usize = 60;

/// Jain's index of fairness, 1 if all are equal.
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    sum * sum / (shares.len() as f64 * squares)
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_that_the_tunnel_blocks_take_turns() {
    let (near_identity, far_identity, _) = identities();
    let (listener, address) = listen(&far_identity).await;
    let slow = Path {
        rate_mbps: Some(200.0),
        ..path(A)
    };
    let mut config = near(address, vec![slow]);
    // Less than a tenth of what the streams' own windows allow.
    config.settings.limits.tunnel_buffer_bytes = 8 << 20;
    let pair = pair_at(listener, config, &near_identity).await;
    let mut received: Vec<Arc<AtomicU64>> = Vec::new();
    for _ in 0..STREAMS {
        let mut stream = pair.near.open().await.expect("open");
        tokio::spawn(async move { while stream.write_all(&[1; 64 << 10]).await.is_ok() {} });
        let mut stream = pair.far.accept().await.expect("a stream");
        let count = Arc::new(AtomicU64::new(0));
        received.push(count.clone());
        tokio::spawn(async move {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(bytes @ 1..) = stream.read(&mut buffer).await {
                count.fetch_add(bytes as u64, Ordering::Relaxed);
            }
        });
    }
    let counts = || received.iter().map(|count| count.load(Ordering::Relaxed));
    // The buffer is filled first by those that come first.
    sleep(Duration::from_millis(500)).await;
    let before: Vec<u64> = counts().collect();
    // Some 30 MB, of which each stream gets 8 turns of 64 kB.
    while counts().sum::<u64>() < before.iter().sum::<u64>() + 32_000_000 {
        sleep(Duration::from_millis(20)).await;
    }
    let shares: Vec<f64> = counts()
        .zip(before)
        .map(|(now, before)| (now - before) as f64)
        .collect();
    assert!(jain(&shares) > 0.95, "{}: {shares:?}", jain(&shares));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_near_that_grants_no_stream_gets_no_tunnel_and_its_connection_is_closed() {
    let (near, identity, _) = identities();
    let mut config = far();
    config.settings.limits.handshake = Duration::from_millis(500);
    let listener = quic::Listener::bind(&config, &identity).await;
    let listener = listener.expect("free");
    let address = listener.local_addr().expect("bound");
    let crypto = QuicClientConfig::try_from(near.client()).expect("TLS 1.3");
    let mut client = ClientConfig::new(Arc::new(crypto));
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .max_concurrent_multipath_paths(4);
    client.transport_config(Arc::new(transport));
    let endpoint = Endpoint::client("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let connecting = endpoint.connect_with(client, address, SERVER_NAME);
    let connection = connecting.expect("valid").await.expect("a key of near");
    let closed = timeout(PATIENCE, connection.closed());
    assert!(closed.await.is_ok(), "far keeps the connection");
    until("counted", || listener.refused() == 1).await;
}
