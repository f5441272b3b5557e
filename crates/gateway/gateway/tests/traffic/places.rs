//! Places of clients: one at its limit stops no other, nor its own DNS.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream, UdpSocket};
use tokio::time::{sleep, timeout};

use super::harness::*;
use super::udp::{associate_from, datagram};

/// Another user of this host.
const OTHER: u32 = 54_321;

/// A connection by SOCKS5 from this address; `None` if it is reset or refused.
async fn connect_from(address: &str, socks: SocketAddr, to: SocketAddr) -> Option<TcpStream> {
    let socket = TcpSocket::new_v4().expect("a socket");
    let address = SocketAddr::new(address.parse().expect("an address"), 0);
    socket.bind(address).expect("an own address");
    connected(socket, socks, to).await
}

/// A connection by SOCKS5 over this socket.
async fn connected(socket: TcpSocket, socks: SocketAddr, to: SocketAddr) -> Option<TcpStream> {
    let mut socket = socket.connect(socks).await.ok()?;
    let bytes = [
        &[5, 1, 0, 5, 1, 0],
        &*host(to.ip()),
        &to.port().to_be_bytes(),
    ]
    .concat();
    let mut reply = [0; 12];
    let exchanged = async {
        socket.write_all(&bytes).await?;
        socket.read_exact(&mut reply).await
    };
    let exchanged = timeout(PATIENCE, exchanged).await.expect("in time");
    (exchanged.is_ok() && reply[3] == 0).then_some(socket)
}

/// Connections from these addresses in turn, until one is refused.
async fn take_all(from: &[&str], socks: SocketAddr, to: SocketAddr) -> Vec<TcpStream> {
    let mut taken = Vec::new();
    for from in from.iter().cycle().take(100) {
        match connect_from(from, socks, to).await {
            Some(socket) => taken.push(socket),
            None => break,
        }
    }
    taken
}

#[test]
fn a_client_at_its_limit_stops_no_other_and_a_user_of_this_host_is_one_client() {
    each_carrier(async |carrier| {
        let pair = Pair::near_with(carrier, "limits.connections = 16\n").await;
        let (socks, echo) = (pair.at("socks").await, echo().await);
        let taken = take_all(&["127.0.0.1", "127.0.0.2", "127.1.2.3"], socks, echo).await;
        assert_eq!(taken.len(), 4, "a quarter");
        let Some(other) = of_user(OTHER) else {
            eprintln!("skipped: only root can be another user");
            return;
        };
        let mut other = connected(other, socks, echo).await.expect("another user");
        exchange(&mut other, "another client").await;
        pair.close().await;
    });
}

/// One association with datagrams from many ports is as many connections to far: each has a place
/// at both ends, so near's limits are reached before far's.
#[test]
fn sockets_of_an_association_take_places_and_the_same_ones_at_both_ends() {
    each_carrier(async |carrier| {
        let pair = Pair::near_with(carrier, "limits.connections = 16\n").await;
        let (_control, at) = associate_from(&pair, 0).await;
        let to = super::udp::echo().await;
        let mut sockets = Vec::new();
        for _ in 0..8 {
            let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
            let sent = datagram(to, b"x");
            until("answered", async || {
                socket.send_to(&sent, at).await.expect("sent");
                let mut answer = [0; 100];
                let answered = timeout(Duration::from_millis(500), socket.recv(&mut answer));
                matches!(answered.await, Ok(Ok(_)))
            })
            .await;
            sockets.push(socket);
        }
        // A client has a quarter of 16: the association and three sockets, those used last.
        until("places", async || {
            (pair.near.active(), pair.far().active()) == (4, 3)
        })
        .await;
        pair.close().await;
    });
}

/// A resolver that returns each query as its answer, but one for `quiet`.
pub async fn resolver() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    let address = socket.local_addr().expect("bound");
    tokio::spawn(async move {
        let mut buffer = [0; 600];
        while let Ok((n, from)) = socket.recv_from(&mut buffer).await {
            if buffer[13..n].starts_with(b"quiet") {
                continue;
            }
            buffer[2] |= 0x80;
            let _ = socket.send_to(&buffer[..n], from).await;
        }
    });
    address
}

/// Whether near answers a query within some seconds.
async fn is_answered(dns: SocketAddr) -> bool {
    let query = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x04name\0\0\x01\0\x01";
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    socket.send_to(query, dns).await.expect("sent");
    let mut answer = [0; 600];
    let answered = timeout(Duration::from_secs(4), socket.recv(&mut answer)).await;
    matches!(answered, Ok(Ok(n)) if n == query.len() && answer[3] & 15 == 0)
}

#[test]
fn dns_is_answered_while_every_connection_is_taken() {
    each_carrier(async |carrier| {
        // At near in the first case, at far in the second.
        for (near, far) in [
            ("connections_per_client = 3", "connections = 100"),
            ("connections = 100", "connections_per_client = 3"),
        ] {
            let near = format!("dns.listen = \"127.0.0.1:0\"\nlimits.{near}");
            let far = format!("resolver = \"{}\"\nlimits.{far}", resolver().await);
            let (near, far) = (&*near, &*far);
            let pair = Pair::with(carrier, Options { near, far }).await;
            let dns = pair.at("dns").await;
            let taken = take_all(&["127.0.0.1"], pair.at("socks").await, echo().await).await;
            assert_eq!(taken.len(), 3, "{near} {far}");
            assert!(is_answered(dns).await, "{near} {far}");
            pair.close().await;
        }
    });
}

/// Anybody in the network may send queries with the address of a client.
#[test]
fn queries_without_an_answer_leave_a_place_for_the_next_one() {
    each_carrier(async |carrier| {
        // Each has 16 places for queries, at near in the first case, at far in the second.
        for (near, far) in [(16, 1000), (1000, 16)] {
            let near =
                format!("dns.listen = \"127.0.0.1:0\"\nlimits.connections_per_client = {near}");
            let resolver = resolver().await;
            let far = format!("resolver = \"{resolver}\"\nlimits.connections_per_client = {far}");
            let (near, far) = (&*near, &*far);
            let pair = Pair::with(carrier, Options { near, far }).await;
            let dns = pair.at("dns").await;
            assert!(is_answered(dns).await, "{near} {far}");
            let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
            for _ in 0..100 {
                let quiet = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x05quiet\0\0\x01\0\x01";
                socket.send_to(quiet, dns).await.expect("sent");
                // As many as 200 a second; a place is a query's for 80 ms then.
                sleep(Duration::from_millis(5)).await;
            }
            assert!(is_answered(dns).await, "{carrier} {near} {far}");
            pair.close().await;
        }
    });
}
