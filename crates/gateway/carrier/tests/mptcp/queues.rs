//! Data that waits in the kernel, and the windows of streams.

use std::time::Duration;

use anabranch_carrier::Carrier::Mptcp;
use anabranch_carrier::{Condition, Limits, Near, Tunnel};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, interval, sleep, timeout};

use super::paths::{Hosts, can_run, ip, set_link, until, with_tunnel};
use crate::support::tunnel;

/// Both paths have 10 Mbit/s and queues of 50 ms, 62 kB: with 65 kB for a burst, 62 kB if only one
/// queue is full, 10 kB for 4 ms, and less than 100 kB in the gateway. A stream's window is larger.
#[test]
fn little_is_unsent_in_the_kernel() {
    if !can_run() {
        return;
    }
    let hosts = Hosts::new("queues");
    for link in [1, 2] {
        let tc = format!("netns exec {} tc qdisc add dev v{link} root", hosts.near);
        ip(&format!("{tc} tbf rate 10mbit burst 10kb latency 50ms"));
    }
    let small = |near: &mut Near, _: &mut _| near.settings.limits.buffer_bytes = 16 << 10;
    with_tunnel(&hosts, small, |tunnel| async move {
        until(&tunnel, [Condition::Up, Condition::Up]).await;
        let mut stream = tunnel.open().await.expect("open");
        let data = vec![7; 5_000_000];
        let mut samples = Vec::new();
        let mut clock = interval(Duration::from_millis(10));
        let watching = async {
            loop {
                clock.tick().await;
                samples.push(tunnel.unsent_bytes());
            }
        };
        tokio::select! {
            written = stream.write_all(&data) => written.expect("open"),
            () = watching => {}
        }
        stream.shutdown().await.expect("open");
        assert_eq!(stream.read_u64().await.expect("an answer"), 5_000_000);
        samples.sort_unstable();
        let median = samples[samples.len() / 2];
        assert!(median < 300_000, "{median}");
    });
}

/// The first window is 64 KiB, of which half lasts 1 ms here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_window_of_a_fast_stream_grows() {
    const BUFFER: usize = 64 << 10;
    const READS: usize = 300;
    let limits = Limits {
        buffer_bytes: BUFFER,
        ..Limits::default()
    };
    let (near, far, _listener) = tunnel(Mptcp, limits).await;
    let mut stream = near.open().await.expect("open");
    let sending = tokio::spawn(async move {
        let data = vec![7; 1 << 16];
        while stream.write_all(&data).await.is_ok() {}
    });
    let mut accepted = far.accept().await.expect("open");
    let mut data = vec![0; 64 << 10];
    let mut clock = interval(Duration::from_millis(2));
    for _ in 0..READS {
        clock.tick().await;
        accepted.read_exact(&mut data).await.expect("data");
    }
    // It does not read any more: near sends a window, and has a buffer.
    let full = async {
        let mut before = 0;
        while near.accepted_bytes() > before {
            before = near.accepted_bytes();
            sleep(Duration::from_millis(300)).await;
        }
        before as usize - READS * data.len()
    };
    let beyond = timeout(Duration::from_secs(20), full)
        .await
        .expect("in time");
    assert!(beyond > 1 << 20, "{beyond}");
    sending.abort();
}

const UP: [Condition; 2] = [Condition::Up, Condition::Up];

/// Gives a link of near a rate and the longest time that a packet may wait in its queue.
fn shape(near: &str, link: u8, rate: &str, queue: &str) {
    let tc = format!("netns exec {near} tc qdisc replace dev v{link} root");
    ip(&format!("{tc} tbf rate {rate} burst 10kb latency {queue}"));
}

/// Sends a byte in a new stream, and waits for the answer.
async fn touch(tunnel: &Tunnel) -> Duration {
    let begin = Instant::now();
    let mut stream = tunnel.open().await.expect("open");
    stream.write_all(&[7]).await.expect("open");
    stream.shutdown().await.expect("open");
    assert_eq!(stream.read_u64().await.expect("an answer"), 1);
    begin.elapsed()
}

/// Sends without an end.
async fn bulk(tunnel: &Tunnel) {
    let mut stream = tunnel.open().await.expect("open");
    while stream.write_all(&[7; 100_000]).await.is_ok() {}
}

/// A byte over the faster path waits 50 ms in its queue, in that of the slower one a second. Both
/// directions of the stream and its opening take two round trips.
#[test]
fn a_small_stream_does_not_wait_for_bulk_data_on_a_slower_path() {
    if !can_run() {
        return;
    }
    let hosts = Hosts::new("small");
    shape(&hosts.near, 1, "20mbit", "50ms");
    shape(&hosts.near, 2, "5mbit", "1000ms");
    with_tunnel(
        &hosts,
        |_, _| {},
        |tunnel| async move {
            until(&tunnel, UP).await;
            let touching = async {
                // Until the second path has a queue.
                sleep(Duration::from_secs(4)).await;
                let mut times = Vec::new();
                for _ in 0..20 {
                    times.push(touch(&tunnel).await);
                }
                times.sort_unstable();
                assert!(times[10] < Duration::from_millis(400), "{times:?}");
            };
            tokio::select! {
                () = bulk(&tunnel) => unreachable!("it has no end"),
                () = touching => {}
            }
            let paths = tunnel.paths();
            assert!(paths[1].sent_bytes > 1_000_000, "{paths:#?}");
        },
    );
}

/// Data that the path has not delivered arrives over the first connection.
#[test]
fn small_streams_go_on_when_the_path_of_the_second_connection_dies() {
    if !can_run() {
        return;
    }
    let hosts = Hosts::new("second");
    shape(&hosts.near, 1, "20mbit", "50ms");
    shape(&hosts.near, 2, "20mbit", "100ms");
    let far = hosts.far.clone();
    with_tunnel(
        &hosts,
        |_, _| {},
        |tunnel| async move {
            until(&tunnel, UP).await;
            sleep(Duration::from_secs(1)).await;
            for link in [1, 2, 1] {
                set_link(&far, link, "down");
                for _ in 0..30 {
                    let touched = timeout(Duration::from_secs(5), touch(&tunnel)).await;
                    touched.expect("the other path works");
                    sleep(Duration::from_millis(20)).await;
                }
                set_link(&far, link, "up");
                until(&tunnel, UP).await;
            }
        },
    );
}
