//! Streams get equal shares of a tunnel whose buffer they fill.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anabranch_carrier::Path;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::sleep;

use super::support::{A, identities, listen, near, pair_at, path};

const STREAMS: usize = 60;

/// Jain's index of fairness, 1 if all are equal.
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    sum * sum / (shares.len() as f64 * squares)
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_that_the_tunnel_blocks_take_turns() {
    let (near_identity, far_identity) = identities();
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
