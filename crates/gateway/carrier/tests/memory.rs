//! Memory of a tunnel's streams. A process of its own, for its allocator.

#[path = "support.rs"]
#[expect(dead_code, reason = "shared with the tests of quic")]
mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anabranch_carrier::tls::SERVER_NAME;
use anabranch_carrier::{Stream, Tunnel, quic};
use noq::crypto::rustls::QuicClientConfig;
use support::{A, PATIENCE, identities, near, pair_at, path};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: all calls are passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller says.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Tests count allocations: one at a time.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

fn allocated() -> usize {
    ALLOCATED.load(Ordering::Relaxed)
}

/// Waits until the number of allocated bytes hardly changes.
async fn settled() -> usize {
    let mut before = 0;
    while allocated().abs_diff(before) > 1_000_000 {
        before = allocated();
        sleep(Duration::from_millis(500)).await;
    }
    allocated()
}

/// Memory of data that was received and is not read, as docs/reference/gateway.md states it, bytes.
fn stated(streams: usize, unread: usize) -> usize {
    streams * (64 << 10) + 5 * unread / 2
}

async fn opened(tunnel: &Tunnel) -> Stream {
    let opened = timeout(PATIENCE, tunnel.open()).await;
    opened.expect("in time").expect("open")
}

/// A thousand streams that are not read, each with a sender that has more.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_stalled_streams_have_their_first_windows_and_stop_no_other() {
    const STREAMS: usize = 1000;
    let _alone = ALONE.lock().await;
    let (near_identity, far_identity, _) = identities();
    let (listener, address) = support::listen(&far_identity).await;
    let pair = pair_at(listener, near(address, vec![path(A)]), &near_identity).await;
    let before = allocated();
    let mut unread = Vec::new();
    for i in 0..STREAMS {
        let mut stream = opened(&pair.near).await;
        tokio::spawn(async move { while stream.write_all(&[7; 1 << 10]).await.is_ok() {} });
        let accepted = timeout(PATIENCE, pair.far.accept()).await;
        unread.push(accepted.unwrap_or_else(|_| panic!("frozen by {i}")));
    }
    let grown = settled().await - before;
    let most = stated(STREAMS, STREAMS * (64 << 10));
    assert!(grown < most, "{grown} bytes, {most} are stated");
    let mut stream = opened(&pair.near).await;
    stream.write_all(b"soon").await.expect("written");
    let accepted = timeout(PATIENCE, pair.far.accept()).await;
    let mut accepted = accepted.expect("in time").expect("a stream");
    let mut text = [0; 4];
    let read = timeout(PATIENCE, accepted.read_exact(&mut text)).await;
    read.expect("in time").expect("read");
    assert_eq!(&text, b"soon");
}

/// Streams whose windows have grown stall beside one that is read: what is read meanwhile is freed.
#[tokio::test(flavor = "multi_thread")]
async fn streams_that_stall_beside_another_hold_their_data_alone() {
    const STREAMS: usize = 60;
    const BUDGET: usize = 8 << 20;
    let _alone = ALONE.lock().await;
    let (near_identity, far_identity, _) = identities();
    let mut config = support::far();
    config.settings.limits.tunnel_buffer_bytes = BUDGET;
    let listener = quic::Listener::bind(&config, &far_identity).await;
    let listener = listener.expect("free");
    let address = listener.local_addr().expect("bound");
    let pair = pair_at(listener, near(address, vec![path(A)]), &near_identity).await;
    let before = allocated();
    let mut reading = Vec::new();
    for i in 0..=STREAMS {
        let mut stream = opened(&pair.near).await;
        tokio::spawn(async move { while stream.write_all(&[7; 1 << 14]).await.is_ok() {} });
        let accepted = timeout(PATIENCE, pair.far.accept()).await;
        let mut stream = accepted.expect("in time").expect("a stream");
        let read = async move {
            let mut buffer = vec![0; 1 << 14];
            let mut left = if i == STREAMS { usize::MAX } else { 1 << 20 };
            while left > 0 {
                let read = stream.read(&mut buffer).await.expect("read");
                left = left.saturating_sub(read);
            }
            // As a relay whose client does not read.
            drop(buffer);
            poll_fn(|cx| stream.reader.poll_reset(cx)).await
        };
        reading.push(tokio::spawn(read));
    }
    sleep(PATIENCE / 4).await;
    reading[STREAMS].abort();
    let grown = settled().await - before;
    let most = STREAMS * (64 << 10) + BUDGET;
    assert!(grown < most, "{grown} bytes, {most} are stated");
}

/// A peer with a key that uses the library's windows and not those that it was given.
#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_ignores_its_credit_fills_no_more_than_is_stated() {
    let _alone = ALONE.lock().await;
    let (near_identity, far_identity, _) = identities();
    let mut config = support::far();
    let limits = &mut config.settings.limits;
    limits.tunnel_buffer_bytes = 4 << 20;
    // A gateway with 32 connections per key.
    limits.streams = 32 + 256 + 256;
    let streams = limits.streams;
    let listener = quic::Listener::bind(&config, &far_identity).await;
    let listener = listener.expect("free");
    let address = listener.local_addr().expect("bound");
    let crypto = QuicClientConfig::try_from(near_identity.client()).expect("TLS 1.3");
    let mut client = noq::ClientConfig::new(Arc::new(crypto));
    let mut transport = noq::TransportConfig::default();
    transport
        .max_concurrent_multipath_paths(4)
        .send_window(1 << 30);
    client.transport_config(Arc::new(transport));
    let any = "127.0.0.1:0".parse().expect("an address");
    let endpoint = noq::Endpoint::client(any).expect("a port");
    let connecting = endpoint.connect_with(client, address, SERVER_NAME);
    let connecting = connecting.expect("an address");
    let (connection, accepted) = tokio::join!(connecting, listener.accept());
    let connection = connection.expect("a handshake");
    let (_tunnel, _) = accepted.expect("a tunnel");
    let before = allocated();
    let sent = Arc::new(AtomicUsize::new(0));
    for _ in 0..32 {
        let (mut stream, _) = connection.open_bi().await.expect("open");
        let sent = sent.clone();
        tokio::spawn(async move {
            while let Ok(bytes) = stream.write(&[7; 1 << 10]).await {
                sent.fetch_add(bytes, Ordering::Relaxed);
            }
        });
    }
    let grown = settled().await - before;
    let sent = sent.load(Ordering::Relaxed);
    assert!(sent > 32 * (64 << 10), "{sent} bytes were sent");
    let most = stated(streams, streams * (64 << 10) + 2 * (4 << 20));
    assert!(
        grown < most,
        "{grown} bytes, {most} are stated; {sent} were sent"
    );
}
