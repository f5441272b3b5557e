//! Names: of destinations, at a DNS server that answers as the name says, and of far.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};
use tokio::time::timeout;

use super::harness::*;
use super::udp::{associate, datagram, echo as udp_echo, receive};

/// Longer than a name with an answer takes on a loaded host, shorter than one without.
const SOON: Duration = Duration::from_secs(3);

/// A DNS server for 127.0.0.1: it answers `good...` with its address and `none...` with NXDOMAIN,
/// and nothing else. Counts the queries.
async fn server() -> (SocketAddr, Arc<AtomicUsize>) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    let address = socket.local_addr().expect("bound");
    let queries = Arc::<AtomicUsize>::default();
    let counted = queries.clone();
    tokio::spawn(async move {
        let mut buffer = [0; 512];
        while let Ok((n, from)) = socket.recv_from(&mut buffer).await {
            counted.fetch_add(1, Ordering::Relaxed);
            if let Some(answer) = answer(&buffer[..n]) {
                let _ = socket.send_to(&answer, from).await;
            }
        }
    });
    (address, queries)
}

fn answer(query: &[u8]) -> Option<Vec<u8>> {
    let name_end = 12 + query[12..].iter().position(|byte| *byte == 0)?;
    let mut answer = query[..name_end + 5].to_vec();
    answer[2] |= 0x80;
    // Without the OPT record.
    answer[11] = 0;
    let is_a = query[name_end + 2] == 1;
    match &query[13..17] {
        b"good" if is_a => {
            answer[7] = 1;
            // A pointer to the question's name, type A, class IN, 300 s, four bytes.
            answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 44, 0, 4, 127, 0, 0, 1]);
        }
        b"good" => {}
        b"none" => answer[3] = 3,
        _ => return None,
    }
    Some(answer)
}

/// A pair of which far asks this server.
async fn pair(carrier: &str, server: SocketAddr) -> Pair {
    Pair::far_with(carrier, &format!("resolver = \"{server}\"")).await
}

/// A connection by name for a client with this address.
async fn connect(pair: &Pair, client: &str, name: &str, port: u16) -> Result<TcpStream, u8> {
    let socket = from(client, pair.at("socks").await).await;
    asked(socket.expect("near listens"), &named(name), port).await
}

/// A request for a name of which nobody reads the answer.
async fn ask(pair: &Pair, name: &str) -> TcpStream {
    let mut socket = pair.dial("socks").await;
    let request = [&[5, 1, 0, 5, 1, 0], &*named(name), &[0, 80]].concat();
    socket.write_all(&request).await.expect("sent");
    socket
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

#[test]
fn names_without_an_answer_delay_no_other_client_and_take_no_threads() {
    each_carrier(async |carrier| {
        let (server, _) = server().await;
        let pair = pair(carrier, server).await;
        let to = echo().await;
        let threads_before = threads();
        let mut silent = Vec::new();
        for i in 0..400 {
            silent.push(ask(&pair, &format!("slow{i}.test")).await);
        }
        reaches(&pair.far_counters.accepted_stream, 400).await;
        for i in 0..6 {
            let name = format!("good{i}.test");
            let connected = connect(&pair, "127.0.0.5", &name, to.port());
            let connected = timeout(SOON, connected).await.expect("soon");
            exchange(&mut connected.expect(&name), "hello").await;
        }
        // Other tests of this process have threads, too, but not hundreds.
        let started = threads().saturating_sub(threads_before);
        assert!(started < 200, "{started} threads");
        pair.close().await;
    });
}

#[test]
fn an_answer_is_remembered_also_that_there_is_none() {
    each_carrier(async |carrier| {
        let (server, queries) = server().await;
        let pair = pair(carrier, server).await;
        let to = echo().await;
        for (name, result) in [("good.test", None), ("none.test", Some(4))] {
            let connected = pair.connect_name(name, to.port()).await;
            assert_eq!(connected.err(), result, "{name}");
            let before = queries.load(Ordering::Relaxed);
            let connected = pair.connect_name(name, to.port()).await;
            assert_eq!(connected.err(), result, "{name}");
            assert_eq!(queries.load(Ordering::Relaxed), before, "{name}");
        }
        pair.close().await;
    });
}

#[test]
fn a_new_resolver_counts_at_once() {
    each_carrier(async |carrier| {
        let silent = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
        let pair = pair(carrier, silent.local_addr().expect("bound")).await;
        let to = echo().await;
        let without_answer = ask(&pair, "good.test").await;
        let accepted = &pair.far_counters.accepted_stream;
        reaches(accepted, 1).await;
        let mut config = pair.far_config.clone();
        config.resolver = Some(server().await.0);
        assert_eq!(pair.far().apply(config.clone()).await.0, config);
        let connected = timeout(SOON, pair.connect_name("good.test", to.port()));
        assert!(connected.await.expect("soon").is_ok());
        drop(without_answer);
        pair.close().await;
    });
}

fn datagram_to(name: &str, port: u16, payload: &[u8]) -> Vec<u8> {
    [&[0, 0, 0], &*named(name), &port.to_be_bytes(), payload].concat()
}

#[test]
fn datagrams_to_names_without_an_answer_delay_no_others_of_their_association() {
    each_carrier(async |carrier| {
        let (server, _) = server().await;
        let pair = pair(carrier, server).await;
        let to = udp_echo().await;
        let (_control, socket) = associate(&pair).await;
        let send = async |sent: &[u8]| {
            socket.send(sent).await.expect("sent");
        };
        for i in 0..3 {
            send(&datagram_to(&format!("slow{i}.test"), 80, b"x")).await;
        }
        let by_address = datagram(to, b"by address");
        send(&by_address).await;
        let received = timeout(SOON, receive(&socket)).await;
        assert_eq!(received.expect("soon"), by_address);
        // More than an association may have unresolved, and than may wait for a name.
        for i in 0..100 {
            send(&datagram_to(&format!("slow{i}.test"), 80, b"x")).await;
            send(&datagram_to("slow0.test", 80, &[0; 1000])).await;
        }
        let dropped = &pair.far_counters.dropped_full;
        until("some are dropped", async || dropped.value() > 100).await;
        for sent in [
            &by_address,
            &datagram_to("good.test", to.port(), b"by address"),
        ] {
            send(sent).await;
            let received = timeout(SOON, receive(&socket)).await;
            assert_eq!(received.expect("soon"), by_address);
        }
        pair.close().await;
    });
}

#[test]
fn datagrams_wait_for_the_address_of_their_name() {
    each_carrier(async |carrier| {
        let (server, _) = server().await;
        let pair = pair(carrier, server).await;
        let to = udp_echo().await;
        let (_control, socket) = associate(&pair).await;
        for text in ["one", "two"] {
            let sent = datagram_to("good.test", to.port(), text.as_bytes());
            socket.send(&sent).await.expect("sent");
        }
        for text in ["one", "two"] {
            assert_eq!(receive(&socket).await, datagram(to, text.as_bytes()));
        }
        let none = datagram_to("none.test", to.port(), b"x");
        socket.send(&none).await.expect("sent");
        let dropped = &pair.far_counters.dropped_unsendable;
        reaches(dropped, 1).await;
        pair.close().await;
    });
}

/// Sockets at this port of ::1 that answer neither UDP nor TCP.
async fn dead(port: u16) -> (UdpSocket, TcpListener, Vec<TcpStream>) {
    let address = SocketAddr::new(Ipv6Addr::LOCALHOST.into(), port);
    let udp = UdpSocket::bind(address).await.expect("a port");
    let tcp = TcpSocket::new_v6().expect("a socket");
    tcp.bind(address).expect("the same port");
    let listener = tcp.listen(1).expect("listens");
    let mut queue = Vec::new();
    // Once the queue is full the kernel drops further SYNs.
    let patience = Duration::from_millis(200);
    while let Ok(connected) = timeout(patience, TcpStream::connect(address)).await {
        queue.push(connected.expect("connected"));
    }
    (udp, listener, queue)
}

#[test]
fn one_of_far_s_addresses_suffices() {
    each_carrier(async |carrier| {
        let path = "paths = [{ name = \"a\", interface = \"lo\" }]";
        let pair = Pair::near_with(carrier, path).await;
        let listen = pair.far_config.listen;
        assert_eq!(listen.ip(), IpAddr::from(Ipv4Addr::LOCALHOST));
        let _dead = dead(listen.port()).await;
        let mut config = pair.near_config.clone();
        // Both ::1 and 127.0.0.1.
        config.far = format!("far.localhost:{}", listen.port());
        let near = pair.another_near(config).await;
        let established = async || !near.tunnels().is_empty();
        until("a tunnel by the other address", established).await;
        near.close_all().await;
        pair.close().await;
    });
}
