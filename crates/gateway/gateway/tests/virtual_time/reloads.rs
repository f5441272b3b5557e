//! A sequence of files that running gateways read ends as a start with the last one.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anabranch_net::{LinkConfig, MILLISECOND};
use proptest::prelude::*;
use tokio::time::{sleep, timeout};

use super::ends::SERVER;
use super::gateways::{Gateways, far_config, near_config};
use super::host::path_address;
use super::internet::Internet;
use super::plan::Which;
use super::{random, virtual_runtime};

/// Listeners that near may have.
const LISTENERS: [&str; 3] = ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"];

/// Files of near.
const NEAR: &[&str] = &[
    "forwards = []",
    "forwards = [{ listen = '127.0.0.1:1', to = '203.0.113.1:80' }]",
    "forwards = [{ listen = '127.0.0.1:2', to = '203.0.113.1:80' },
                 { listen = '127.0.0.1:1', to = '203.0.113.2:80' }]",
    "forwards = [{ listen = '127.0.0.1:3', to = '203.0.113.1:80' }]
     rules = [{ to = '203.0.113.0/24', via = 'refused' }]",
    "forwards = [{ listen = '127.0.0.1:1', to = '203.0.113.1:80' }]
     limits = { connections = 0 }",
    "forwards = [{ listen = '127.0.0.1:2', to = '203.0.113.1:80' }]
     rules = [{ to = '203.0.113.1', via = 'path:path1' }]",
];

/// Files of far.
const FAR: &[&str] = &[
    "",
    "allow = []",
    "allow = ['203.0.113.2']",
    "allow = ['203.0.113.0/24']",
    "limits.connections = 0",
    "limits.buffer_bytes = 5000",
];

/// Result for a client of each listener: no listener, a reset, or the server's byte.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Refused,
    Reset,
    Byte,
}

async fn seen(internet: &Internet, listener: &str) -> Seen {
    let listener = listener.parse().expect("an address");
    let Some(client) = internet.connect(Ipv4Addr::LOCALHOST.into(), listener) else {
        return Seen::Refused;
    };
    let mut byte = [0];
    let read = timeout(Duration::from_secs(30), client.read(&mut byte));
    match read.await.expect("in time") {
        Ok(1) => Seen::Byte,
        Ok(_) => panic!("an end without the byte"),
        Err(_) => Seen::Reset,
    }
}

/// A server that sends a byte to each client.
async fn serve(internet: Arc<Internet>) {
    let mut listener = internet.listen(SERVER).expect("one server");
    while let Some(server) = listener.recv().await {
        tokio::spawn(async move {
            let sent = server.write(b"a").await;
            // Until near resets or ends it.
            let _ = (sent, server.read(&mut [0]).await);
        });
    }
}

/// Starts with the first of the files and reads the others. Returns what clients then see, and the
/// addresses on which near listens.
async fn after(files: &[(usize, usize)]) -> (Vec<Seen>, Vec<(String, SocketAddr)>) {
    let link = LinkConfig::constant(1e7, 5 * MILLISECOND);
    let links = (0..2).map(|i| (path_address(i), link.clone()));
    let internet = Internet::new(links.collect(), 1);
    tokio::spawn(serve(internet.clone()));
    let (near, far) = (
        |i: usize| NEAR[i % NEAR.len()],
        |i: usize| FAR[i % FAR.len()],
    );
    let (first, later) = files.split_first().expect("a file");
    let configs = (near_config(near(first.0)), far_config(far(first.1)));
    let mut gateways = Gateways::with(&internet, configs.0, configs.1).await;
    for file in later {
        gateways.reload(Which::Near, near(file.0)).await;
        gateways.reload(Which::Far, far(file.1)).await;
        // Some before there is a tunnel, some with connections.
        sleep(Duration::from_millis(40)).await;
        let _client = internet.connect(
            Ipv4Addr::LOCALHOST.into(),
            LISTENERS[0].parse().expect("an address"),
        );
    }
    sleep(Duration::from_secs(2)).await;
    let mut all = Vec::new();
    for listener in LISTENERS {
        all.push(seen(&internet, listener).await);
    }
    let near = &gateways.near.as_ref().expect("it runs").gateway;
    let mut addresses = near.addresses().await;
    addresses.sort();
    gateways.end(Which::Near).await;
    gateways.end(Which::Far).await;
    (all, addresses)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn reloads_of_running_gateways_end_as_a_start_with_the_last_files(
        files in prop::collection::vec((0_usize..6, 0_usize..6), 2..6),
    ) {
        let after = |files: &[(usize, usize)]| {
            random::seeded(1, || virtual_runtime().block_on(after(files)))
        };
        prop_assert_eq!(after(&files), after(&files[files.len() - 1..]));
    }
}
