//! Limits on connections and rates.

use anabranch_gateway::config::Limits;
use anabranch_gateway::traffic::limits::{Limiter, Purpose, Rate, client_of};
use tokio::time::Instant;

#[test]
fn connections_are_limited_per_client_and_in_total() {
    let mut limits = Limits {
        connections: Some(3),
        connections_per_client: Some(2),
        ..Default::default()
    };
    let limiter = Limiter::new(&limits);
    let connection = |client| limiter.admit(Purpose::Connection, &client);
    let a = [connection(1), connection(1)].map(|it| it.expect("within the limits"));
    assert!(connection(1).is_none());
    let b = connection(2).expect("within the limits");
    assert!(connection(3).is_none());
    let query = limiter
        .admit(Purpose::Query, &1)
        .expect("a place of its own");
    limits.connections = Some(4);
    limiter.replace(&limits);
    assert!(connection(3).is_some());
    assert_eq!(limiter.active(), 4);
    drop((a, b, query));
    assert_eq!(limiter.active(), 0);
    // No client is remembered.
    assert!(format!("{limiter:?}").contains("each: {}"), "{limiter:?}");
}

#[test]
fn a_client_is_this_host_an_ipv4_address_or_64_bits_of_ipv6() {
    let client = |text: &str| client_of(text.parse().expect("an address"));
    assert_eq!(client("192.0.2.1"), client("::ffff:192.0.2.1"));
    assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
    assert_eq!(client("2001:db8::1"), client("2001:db8::ffff:0:0:2"));
    assert_ne!(client("2001:db8::1"), client("2001:db8:0:1::1"));
    assert_eq!(client("127.0.0.1"), client("127.9.9.9"));
    assert_eq!(client("127.0.0.1"), client("::1"));
}

#[tokio::test(start_paused = true)]
async fn connections_of_a_client_share_its_rate() {
    // 8 Mbit/s are 1 MB/s: 2 x 500 kB take 1 s less the burst of 0.1 s.
    let rate = Rate::new(Some(8.0));
    let start = Instant::now();
    let half = async {
        for _ in 0..50 {
            rate.take(10_000).await;
        }
    };
    tokio::join!(half, async {
        for _ in 0..50 {
            rate.take(10_000).await;
        }
    });
    let took = start.elapsed().as_secs_f64();
    assert!((0.89..1.01).contains(&took), "{took}");
    Rate::new(None).take(usize::MAX).await;
}
