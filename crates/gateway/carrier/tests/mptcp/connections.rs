//! Paths of the connections that wait for their use.

use std::time::Duration;

use anabranch_carrier::Condition;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout};

use super::paths::{Hosts, can_run, ip, until, with_tunnel};
use super::queues::shape;

/// Ports of near's connections over a link.
fn ports(near: &str, link: u8) -> Vec<u16> {
    let shown = ip(&format!(
        "netns exec {near} ss -tnH state established src 10.0.{link}.1"
    ));
    let local = shown
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2));
    let ports = local.filter_map(|local| local.rsplit_once(':')?.1.parse().ok());
    ports.collect()
}

/// A subflow that is lost alone is not opened again by the kernel. The path works, as others have
/// it.
#[test]
fn a_connection_that_lacks_a_path_is_used_last_and_is_replaced() {
    if !can_run() {
        return;
    }
    let hosts = Hosts::new("lame");
    for link in [1, 2] {
        shape(&hosts.near, link, "20mbit", "50ms");
    }
    let near = hosts.near.clone();
    with_tunnel(
        &hosts,
        |_, _| {},
        |tunnel| async move {
            until(&tunnel, [Condition::Up; 2]).await;
            // The tunnel's own and 8 that wait.
            let whole = async {
                while ports(&near, 2).len() < 9 {
                    sleep(PAUSE).await
                }
            };
            timeout(PATIENCE, whole)
                .await
                .expect("9 connections over both links");
            // They wait for their use once far has answered, and then nothing more is sent.
            let carried = || ip(&format!("-n {near} -s link show v1"));
            let quiet = async {
                let mut before = String::new();
                while std::mem::replace(&mut before, carried()) != carried() {
                    sleep(3 * PAUSE).await;
                }
            };
            timeout(PATIENCE, quiet).await.expect("8 that wait");
            let all = ports(&near, 2);
            // All but two lose their path over the second link.
            for port in &all[2..] {
                let kill = format!("netns exec {near} ss -K src 10.0.2.1 sport = {port}");
                ip(&kill);
            }
            assert_eq!(ports(&near, 2).len(), 2);
            let before = tunnel.paths()[1].sent_bytes;
            let mut stream = tunnel.open().await.expect("open");
            stream.write_all(&vec![7; 5_000_000]).await.expect("open");
            stream.shutdown().await.expect("open");
            assert_eq!(stream.read_u64().await.expect("an answer"), 5_000_000);
            let sent = tunnel.paths()[1].sent_bytes - before;
            assert!(sent > 1_000_000, "{sent} bytes over the second link");
            let begin = Instant::now();
            // The tunnel's own may still lack it.
            while ports(&near, 2).len() < 8 {
                assert!(begin.elapsed() < PATIENCE, "{:?}", ports(&near, 2));
                sleep(PAUSE).await;
            }
        },
    );
}

const PAUSE: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(10);
