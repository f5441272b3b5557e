//! Small streams beside bulk data, and while a path dies.

use std::time::Duration;

use anabranch_carrier::{Condition, Tunnel};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout};

use super::paths::{Hosts, can_run, ip, set_link, until, with_tunnel};

const UP: [Condition; 2] = [Condition::Up, Condition::Up];

/// Gives a link of near a rate and the longest time that a packet may wait in its queue.
pub fn shape(near: &str, link: u8, rate: &str, queue: &str) {
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

#[test]
fn small_streams_go_on_when_a_path_dies() {
    if !can_run() {
        return;
    }
    let hosts = Hosts::new("small2");
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
