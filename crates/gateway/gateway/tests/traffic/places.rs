//! Places of clients: one at its limit stops no other, nor its own DNS.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::boundaries::own_address;
use super::harness::*;

/// A connection by SOCKS5 from this address; `None` if it is reset or refused.
async fn connect_from(address: &str, socks: SocketAddr, to: SocketAddr) -> Option<TcpStream> {
    let mut socket = from(address, socks).await.ok()?;
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
fn a_client_at_its_limit_stops_no_other_and_loopback_is_one_client() {
    each_carrier(async |carrier| {
        let Some(own) = own_address() else {
            eprintln!("skipped: this host has loopback only");
            return;
        };
        let near = format!(
            "limits.connections = 16\n[socks]\nlisten = \"0.0.0.0:0\"\nclients = [\"{own}/32\"]"
        );
        let pair = Pair::near_with(carrier, &near).await;
        let port = pair.at("socks").await.port();
        let echo = echo().await;
        let loopback = SocketAddr::from(([127, 0, 0, 1], port));
        let taken = take_all(&["127.0.0.1", "127.0.0.2", "127.1.2.3"], loopback, echo).await;
        let other = connect_from(&own.to_string(), (own, port).into(), echo).await;
        let mut other = other.unwrap_or_else(|| panic!("{} places of one client", taken.len()));
        exchange(&mut other, "another client").await;
        assert_eq!(taken.len(), 4, "a quarter");
        pair.close().await;
    });
}

/// A resolver that returns each query as its answer.
async fn resolver() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    let address = socket.local_addr().expect("bound");
    tokio::spawn(async move {
        let mut buffer = [0; 600];
        while let Ok((n, from)) = socket.recv_from(&mut buffer).await {
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
