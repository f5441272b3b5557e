//! Small objects arrive over the fast path alone.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use anabranch_net::{LinkConfig, MILLISECOND};
use tokio::time::sleep;

use super::ends::{NEAR, SERVER};
use super::gateways::{Gateways, far_config, near_with_paths};
use super::host::path_address;
use super::internet::Internet;
use super::plan::Which;
use super::{random, virtual_runtime};

/// Bytes of an object: more than the first window of a path.
const OBJECT: usize = 40_000;

/// Time until the last object has arrived, after others have let the window of the fast path grow.
async fn last_of_ten(links: [(f64, u64); 2]) -> Duration {
    let links = links.into_iter().enumerate().map(|(i, (mbps, rtt))| {
        let link = LinkConfig::constant(mbps * 1e6, rtt * MILLISECOND / 2);
        (path_address(i), link)
    });
    let internet = Internet::new(links.collect(), 1);
    let mut gateways = Gateways::with(&internet, near_with_paths(2, ""), far_config("")).await;
    tokio::spawn(serve(internet.clone()));
    sleep(Duration::from_secs(1)).await;
    let mut took = Duration::ZERO;
    for _ in 0..10 {
        let begin = internet.time();
        let client = internet.connect(Ipv4Addr::LOCALHOST.into(), NEAR);
        let client = client.expect("near listens");
        client.write(&[1]).await.expect("open");
        let mut left = OBJECT;
        while left > 0 {
            left -= client.read(&mut [0; 8192]).await.expect("open");
        }
        took = internet.time() - begin;
        sleep(Duration::from_millis(300)).await;
    }
    gateways.end(Which::Near).await;
    gateways.end(Which::Far).await;
    took
}

async fn serve(internet: Arc<Internet>) {
    let mut listener = internet.listen(SERVER).expect("one server");
    while let Some(server) = listener.recv().await {
        tokio::spawn(async move {
            server.read(&mut [0]).await.expect("open");
            let mut left = OBJECT;
            while left > 0 {
                left -= server.write(&vec![7; left]).await.expect("open");
            }
            server.read(&mut [0]).await
        });
    }
}

/// Over 60 Mbit/s and 15 ms the request and the object take 2 * 7.5 ms and 40000 * 8 / 60 Mbit/s,
/// 5.3 ms, and paced 0.8 of a round trip, 12 ms. Over the other path, 110 ms, a packet alone
/// arrives after 55 ms.
#[test]
fn an_object_does_not_wait_for_packets_over_a_slow_path() {
    let links = [(60.0, 15), (20.0, 110)];
    let took = random::seeded(1, || virtual_runtime().block_on(last_of_ten(links)));
    assert!(took < Duration::from_millis(50), "{took:?}");
}
