//! How long nothing arrives when the faster of two links dies.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_net::{LinkConfig, MILLISECOND, SECOND};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::ends::{NEAR, SERVER};
use super::gateways::Gateways;
use super::host::path_address;
use super::internet::Internet;
use super::plan::Which;
use super::{random, virtual_runtime};

/// When the link dies, s.
const DEATH: u64 = 4;

const DOWNLOADS: usize = 4;

/// Times at which each download received something.
type Arrivals = Arc<Mutex<Vec<Vec<Duration>>>>;

fn links() -> Vec<LinkConfig> {
    let mut fast = LinkConfig::constant(8e6, 10 * MILLISECOND);
    fast.down = vec![(DEATH * SECOND, 1000 * SECOND)];
    let slow = LinkConfig::constant(2e6, 30 * MILLISECOND);
    let queue = |bytes| anabranch_net::Queue::DropTail {
        packets: None,
        bytes: Some(bytes),
    };
    // A queue of 100 ms.
    fast.queue = queue(100_000);
    vec![
        fast,
        LinkConfig {
            queue: queue(25_000),
            ..slow
        },
    ]
}

async fn download(internet: Arc<Internet>, i: usize, arrivals: Arrivals) {
    sleep(Duration::from_secs(1)).await;
    let client = internet.connect(Ipv4Addr::LOCALHOST.into(), NEAR);
    let client = client.expect("near listens");
    let mut buffer = vec![0; 64 << 10];
    while let Ok(1..) = client.read(&mut buffer).await {
        arrivals.lock().expect("no panic")[i].push(internet.time());
    }
}

/// Servers that send without end.
async fn serve(internet: Arc<Internet>) {
    let mut listener = internet.listen(SERVER).expect("one server");
    while let Some(server) = listener.recv().await {
        tokio::spawn(async move { while server.write(&[7; 8192]).await.is_ok() {} });
    }
}

/// The longest time without an arrival among these, which are sorted, after the death.
fn silence(arrivals: &[Duration]) -> Duration {
    let death = Duration::from_secs(DEATH);
    let after = arrivals.windows(2).filter(|pair| pair[1] > death);
    after
        .map(|pair| pair[1] - pair[0])
        .max()
        .unwrap_or_default()
}

#[test]
fn downloads_continue_when_the_faster_of_two_links_dies() {
    let arrivals: Arrivals = Arc::new(Mutex::new(vec![Vec::new(); DOWNLOADS]));
    let noted = arrivals.clone();
    random::seeded(1, || {
        virtual_runtime().block_on(async move {
            let links = links().into_iter().enumerate();
            let links = links.map(|(i, link)| (path_address(i), link)).collect();
            let internet = Internet::new(links, 1);
            let mut gateways = Gateways::start(&internet).await;
            tokio::spawn(serve(internet.clone()));
            let mut downloads = JoinSet::new();
            for i in 0..DOWNLOADS {
                downloads.spawn(download(internet.clone(), i, noted.clone()));
            }
            sleep(Duration::from_secs(DEATH + 6)).await;
            gateways.end(Which::Near).await;
            gateways.end(Which::Far).await;
        });
    });
    let arrivals = arrivals.lock().expect("no panic");
    let mut all = arrivals.concat();
    all.sort();
    println!("silence of all: {:?}", silence(&all));
    for (i, own) in arrivals.iter().enumerate() {
        println!("silence of download {i}: {:?}", silence(own));
        // Until two seconds before the end.
        assert!(own.last() > Some(&Duration::from_secs(DEATH + 4)));
    }
}
