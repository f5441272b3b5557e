//! Streams, datagrams and refusals over loopback.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anabranch_carrier::Carrier::Mptcp;
use anabranch_carrier::{Closed, Limits, Listener, NotSent, Stream, Tunnel, connect};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

use crate::support::{configs, identities, path, tunnel, tunnel_between};
use crate::tunnels::{PATIENCE, is_reset, pair_of_streams, pattern};

/// Sends back what it receives.
async fn echo(far: Tunnel) {
    while let Ok(stream) = far.accept().await {
        tokio::spawn(async move {
            let Stream {
                mut reader,
                mut writer,
            } = stream;
            copy(&mut reader, &mut writer).await?;
            writer.shutdown().await
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_carry_data_both_ways_and_end() {
    // A busy machine may let all wait for seconds, with 100 MB on the way.
    let limits = Limits {
        tunnel_buffer_bytes: 1 << 30,
        ..Limits::default()
    };
    let (near, far, _listener) = tunnel(Mptcp, limits).await;
    tokio::spawn(echo(far.clone()));
    let each = (0..300).map(|seed| {
        let near = near.clone();
        tokio::spawn(async move {
            let data = pattern(seed, [0, 1, 4095, 4096, 40_000, 2_000_000][seed % 6]);
            let Stream {
                mut reader,
                mut writer,
            } = near.open().await.expect("open");
            let sent = data.clone();
            let sending = tokio::spawn(async move {
                writer.write_all(&sent).await.expect("open");
                writer.shutdown().await.expect("open");
            });
            let mut received = Vec::new();
            reader.read_to_end(&mut received).await.expect("an end");
            sending.await.expect("sent");
            assert!(received == data, "stream {seed}: {} bytes", received.len());
            data.len()
        })
    });
    let mut sum = 0;
    for stream in each.collect::<Vec<_>>() {
        sum += stream.await.expect("no panic");
    }
    assert_eq!(near.accepted_bytes(), sum as u64);
    assert_eq!(far.accepted_bytes(), sum as u64);
    // The last frames, which open windows, may leave after the streams have ended.
    let sent = async {
        while (near.unsent_bytes(), far.unsent_bytes()) != (0, 0) {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, sent).await.expect("nothing stays unsent");
}

#[tokio::test]
async fn closing_gives_the_peer_the_reason_and_ends_streams_with_an_error() {
    let (near, far, _listener) = tunnel(Mptcp, Limits::default()).await;
    let (mut opened, mut accepted) = pair_of_streams(&near, &far).await;
    far.close("maintenance");
    assert_eq!(far.closed().await, Closed("maintenance".to_owned()));
    assert_eq!(
        near.closed().await,
        Closed("by the peer: maintenance".to_owned())
    );
    assert!(is_reset(opened.read(&mut [0; 9]).await));
    assert!(is_reset(accepted.read(&mut [0; 9]).await));
    assert!(opened.write_all(b"late").await.is_err());
    let closed = near.open().await.expect_err("closed");
    assert_eq!(
        closed.to_string(),
        "the tunnel is closed: by the peer: maintenance"
    );
    assert!(near.accept().await.is_err() && near.receive_datagram().await.is_err());
    let late = near.send_datagram(0, "late".into());
    assert!(matches!(late, Err(NotSent::Closed(_))));
}

#[tokio::test]
async fn a_tunnel_is_closed_when_its_last_clone_is_dropped() {
    let (near, far, _listener) = tunnel(Mptcp, Limits::default()).await;
    drop(near.clone());
    assert!(
        timeout(Duration::from_millis(100), far.closed())
            .await
            .is_err()
    );
    drop(near);
    timeout(PATIENCE, far.closed()).await.expect("closed");
}

/// The kernel closes the connection of a killed process; nothing else is sent.
#[tokio::test]
async fn a_killed_far_is_noticed_at_once_and_is_no_end_of_data() {
    let (near_identity, far_identity, _) = identities();
    let (near_config, far_config) = configs(Mptcp);
    let (ready, is_ready) = std::sync::mpsc::channel();
    let (kill, killed) = tokio::sync::oneshot::channel();
    let far = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.expect("a runtime");
        let kept = runtime.block_on(async {
            let listener = Listener::bind(&far_config, &far_identity).await;
            let listener = listener.expect("bound");
            ready.send(()).expect("waiting");
            let (tunnel, _) = listener.accept().await.expect("accepted");
            let mut stream = tunnel.accept().await.expect("open");
            stream.write_all(b"part").await.expect("open");
            killed.await.expect("waiting");
            (listener, tunnel, stream)
        });
        // Tasks of the runtime end in the middle of what they do.
        drop(runtime);
        drop(kept);
    });
    is_ready.recv().expect("ready");
    let near = connect(&near_config, &near_identity).await;
    let near = near.expect("connected");
    let mut stream = near.open().await.expect("open");
    stream.write_all(b"request").await.expect("open");
    stream.read_exact(&mut [0; 4]).await.expect("a part");
    kill.send(()).expect("waiting");
    let closed = timeout(PATIENCE, near.closed()).await;
    closed.expect("closed at once");
    assert!(is_reset(stream.read(&mut [0; 9]).await));
    far.join().expect("no panic");
}

#[tokio::test]
async fn datagrams_keep_their_boundaries() {
    let (near, far, _listener) = tunnel(Mptcp, Limits::default()).await;
    for size in [0, 1, 1200, 65_534] {
        let datagram = pattern(size, size);
        near.send_datagram(0, datagram.clone().into())
            .expect("small enough");
        assert!(far.receive_datagram().await.expect("open") == datagram);
        far.send_datagram(0, datagram.clone().into())
            .expect("small enough");
        assert!(near.receive_datagram().await.expect("open") == datagram);
    }
    let too_large = near.send_datagram(0, vec![0; 65_535].into());
    assert_eq!(too_large, Err(NotSent::TooLarge(65_534)));
}

#[tokio::test]
async fn the_oldest_datagrams_are_discarded() {
    let (near, far, _listener) = tunnel(Mptcp, Limits::default()).await;
    // One task, which does not wait: nothing is sent meanwhile.
    for number in 0..1000u32 {
        near.send_datagram(0, number.to_be_bytes().to_vec().into())
            .expect("open");
    }
    for number in 1000 - 256..1000u32 {
        assert_eq!(
            far.receive_datagram().await.expect("open"),
            number.to_be_bytes()[..]
        );
    }
}

#[tokio::test]
async fn the_first_path_that_connects_is_taken() {
    let (near, far, _) = identities();
    let (mut near_config, far_config) = configs(Mptcp);
    let listener = Listener::bind(&far_config, &far).await.expect("bound");
    // An address of TEST-NET-1 (RFC 5737), so none of this host.
    near_config.paths.insert(0, path("192.0.2.1"));
    let connecting = connect(&near_config, &near);
    let (connected, accepted) = tokio::join!(connecting, listener.accept());
    connected.expect("connected");
    accepted.expect("accepted");
    // No path: why.
    near_config.paths.pop();
    let alone = connect(&near_config, &near).await;
    let error = alone.expect_err("no such address").to_string();
    let expected = "this host has no address 192.0.2.1";
    assert!(error.contains(expected), "{error}");
}

#[tokio::test]
async fn opening_waits_while_the_limit_of_streams_is_reached() {
    const MOST: usize = 500;
    let of_far = Limits {
        streams: MOST,
        ..Limits::default()
    };
    let (near, far, _listener) = tunnel_between(Mptcp, Limits::default(), of_far).await;
    let mut streams = Vec::new();
    for _ in 0..MOST {
        streams.push(pair_of_streams(&near, &far).await);
    }
    assert!(
        timeout(Duration::from_millis(100), near.open())
            .await
            .is_err()
    );
    streams.pop();
    timeout(PATIENCE, near.open())
        .await
        .expect("one is free")
        .expect("open");
}

#[tokio::test]
async fn a_read_takes_all_records_that_have_arrived() {
    let (near, far, _listener) = tunnel(Mptcp, Limits::default()).await;
    let (mut opened, mut accepted) = pair_of_streams(&near, &far).await;
    opened.write_all(&[7; 50_000]).await.expect("open");
    opened.flush().await.expect("open");
    sleep(Duration::from_millis(300)).await;
    let mut buffer = vec![0; 1 << 16];
    // Records have at most 16 384 bytes.
    let read = accepted.read(&mut buffer).await.expect("data");
    assert_eq!(read, 50_000);
}

#[tokio::test]
async fn a_writer_that_waits_gets_an_error_when_the_tunnel_ends() {
    let (near, far, _listener) = tunnel(Mptcp, Limits::default()).await;
    let (mut slow, _unread) = pair_of_streams(&near, &far).await;
    let writing = tokio::spawn(async move { while slow.write_all(&[0; 9999]).await.is_ok() {} });
    sleep(Duration::from_millis(300)).await;
    assert!(!writing.is_finished());
    near.close("test");
    let ended = timeout(PATIENCE, writing).await;
    ended.expect("an error").expect("no panic");
}

#[tokio::test]
async fn a_receiver_that_does_not_read_stops_only_its_own_stream() {
    let (near, far, _listener) = tunnel(Mptcp, Limits::default()).await;
    let (mut slow, _unread) = pair_of_streams(&near, &far).await;
    let endless = async { while slow.write_all(&[0; 9999]).await.is_ok() {} };
    assert!(timeout(Duration::from_secs(1), endless).await.is_err());
    let (mut opened, mut other) = pair_of_streams(&near, &far).await;
    opened.write_all(&[7; 50_000]).await.expect("open");
    opened.flush().await.expect("open");
    other.read_exact(&mut [0; 50_000]).await.expect("data");
}

/// Data of the kernel of either end counts, and a stream that goes on is no victim.
#[tokio::test]
async fn the_stream_that_holds_most_and_has_stalled_is_reset_beyond_the_tunnels_buffer() {
    let limits = Limits {
        tunnel_buffer_bytes: 30_000,
        ..Limits::default()
    };
    let (near, far, _listener) = tunnel_between(Mptcp, Limits::default(), limits).await;
    let (mut slow, mut unread) = pair_of_streams(&near, &far).await;
    let (mut opened, mut accepted) = pair_of_streams(&near, &far).await;
    let endless = async { while slow.write_all(&[0; 9999]).await.is_ok() {} };
    let going_on = async {
        loop {
            opened.write_all(&[7; 1000]).await.expect("open");
            opened.flush().await.expect("open");
            accepted.read_exact(&mut [0; 1000]).await.expect("open");
            sleep(Duration::from_millis(10)).await;
        }
    };
    let reset = async {
        tokio::select! {
            () = endless => {}
            () = going_on => {}
        }
    };
    // It has stalled after 5 s.
    timeout(2 * PATIENCE, reset).await.expect("a reset");
    let error = unread.read(&mut [0; 9]).await.expect_err("reset");
    assert_eq!(error.kind(), std::io::ErrorKind::QuotaExceeded);
}

/// Passes connections on to `to`, and counts them.
async fn counted(to: SocketAddr) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = listener.local_addr().expect("bound");
    let count = Arc::new(AtomicUsize::new(0));
    let counter = count.clone();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            counter.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move {
                let mut far = TcpStream::connect(to).await.expect("listening");
                let _ = copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    (address, count)
}

/// One for the tunnel, 8 that wait for their use, and one for each of the first streams that find
/// the last one not acknowledged yet.
#[tokio::test]
async fn connections_are_used_again_and_not_after_a_reset() {
    let (near_identity, far_identity, _) = identities();
    let (mut near_config, far_config) = configs(Mptcp);
    let listener = Listener::bind(&far_config, &far_identity)
        .await
        .expect("bound");
    let (address, count) = counted(far_config.listen).await;
    near_config.far = address.into();
    let connecting = connect(&near_config, &near_identity);
    let (near, far) = tokio::join!(connecting, listener.accept());
    let (near, (far, _)) = (near.expect("connected"), far.expect("accepted"));
    tokio::spawn(echo(far));
    for seed in 0..200 {
        let data = pattern(seed, 1000 * (seed % 3));
        let mut stream = near.open().await.expect("open");
        stream.write_all(&data).await.expect("open");
        stream.shutdown().await.expect("open");
        let mut received = Vec::new();
        stream.read_to_end(&mut received).await.expect("an end");
        assert!(received == data, "stream {seed}: {} bytes", received.len());
    }
    let used = count.load(Ordering::Relaxed);
    assert!(used <= 20, "{used} connections");
    for _ in 0..30 {
        let mut stream = near.open().await.expect("open");
        stream.write_all(b"part").await.expect("open");
        stream.flush().await.expect("open");
        stream.read_exact(&mut [0; 4]).await.expect("an echo");
        // It is dropped before its end.
    }
    let used_later = count.load(Ordering::Relaxed);
    assert!(used_later >= used + 20, "{used_later} connections");
}
