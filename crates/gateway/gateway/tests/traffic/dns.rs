//! DNS over the tunnel, with a resolver that answers as the name says.

use std::net::SocketAddr;
use std::time::Duration;

use anabranch_gateway::config::Peer;
use anabranch_gateway::config::destination::Destinations;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};
use tokio::time::timeout;

use super::harness::*;

/// A query for the address of `label`, with EDNS if `udp_size` is not 0.
fn query(id: u16, label: &str, udp_size: u16) -> Vec<u8> {
    let mut bytes = id.to_be_bytes().to_vec();
    let additional = u8::from(udp_size > 0);
    bytes.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, additional]);
    bytes.push(label.len() as u8);
    bytes.extend(label.bytes());
    bytes.extend([0, 0, 1, 0, 1]);
    if udp_size > 0 {
        bytes.extend([0, 0, 41]);
        bytes.extend(udp_size.to_be_bytes());
        bytes.extend([0; 6]);
    }
    bytes
}

/// OPT record of near's own answers: root, type 41, size 4096, no flags, no options.
const OPT: &[u8] = &[0, 0, 41, 16, 0, 0, 0, 0, 0, 0, 0];

/// The resolver's answer: the query as a response, and for `large` 2000 bytes more.
fn answer(query: &[u8], over_udp: bool) -> Option<Vec<u8>> {
    let mut answer = query.to_vec();
    answer[2] |= 0x80;
    match &query[13..18] {
        b"small" => {}
        b"large" if over_udp => answer[2] |= 2,
        b"large" => answer.extend([9; 2000]),
        _ => return None,
    }
    Some(answer)
}

async fn resolver() -> SocketAddr {
    let address = free_address();
    let tcp = TcpListener::bind(address).await.expect("a port");
    let udp = UdpSocket::bind(address).await.expect("the same port");
    tokio::spawn(async move {
        let mut buffer = [0; 5000];
        while let Ok((n, from)) = udp.recv_from(&mut buffer).await {
            if let Some(answer) = answer(&buffer[..n], true) {
                // A forged answer first: another number.
                let mut forged = answer.clone();
                forged[0] ^= 1;
                let _ = udp.send_to(&forged, from).await;
                let _ = udp.send_to(&answer, from).await;
            }
        }
    });
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = tcp.accept().await {
            let length = socket.read_u16().await.expect("a length");
            let mut query = vec![0; length.into()];
            socket.read_exact(&mut query).await.expect("a query");
            let answer = answer(&query, false).expect("an answer");
            let _ = socket.write_u16(answer.len() as u16).await;
            let _ = socket.write_all(&answer).await;
        }
    });
    address
}

async fn ask(socket: &UdpSocket, query: &[u8]) -> Vec<u8> {
    socket.send(query).await.expect("sent");
    let mut buffer = vec![0; 5000];
    let received = timeout(PATIENCE, socket.recv(&mut buffer))
        .await
        .expect("in time");
    buffer.truncate(received.expect("received"));
    buffer
}

async fn pair(carrier: &str, far: &str) -> (Pair, UdpSocket) {
    let near = format!("dns.listen = \"{}\"", free_address());
    let options = Options { near: &near, far };
    let pair = Pair::with(carrier, options).await;
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    socket
        .connect(pair.at("dns").await)
        .await
        .expect("connected");
    (pair, socket)
}

#[test]
fn queries_are_answered_over_udp_and_tcp() {
    each_carrier(async |carrier| {
        let far = format!("resolver = \"{}\"", resolver().await);
        let (pair, socket) = pair(carrier, &far).await;
        let small = query(0x1234, "small", 0);
        assert_eq!(Some(ask(&socket, &small).await), answer(&small, true));

        // Too large for UDP: far has asked over TCP, and the client is to ask near over TCP.
        for udp_size in [0, 1232] {
            let large = query(7, "large", udp_size);
            let truncated = ask(&socket, &large).await;
            assert_eq!(truncated[..2], large[..2]);
            assert_eq!(truncated[2], 0x80 | 0x02 | 0x01);
            // No records but OPT, if the query has it (RFC 6891, section 6.1.1): root, 41, 4096, 0.
            let has_opt = udp_size > 0;
            assert_eq!(truncated[6..12], [0, 0, 0, 0, 0, has_opt.into()]);
            let opt: &[u8] = if has_opt { OPT } else { &[] };
            assert_eq!(truncated[12 + 7 + 4..], *opt);
        }
        assert_eq!(pair.near_counters.dns_truncated.value(), 2);
        // The client's size counts up to 4096.
        let large = query(7, "large", 4096);
        assert_eq!(Some(ask(&socket, &large).await), answer(&large, false));
        let mut tcp = pair.dial("dns").await;
        for (id, label) in [(8, "large"), (9, "small")] {
            let query = query(id, label, 0);
            tcp.write_u16(query.len() as u16).await.expect("sent");
            tcp.write_all(&query).await.expect("sent");
            let length = tcp.read_u16().await.expect("a length");
            let mut received = vec![0; length.into()];
            tcp.read_exact(&mut received).await.expect("an answer");
            assert_eq!(Some(received), answer(&query, false));
        }
        assert_eq!(pair.far_counters.dns_answered.value(), 6);
        pair.close().await;
    });
}

#[test]
fn a_query_without_an_answer_fails() {
    each_carrier(async |carrier| {
        let far = format!("resolver = \"{}\"", resolver().await);
        for far in [&*far, "", "resolver = \"127.0.0.1:1\""] {
            let (pair, socket) = pair(carrier, far).await;
            let silent = query(3, "quiet", 1232);
            let failed = ask(&socket, &silent).await;
            // Response, recursion desired; recursion available, SERVFAIL; the question.
            assert_eq!(failed[..4], [0, 3, 0x81, 0x82], "{far}");
            assert_eq!(failed[12..12 + 7 + 4], silent[12..12 + 7 + 4], "{far}");
            assert_eq!(failed[12 + 7 + 4..], *OPT, "{far}");
            assert_eq!(pair.near_counters.dns_failed.value(), 1);
            pair.close().await;
        }
    });
}

/// A peer with a list of its own asks for the names of this list alone: data would leave by names.
#[test]
fn the_allow_list_of_a_peer_counts_for_dns() {
    each_carrier(async |carrier| {
        let far = format!("resolver = \"{}\"", resolver().await);
        let (pair, socket) = pair(carrier, &far).await;
        let small = query(5, "small", 0);
        for (allow, code) in [("127.0.0.1:9", 5), ("small:9", 0), ("*.small", 5), ("*", 0)] {
            let mut far = pair.far_config.clone();
            let mut peer = Peer::from(pair.near_key.public().clone());
            peer.allow = Some(Destinations(vec![allow.parse().expect("one")]));
            far.tunnel.peers = vec![peer];
            assert_eq!(pair.far().apply(far.clone()).await.0, far);
            assert_eq!(ask(&socket, &small).await[3] & 15, code, "{allow}");
        }
        pair.close().await;
    });
}

/// The kernel says at once that nobody listens there.
#[tokio::test(flavor = "multi_thread")]
async fn a_resolver_that_does_not_run_costs_no_time() {
    let (pair, socket) = pair("quic", "resolver = \"127.0.0.1:1\"").await;
    ask(&socket, &query(3, "first", 0)).await;
    let start = tokio::time::Instant::now();
    ask(&socket, &query(4, "again", 0)).await;
    let took = start.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
    pair.close().await;
}

#[test]
fn malformed_queries_are_ignored_and_counted() {
    each_carrier(async |carrier| {
        let far = format!("resolver = \"{}\"", resolver().await);
        let (pair, socket) = pair(carrier, &far).await;
        let whole = query(1, "small", 1232);
        let mut response = whole.clone();
        response[2] |= 0x80;
        let mut bad: Vec<Vec<u8>> = (0..whole.len()).map(|end| whole[..end].to_vec()).collect();
        bad.extend([response, vec![0xff; 600], vec![0; 5000]]);
        // Every other opcode, such as 5, UPDATE; two questions; a zone transfer, by AXFR and IXFR.
        for opcode in 1..16 {
            bad.push(whole.clone());
            bad.last_mut().expect("one")[2] |= opcode << 3;
        }
        let question = whole[12..whole.len() - 11].to_vec();
        let mut two = query(1, "small", 0);
        two[5] = 2;
        two.extend(&question);
        bad.push(two);
        for kind in [251, 252] {
            let mut transfer = query(1, "small", 0);
            let at = transfer.len() - 3;
            transfer[at] = kind;
            bad.push(transfer);
        }
        for bytes in &bad {
            socket.send(bytes).await.expect("sent");
        }
        let counted = bad.len() as u64;
        reaches(&pair.near_counters.refused_malformed, counted).await;
        let small = query(5, "small", 0);
        assert_eq!(Some(ask(&socket, &small).await), answer(&small, true));
        // Over TCP the connection ends.
        let mut tcp = pair.dial("dns").await;
        tcp.write_all(&[0, 3, 1, 2, 3]).await.expect("sent");
        assert!(matches!(tcp.read(&mut [0; 9]).await, Ok(0) | Err(_)));
        until("nothing is left", async || pair.near.active() == 0).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(pair.far_counters.dns_answered.value(), 1);
        pair.close().await;
    });
}
