//! Round robin: files complete in the order in which the simulator's gateway completes them.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_carrier::Carrier::Mptcp;
use anabranch_carrier::{Listener, connect};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::support::{configs, identities};

/// Payload of a frame, the packet of this gateway, bytes.
const FRAME: u64 = 4095;

/// Frames under way to the socket, from whichever streams there are: a stream can be ahead of its
/// turn or behind it by this many.
const UNDER_WAY: i64 = 8;

/// Packets sent when each file is complete, if each file sends a packet in turn (`Gateway::take` in
/// crates/model/sim) and all are present from the start.
fn completed_in_turn(sizes: &[u64]) -> BTreeMap<u64, i64> {
    let mut waiting: VecDeque<(u64, u64)> = sizes
        .iter()
        .map(|&bytes| (bytes, bytes.div_ceil(FRAME)))
        .collect();
    let mut complete = BTreeMap::new();
    let mut sent = 0;
    while let Some((bytes, packets)) = waiting.pop_front() {
        sent += 1;
        match packets {
            1 => drop(complete.insert(bytes, sent)),
            _ => waiting.push_back((bytes, packets - 1)),
        }
    }
    complete
}

/// Forwards a connection at a constant rate once it is let go: a link of 16 Mbit/s with small
/// buffers.
async fn link(to: SocketAddr, go: Arc<Notify>) -> SocketAddr {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    let socket = socket.expect("a socket");
    socket.set_recv_buffer_size(8 << 10).expect("a size");
    socket.set_nonblocking(true).expect("a socket");
    socket
        .bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())
        .expect("loopback");
    socket.listen(1).expect("bound");
    let listener = TcpListener::from_std(socket.into()).expect("a listener");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        let (near, _) = listener.accept().await.expect("connected");
        let far = TcpStream::connect(to).await.expect("listening");
        let (mut from_near, mut to_near) = near.into_split();
        let (mut from_far, mut to_far) = far.into_split();
        tokio::spawn(async move { copy(&mut from_far, &mut to_near).await });
        let mut buffer = vec![0; 2000];
        let mut forwarded = 0;
        loop {
            let bytes = from_near.read(&mut buffer).await.unwrap_or(0);
            if bytes == 0 || to_far.write_all(&buffer[..bytes]).await.is_err() {
                return;
            }
            forwarded += bytes;
            // The handshake passes at once.
            if forwarded > 20_000 {
                break;
            }
        }
        go.notified().await;
        loop {
            let bytes = from_near.read(&mut buffer).await.unwrap_or(0);
            if bytes == 0 || to_far.write_all(&buffer[..bytes]).await.is_err() {
                return;
            }
            sleep(Duration::from_millis(1)).await;
        }
    });
    address
}

#[tokio::test]
async fn files_complete_in_the_order_of_the_simulators_gateway() {
    // Pareto of index 1.2 and mean 30 000 bytes by its quantiles, in an arbitrary order: the sizes
    // of I-TCP's second subnet, ties avoided by different numbers of frames.
    let quantile = |i: u64| 5000.0 * (1.0 - (i as f64 + 0.5) / 40.0).powf(-1.0 / 1.2);
    let mut frames = 0;
    let sizes = (0..40).map(|i| {
        frames = (quantile(i) as u64).div_ceil(FRAME).max(frames + 1);
        frames * FRAME - 100
    });
    let mut sizes: Vec<u64> = sizes.collect();
    for i in 0..40 {
        sizes.swap(i, (i * 17 + 5) % 40);
    }
    let (near, far, _) = identities();
    let (mut near_config, far_config) = configs(Mptcp);
    let listener = Listener::bind(&far_config, &far).await.expect("bound");
    let go = Arc::new(Notify::new());
    let via = link(far_config.listen, go.clone()).await;
    near_config.far = via.into();
    near_config.settings.limits.buffer_bytes = 4 << 20;
    let connecting = connect(&near_config, &near);
    let (near, far) = tokio::join!(connecting, listener.accept());
    let (near, (far, _)) = (near.expect("connected"), far.expect("accepted"));
    // The link stops when this has gone through, and what comes after waits in the gateway.
    let mut plug = near.open().await.expect("open");
    plug.write_all(&[0; 2 << 20]).await.expect("open");
    sleep(Duration::from_millis(500)).await;
    let mut streams = Vec::new();
    for &bytes in &sizes {
        let mut stream = near.open().await.expect("open");
        stream
            .write_all(&vec![0; bytes as usize])
            .await
            .expect("open");
        streams.push(tokio::spawn(async move { stream.shutdown().await }));
    }
    sleep(Duration::from_millis(100)).await;
    drop(plug);
    go.notify_one();
    let complete = Arc::new(Mutex::new(Vec::new()));
    let mut readers = Vec::new();
    for _ in 0..=sizes.len() {
        let mut stream = far.accept().await.expect("open");
        let complete = complete.clone();
        readers.push(tokio::spawn(async move {
            let mut bytes = Vec::new();
            if stream.read_to_end(&mut bytes).await.is_ok() {
                complete.lock().expect("no panic").push(bytes.len() as u64);
            }
        }));
    }
    for reader in readers {
        reader.await.expect("no panic");
    }
    let expected = completed_in_turn(&sizes);
    let complete = complete.lock().expect("no panic").clone();
    assert_eq!(complete.len(), 40);
    let latest = complete.iter().scan(0, |latest, bytes| {
        *latest = expected[bytes].max(*latest);
        Some((bytes, expected[bytes], *latest))
    });
    for (bytes, own, latest) in latest {
        // Two files may complete in the other order if each is off by `UNDER_WAY`.
        assert!(
            latest - own <= 2 * UNDER_WAY,
            "{bytes} bytes, {own} after {latest}: {complete:?}"
        );
    }
}
