//! UDP associations of SOCKS5.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anabranch_gateway::carrier::{Condition, PathState, Tunnel};
use anabranch_gateway::near::{Near, TunnelId};
use parking_lot::Mutex;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{AsyncReadExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::watch;
use tokio::time::timeout;

use super::harness::*;

/// A server that returns datagrams.
pub async fn echo() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    let address = socket.local_addr().expect("bound");
    tokio::spawn(async move {
        let mut buffer = vec![0; 1 << 16];
        while let Ok((n, from)) = socket.recv_from(&mut buffer).await {
            let _ = socket.send_to(&buffer[..n], from).await;
        }
    });
    address
}

/// The control connection and a socket that is connected to the association.
pub async fn associate(pair: &Pair) -> (TcpStream, UdpSocket) {
    let (control, at) = associate_from(pair, 0).await;
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    socket.connect(at).await.expect("connected");
    (control, socket)
}

/// The control connection of a client that names this port, and the association's address.
pub async fn associate_from(pair: &Pair, port: u16) -> (TcpStream, SocketAddr) {
    let mut control = pair.dial("socks").await;
    let at = request(&mut control, 3, &[1, 0, 0, 0, 0], port).await;
    (control, at.expect("associated"))
}

pub fn datagram(to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let SocketAddr::V4(to) = to else {
        panic!("IPv4")
    };
    let mut bytes = vec![0, 0, 0, 1];
    bytes.extend(to.ip().octets());
    bytes.extend(to.port().to_be_bytes());
    bytes.extend(payload);
    bytes
}

pub async fn receive(socket: &UdpSocket) -> Vec<u8> {
    let mut buffer = vec![0; 1 << 16];
    let received = timeout(PATIENCE, socket.recv(&mut buffer))
        .await
        .expect("in time");
    buffer.truncate(received.expect("received"));
    buffer
}

#[test]
fn datagrams_of_every_size_there_and_back() {
    each_carrier(async |carrier| {
        let pair = Pair::start(carrier).await;
        let echo = echo().await;
        let (control, socket) = associate(&pair).await;
        for size in [0, 1, 100, 1200, 1400, 9_000, 65_000] {
            let sent = datagram(echo, &vec![size as u8; size]);
            socket.send(&sent).await.expect("sent");
            // The answer's origin is where the datagram went.
            assert_eq!(receive(&socket).await, sent, "{size}");
        }
        let mut by_name = vec![0, 0, 0, 3, 9];
        by_name.extend(b"localhost");
        by_name.extend(echo.port().to_be_bytes());
        by_name.extend(b"by name");
        socket.send(&by_name).await.expect("sent");
        // "localhost" may be ::1, where nobody listens.
        let _ = timeout(Duration::from_millis(300), receive(&socket)).await;
        // Multipath TCP carries datagrams of any size.
        let in_streams = pair.near_counters.datagrams_in_streams.value();
        assert!(if carrier == "quic" {
            in_streams >= 2
        } else {
            in_streams == 0
        });
        assert!(pair.near_counters.datagrams_up.value() >= 7);
        assert_eq!(pair.far_counters.active_associations.value(), 1);
        drop(control);
        reaches(&pair.far_counters.active_associations, 0).await;
        assert_eq!(pair.near_counters.active_associations.value(), 0);
        pair.close().await;
    });
}

#[test]
fn malformed_and_refused_datagrams_are_dropped_and_counted() {
    each_carrier(async |carrier| {
        let pair = Pair::near_with(carrier, "rules = [{ to = \"*:9\", via = \"refused\" }]").await;
        let echo = echo().await;
        let (_control, socket) = associate(&pair).await;
        let mut fragment = datagram(echo, b"fragment");
        fragment[2] = 1;
        let garbage: [&[u8]; 6] = [
            b"",
            b"\0",
            b"\0\0\0",
            b"\0\0\0\x01\x7f",
            b"\x05\0\0\x01",
            &fragment,
        ];
        for bytes in garbage {
            socket.send(bytes).await.expect("sent");
        }
        let counters = &pair.near_counters;
        reaches(&counters.dropped_malformed, 6).await;
        // A rule of near, the allow-list of far, a port of zero.
        for to in ["127.0.0.1:9", "8.8.8.8:53", "127.0.0.1:0"] {
            socket
                .send(&datagram(to.parse().expect("an address"), b"x"))
                .await
                .expect("sent");
        }
        reaches(&counters.dropped_destination, 2).await;
        reaches(&pair.far_counters.dropped_destination, 1).await;
        let sent = datagram(echo, b"well");
        socket.send(&sent).await.expect("sent");
        assert_eq!(receive(&socket).await, sent);
        // An association whose client has named its port.
        let named = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
        let port = named.local_addr().expect("bound").port();
        let (_control, at) = associate_from(&pair, port).await;
        named.send_to(&sent, at).await.expect("sent");
        assert_eq!(receive(&named).await, sent);
        let other = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
        other.send_to(&sent, at).await.expect("sent");
        reaches(&counters.dropped_client, 1).await;
        // One whose client has named the port of the destination, as some do.
        let (_control, at) = associate_from(&pair, echo.port()).await;
        other.send_to(&sent, at).await.expect("sent");
        assert_eq!(receive(&other).await, sent);
        pair.close().await;
    });
}

#[test]
fn an_association_outlives_its_tunnel() {
    each_carrier(async |carrier| {
        let mut pair = Pair::start(carrier).await;
        let echo = echo().await;
        let (_control, socket) = associate(&pair).await;
        let sent = datagram(echo, b"before");
        socket.send(&sent).await.expect("sent");
        assert_eq!(receive(&socket).await, sent);
        pair.stop_far().await;
        pair.start_far().await;
        until("it works again", async || {
            socket.send(&sent).await.expect("sent");
            let mut buffer = [0; 100];
            timeout(Duration::from_millis(200), socket.recv(&mut buffer))
                .await
                .is_ok()
        })
        .await;
        pair.close().await;
    });
}

#[test]
fn datagrams_go_directly_where_the_rules_say() {
    each_carrier(async |carrier| {
        let pair = Pair::near_with(
            carrier,
            "rules = [{ to = \"127.0.0.1\", via = \"direct\" }]",
        )
        .await;
        let (mut control, socket) = associate(&pair).await;
        let sent = datagram(echo().await, b"direct");
        socket.send(&sent).await.expect("sent");
        assert_eq!(receive(&socket).await, sent);
        assert_eq!(pair.far_counters.accepted_stream.value(), 0);
        pair.near.close_all().await;
        assert!(control.read(&mut [0]).await.is_err());
        pair.close().await;
    });
}

/// Sends 300 datagrams through an association, each of which is returned.
async fn send_300(pair: &Pair) {
    let echo = echo().await;
    let (_control, socket) = associate(pair).await;
    for number in 0..300_u32 {
        let sent = datagram(echo, &number.to_be_bytes());
        socket.send(&sent).await.expect("sent");
        assert_eq!(receive(&socket).await, sent);
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

/// Packets that tunnels over one path carry while an association sends 300 datagrams; `paths` are
/// `count` paths.
async fn carried_by_one_path(carrier: &str, paths: &str, count: usize) -> u64 {
    let pair = Pair::near_with(carrier, paths).await;
    let all_up = async || {
        let tunnels = pair.near.tunnels();
        let up = |path: &PathState| path.condition == Condition::Up;
        tunnels.iter().any(|(id, tunnel)| {
            *id == TunnelId::All && tunnel.paths().iter().filter(|path| up(path)).count() == count
        })
    };
    until("the paths are up", all_up).await;
    send_300(&pair).await;
    let tunnels = pair.near.tunnels();
    let over_one = tunnels.iter().filter(|(id, _)| *id != TunnelId::All);
    let paths = over_one.flat_map(|(_, tunnel)| tunnel.paths());
    let sent = paths.map(|path| path.sent_packets).sum();
    pair.close().await;
    sent
}

const TWO_PATHS: &str = "paths = [
    { name = \"a\", address = \"127.0.0.2\" },
    { name = \"b\", address = \"127.0.0.3\" },
]\n";
const ONE_PATH: &str = "paths = [{ name = \"a\", address = \"127.0.0.2\" }]\n";

#[tokio::test(flavor = "multi_thread")]
async fn datagrams_take_one_path_unless_its_rate_is_limited() {
    assert!(carried_by_one_path("quic", TWO_PATHS, 2).await > 150);
    // Both are limited, because chance decides which one is faster.
    let limited = "paths = [
        { name = \"a\", address = \"127.0.0.2\", rate_mbps = 100 },
        { name = \"b\", address = \"127.0.0.3\", rate_mbps = 100 },
    ]\n";
    assert_eq!(carried_by_one_path("quic", limited, 2).await, 0);
    assert_eq!(carried_by_one_path("quic", ONE_PATH, 1).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn datagrams_of_the_carrier_mptcp_go_over_quic() {
    let pair = Pair::start("mptcp").await;
    until("it is established before an association", async || {
        let mut ids = pair.near.tunnels().into_iter().map(|(id, _)| id);
        ids.any(|id| id == TunnelId::Datagrams("a".to_owned()))
    })
    .await;
    pair.close().await;
    assert!(carried_by_one_path("mptcp", ONE_PATH, 1).await > 150);
}

/// The sender's address as an echo server sees it; it changes if far's socket does.
async fn address_seen(socket: &UdpSocket, server: SocketAddr) -> Vec<u8> {
    socket.send(&datagram(server, b"?")).await.expect("sent");
    receive(socket).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_association_outlives_either_tunnel_of_its_streams() {
    let server = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    let at = server.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((_, from)) = server.recv_from(&mut [0; 100]).await {
            let _ = server.send_to(from.to_string().as_bytes(), from).await;
        }
    });
    for ended in [TunnelId::All, TunnelId::Datagrams("a".to_owned())] {
        let pair = Pair::start("mptcp").await;
        until("both are established", async || {
            pair.near.tunnels().len() == 2
        })
        .await;
        let (_control, socket) = associate(&pair).await;
        let before = address_seen(&socket, at).await;
        // Both streams are served.
        reaches(&pair.far_counters.active_connections, 2).await;
        let tunnels = pair.near.tunnels();
        let tunnel = tunnels.iter().find(|(id, _)| *id == ended);
        tunnel.expect("established").1.close("the test");
        reaches(&pair.far_counters.tunnels_closed, 1).await;
        assert_eq!(address_seen(&socket, at).await, before, "{ended}");
        pair.close().await;
    }
}

/// A relay that carries Multipath TCP to `far`, and nothing else.
async fn tcp_alone(far: SocketAddr) -> SocketAddr {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)).expect("a socket");
    socket.set_nonblocking(true).expect("set");
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    socket.bind(&loopback.into()).expect("a port");
    socket.listen(16).expect("listens");
    let listener = TcpListener::from_std(socket.into()).expect("a socket");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((mut one, _)) = listener.accept().await {
            let mut other = TcpStream::connect(far).await.expect("far listens");
            tokio::spawn(async move { copy_bidirectional(&mut one, &mut other).await });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn datagrams_of_the_carrier_mptcp_arrive_where_udp_is_blocked() {
    let mut pair = Pair::start("mptcp").await;
    let mut config = pair.near_config.clone();
    config.far = tcp_alone(pair.far_config.listen).await.to_string();
    let identity = pair.near_identity.clone();
    let near = Near::start(config, identity, pair.near_counters.clone()).await;
    pair.near = near.expect("near starts");
    send_300(&pair).await;
    let ids = pair.near.tunnels().into_iter().map(|(id, _)| id);
    assert_eq!(ids.collect::<Vec<_>>(), [TunnelId::All]);
    pair.close().await;
}

/// A relay of TCP and UDP to `far`, which loses the datagrams of one address once it is told.
async fn lossy(far: SocketAddr) -> (SocketAddr, watch::Sender<Option<IpAddr>>) {
    let address = tcp_alone(far).await;
    let near = Arc::new(UdpSocket::bind(address).await.expect("the port is free"));
    let (lost, loses) = watch::channel(None);
    tokio::spawn(async move {
        let mut clients = HashMap::new();
        let mut buffer = [0; 1 << 16];
        while let Ok((n, from)) = near.recv_from(&mut buffer).await {
            let socket = match clients.entry(from) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
                    socket.connect(far).await.expect("connected");
                    let socket = Arc::new(socket);
                    tokio::spawn(send_back(socket.clone(), near.clone(), from));
                    new.insert(socket)
                }
            };
            if *loses.borrow() != Some(from.ip()) {
                let _ = socket.send(&buffer[..n]).await;
            }
        }
    });
    (address, lost)
}

async fn send_back(from: Arc<UdpSocket>, near: Arc<UdpSocket>, to: SocketAddr) {
    let mut buffer = [0; 1 << 16];
    loop {
        if let Ok(n) = from.recv(&mut buffer).await {
            let _ = near.send_to(&buffer[..n], to).await;
        }
    }
}

/// Packets that each tunnel over one path has sent.
fn sent_over_one(pair: &Pair) -> HashMap<String, u64> {
    let tunnels = pair.near.tunnels().into_iter();
    let over_one = tunnels.filter(|(id, _)| *id != TunnelId::All);
    let path = |(_, tunnel): (TunnelId, Tunnel)| tunnel.paths().remove(0);
    let paths = over_one
        .map(path)
        .map(|path| (path.name, path.sent_packets));
    paths.collect()
}

#[test]
fn datagrams_leave_a_path_that_has_died_while_nothing_else_is_sent() {
    each_carrier(async |carrier| {
        let mut pair = Pair::near_with(carrier, TWO_PATHS).await;
        let mut config = pair.near_config.clone();
        let (far, lost) = lossy(pair.far_config.listen).await;
        config.far = far.to_string();
        let identity = pair.near_identity.clone();
        let near = Near::start(config, identity, pair.near_counters.clone()).await;
        pair.near = near.expect("near starts");
        let echo = echo().await;
        let (_control, socket) = associate(&pair).await;
        let name = Mutex::default();
        until("datagrams take the tunnel over one path", async || {
            let before = sent_over_one(&pair);
            for _ in 0..10 {
                until_answered(&socket, &datagram(echo, b"before")).await;
            }
            let after = sent_over_one(&pair).into_iter();
            let took = after.filter(|(name, sent)| sent - before.get(name).unwrap_or(sent) >= 10);
            *name.lock() = took.map(|(name, _)| name).next();
            name.lock().is_some()
        })
        .await;
        let name: Option<String> = name.into_inner();
        let octet = if name.as_deref() == Some("a") { 2 } else { 3 };
        lost.send_replace(Some([127, 0, 0, octet].into()));
        until_answered(&socket, &datagram(echo, b"after")).await;
        pair.close().await;
    });
}

/// Sends a datagram, and again if it is lost, until it is returned.
async fn until_answered(socket: &UdpSocket, sent: &[u8]) {
    until("answered", async || {
        socket.send(sent).await.expect("sent");
        let answered = async { while receive(socket).await != sent {} };
        timeout(Duration::from_secs(1), answered).await.is_ok()
    })
    .await;
}

#[test]
fn an_association_has_datagrams_for_new_peers_however_many_it_has_had() {
    each_carrier(async |carrier| {
        let pair = Pair::start(carrier).await;
        let (first, last) = (echo().await, echo().await);
        let (_control, socket) = associate(&pair).await;
        for peer in 0..1500_u16 {
            let [high, low] = peer.to_be_bytes();
            let to = SocketAddr::from(([127, 1, high, low], 9));
            socket.send(&datagram(to, b"x")).await.expect("sent");
            if peer % 50 == 49 {
                until_answered(&socket, &datagram(first, &[high, low])).await;
            }
        }
        until_answered(&socket, &datagram(last, b"a new peer")).await;
        assert_eq!(pair.far_counters.dropped_destination.value(), 0);
        pair.close().await;
    });
}

#[test]
fn strangers_who_send_first_do_not_take_the_association_of_a_client() {
    each_carrier(async |carrier| {
        let pair = Pair::start(carrier).await;
        let echo = echo().await;
        let (_control, socket) = associate(&pair).await;
        let at = socket.peer_addr().expect("connected");
        let mut strangers = Vec::new();
        for _ in 0..30 {
            let stranger = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
            let sent = datagram(echo, b"of a stranger");
            stranger.send_to(&sent, at).await.expect("sent");
            strangers.push(stranger);
        }
        until_answered(&socket, &datagram(echo, b"of the client")).await;
        until("at most eight are open", async || {
            pair.far_counters.active_associations.value() <= 8
        })
        .await;
        pair.close().await;
    });
}

#[test]
fn a_forwarded_port_carries_datagrams_of_each_client_to_its_destination() {
    each_carrier(async |carrier| {
        let echo = echo().await;
        // Over [::] a client of IPv4 has an address of IPv6.
        let near = format!(
            "forwards = [
                {{ listen = \"127.0.0.1:0\", to = \"{echo}\", udp = true }},
                {{ listen = \"[::]:0\", to = \"{echo}\", udp = true, clients = [\"::1/128\"] }},
            ]"
        );
        let pair = Pair::near_with(carrier, &near).await;
        let mut clients = Vec::new();
        for key in ["forwards[0]", "forwards[0]", "forwards[1]"] {
            let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
            let at = ("127.0.0.1", pair.at(key).await.port());
            socket.connect(at).await.expect("connected");
            clients.push(socket);
        }
        for size in [0, 1, 1200, 9_000] {
            for (i, socket) in clients.iter().enumerate() {
                let sent = vec![i as u8; size];
                socket.send(&sent).await.expect("sent");
                assert_eq!(receive(socket).await, sent, "{i}: {size}");
            }
        }
        // Each client is one, however many datagrams it sends.
        assert_eq!(pair.near_counters.accepted_forward.value(), 3);
        assert_eq!(pair.far_counters.active_associations.value(), 3);
        pair.close().await;
    });
}
