//! Rules and allow-lists as boundaries: other spellings of an address, names that resolve to it,
//! and the addresses of the gateways themselves.

use std::net::{IpAddr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};

use super::harness::*;

/// Names that the system resolves to this host.
const SPELLINGS: [&str; 14] = [
    "127.1",
    "127.1.",
    "127.0.1",
    "0x7f.1",
    "0X7F.0.0.1",
    "0x7f000001",
    "2130706433",
    "017700000001",
    "0177.1",
    "127.0.0.01",
    "127.0.0.1.",
    "0",
    "0x",
    "localhost",
];

/// Code of the reply to a request by name; 0xff if there is none.
async fn code(pair: &Pair, name: &str, port: u16) -> u8 {
    let mut socket = pair.dial("socks").await;
    let request = [&[5, 1, 0, 5, 1, 0], &*named(name), &port.to_be_bytes()].concat();
    socket.write_all(&request).await.expect("sent");
    let mut reply = [0xff; 4];
    let _ = socket.read_exact(&mut reply).await;
    reply[3]
}

/// The own address that is not loopback, if there is one: without packets, by asking for a route.
pub fn own_address() -> Option<IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback()).then_some(address)
}

/// A server at every address of this host.
async fn server() -> (TcpListener, u16) {
    let listener = TcpListener::bind("0.0.0.0:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    (listener, port)
}

#[test]
fn a_refused_network_is_reached_by_no_spelling_of_its_addresses() {
    each_carrier(async |carrier| {
        let (_listener, port) = server().await;
        let refused = "rules = [
            { to = \"127.0.0.0/8\", via = \"refused\" },
            { to = \"*\", via = \"direct\" },
        ]";
        for near in [refused, "rules = [{ to = \"*\", via = \"direct\" }]", ""] {
            let pair = Pair::with(
                carrier,
                Options {
                    near,
                    far: "allow = [\"*\"]",
                },
            )
            .await;
            let mut reached = Vec::new();
            for name in SPELLINGS {
                if code(&pair, name, port).await == 0 {
                    reached.push(name);
                }
            }
            assert_eq!(reached, Vec::<&str>::new(), "{near}");
            pair.close().await;
        }
    });
}

#[test]
fn a_network_that_near_refuses_is_not_reached_by_a_name_that_far_resolves() {
    each_carrier(async |carrier| {
        let port = echo().await.port();
        for (rules, expected) in [
            // Where /etc/hosts has no localhost, ::1 is an address of it, too (RFC 6761).
            (
                "{ to = \"127.0.0.0/8\", via = \"refused\" }, { to = \"::1\", via = \"refused\" }",
                2,
            ),
            ("{ to = \"0.0.0.0/0:1-1\", via = \"refused\" }", 0),
            (
                "{ to = \"127.0.0.1\", via = \"refused\" }, { to = \"::1\", via = \"refused\" }, \
                 { to = \"*\", via = \"path:a\" }",
                2,
            ),
            (
                "{ to = \"localhost\", via = \"tunnel\" }, { to = \"0.0.0.0/0\", via = \"refused\" }",
                0,
            ),
        ] {
            let pair = Pair::near_with(carrier, &format!("rules = [{rules}]")).await;
            assert_eq!(code(&pair, "localhost", port).await, expected, "{rules}");
            if expected == 2 {
                let (_control, socket) = super::udp::associate(&pair).await;
                socket
                    .send(&to_name("localhost", port))
                    .await
                    .expect("sent");
                let dropped = &pair.near_counters.dropped_destination;
                reaches(dropped, 1).await;
            }
            pair.close().await;
        }
    });
}

/// A datagram of SOCKS5.
fn to_name(name: &str, port: u16) -> Vec<u8> {
    [&[0, 0, 0], &*named(name), &port.to_be_bytes(), b"hello"].concat()
}

#[test]
fn direct_reaches_this_host_and_private_networks_only_where_a_rule_names_them() {
    each_carrier(async |carrier| {
        let (_listener, port) = server().await;
        let any = Pair::near_with(carrier, "rules = [{ to = \"*\", via = \"direct\" }]").await;
        let mut own: Vec<IpAddr> = vec![[127, 0, 0, 1].into(), [0, 0, 0, 0].into()];
        own.extend(own_address());
        for address in &own {
            let connected = any.connect((*address, port).into()).await;
            assert_eq!(connected.err(), Some(2), "{address}");
        }
        assert_eq!(any.near_counters.refused_rule.value(), own.len() as u64);
        assert_eq!(any.near_counters.relayed_direct.value(), 0);
        any.close().await;
        let loopback = "rules = [{ to = \"127.0.0.0/8\", via = \"direct\" }]";
        let named = Pair::near_with(carrier, loopback).await;
        exchange(
            &mut named.connect(echo().await).await.expect("named"),
            "named",
        )
        .await;
        named.close().await;
        if let Some(own) = own_address() {
            // An own address in a network is reached only if it is the network.
            for (to, expected) in [("0.0.0.0/0".to_owned(), Some(2)), (own.to_string(), None)] {
                let rules = format!("rules = [{{ to = \"{to}\", via = \"direct\" }}]");
                let pair = Pair::near_with(carrier, &rules).await;
                let connected = pair.connect((own, port).into()).await;
                assert_eq!(connected.err(), expected, "{to}");
                pair.close().await;
            }
        }
    });
}

#[test]
fn datagrams_are_bound_by_the_same_rules() {
    each_carrier(async |carrier| {
        let server = UdpSocket::bind("0.0.0.0:0").await.expect("a port");
        let port = server.local_addr().expect("bound").port();
        let pair = Pair::near_with(carrier, "rules = [{ to = \"*\", via = \"direct\" }]").await;
        let (_control, socket) = super::udp::associate(&pair).await;
        let mut sent = 0;
        let own = own_address().map(|own| own.to_string());
        let names = ["127.0.0.1", "localhost"].map(str::to_owned);
        for name in names.into_iter().chain(own) {
            socket.send(&to_name(&name, port)).await.expect("sent");
            sent += 1;
        }
        let counters = &pair.near_counters;
        reaches(&counters.dropped_destination, sent).await;
        let received = server.try_recv(&mut [0; 10]);
        assert!(received.is_err(), "{received:?}");
        pair.close().await;
    });
}

#[test]
fn a_name_in_the_allow_list_leads_to_public_addresses_unless_private_is_said() {
    each_carrier(async |carrier| {
        let port = echo().await.port();
        for (allow, expected) in [
            ("\"localhost\"", 2),
            ("\"localhost\", \"*\"", 2),
            ("{ to = \"localhost\" }", 2),
            ("{ to = \"localhost\", private = false }", 2),
            ("{ to = \"localhost\", private = true }", 0),
            ("{ to = \"*\", private = true }", 0),
            ("{ to = \"localhost:1\", private = true }", 2),
        ] {
            let pair = Pair::far_with(carrier, &format!("allow = [{allow}]")).await;
            assert_eq!(code(&pair, "localhost", port).await, expected, "{allow}");
            pair.close().await;
        }
    });
}

#[test]
fn an_own_address_of_far_is_reached_only_where_it_is_named() {
    each_carrier(async |carrier| {
        let Some(own) = own_address() else {
            eprintln!("skipped: this host has loopback only");
            return;
        };
        let (_listener, port) = server().await;
        let network = ipnet::IpNet::new(own, 24).expect("a prefix").trunc();
        for (allow, expected) in [
            ("\"*\"".to_owned(), Some(2)),
            (format!("\"{network}\""), Some(2)),
            (format!("\"{own}\""), None),
            (format!("{{ to = \"{network}\", private = true }}"), None),
        ] {
            let pair = Pair::far_with(carrier, &format!("allow = [{allow}]")).await;
            let to = SocketAddr::new(own, port);
            assert_eq!(pair.connect(to).await.err(), expected, "{allow}");
            pair.close().await;
        }
    });
}
