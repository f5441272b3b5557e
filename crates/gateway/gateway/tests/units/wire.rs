//! Protocol inside a tunnel: data that is written is read the same.

use std::io;
use std::net::IpAddr;

use anabranch_gateway::wire::{
    Datagram, Destination, Head, Host, Malformed, Name, decode_peer, encode_frame, read_frame,
};
use futures_util::FutureExt;
use ipnet::IpNet;
use proptest::prelude::*;

fn destinations() -> impl Strategy<Value = Destination> {
    let ipv4 = any::<[u8; 4]>().prop_map(|octets| std::net::IpAddr::from(octets).into());
    let ipv6 = any::<[u8; 16]>().prop_map(|octets| std::net::IpAddr::from(octets).into());
    let name = "[a-z0-9_-]{1,63}(\\.[a-z0-9_-]{1,40}){0,4}";
    let name = name.prop_filter_map("an address", |name| name.parse().ok().map(Host::Name));
    (prop_oneof![ipv4, ipv6, name], any::<u16>())
        .prop_map(|(host, port)| Destination { host, port })
}

fn networks() -> impl Strategy<Value = IpNet> {
    let ipv4 = (any::<[u8; 4]>(), 0..=32_u8).prop_map(|(it, prefix)| (IpAddr::from(it), prefix));
    let ipv6 = (any::<[u8; 16]>(), 0..=128_u8).prop_map(|(it, prefix)| (IpAddr::from(it), prefix));
    let network = |(it, prefix)| IpNet::new(it, prefix).expect("a prefix").trunc();
    prop_oneof![ipv4, ipv6].prop_map(network)
}

fn heads() -> impl Strategy<Value = Head> {
    prop_oneof![
        (destinations(), prop::collection::vec(networks(), 0..5))
            .prop_map(|(to, networks)| Head::Tcp(to, networks)),
        any::<u32>().prop_map(Head::Udp),
        Just(Head::Dns),
    ]
}

/// Reads a head from memory, which never waits.
fn read_head(mut bytes: &[u8]) -> (io::Result<(Head, Option<u32>)>, usize) {
    let length = bytes.len();
    let head = Head::read(&mut bytes)
        .now_or_never()
        .expect("memory never waits");
    (head, length - bytes.len())
}

proptest! {
    #[test]
    fn heads_are_read_as_they_were_written_and_no_byte_beyond(
        head in heads(),
        client in any::<Option<u32>>(),
        payload in any::<Vec<u8>>(),
    ) {
        let encoded = head.encode(client);
        let bytes = [&encoded, &payload[..]].concat();
        let (read, consumed) = read_head(&bytes);
        prop_assert_eq!(read.expect("a head"), (head, client));
        prop_assert_eq!(consumed, encoded.len());
        for end in 0..encoded.len() {
            let error = read_head(&encoded[..end]).0.expect_err("truncated");
            prop_assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn datagrams_are_read_as_they_were_written(
        association in any::<u32>(),
        peer in destinations(),
        payload in any::<Vec<u8>>(),
    ) {
        let encoded = Datagram::encode(association, &peer, &payload);
        let head = encoded.len() - payload.len();
        let read = Datagram::decode(encoded.clone()).expect("a datagram");
        prop_assert_eq!(read, Datagram { association, peer, payload: payload.into() });
        for end in 0..head {
            prop_assert_eq!(Datagram::decode(encoded.slice(..end)), Err(Malformed::TRUNCATED));
        }
    }

    #[test]
    fn routes_are_no_datagrams(association in any::<u32>(), other in any::<Vec<u8>>()) {
        let route = Datagram::encode_route(association);
        prop_assert_eq!(Datagram::decode_route(&route), Some(association));
        prop_assert_eq!(Datagram::decode(route), Err(Malformed::TRUNCATED));
        prop_assert_eq!(Datagram::decode_route(&other).is_some(), other.len() == 4);
    }

    #[test]
    fn destinations_are_read_as_they_were_shown(destination in destinations()) {
        prop_assert_eq!(destination.to_string().parse(), Ok(destination));
    }

    #[test]
    fn frames_are_read_as_they_were_written(parts in any::<Vec<Vec<u8>>>()) {
        let parts: Vec<&[u8]> = parts.iter().map(|part| &part[..]).collect();
        let frame = encode_frame(&parts).expect("short");
        let read = |mut bytes: &[u8]| read_frame(&mut bytes).now_or_never().expect("no wait");
        prop_assert_eq!(read(&frame).expect("whole").expect("a frame"), parts.concat());
        prop_assert!(read(&[]).expect("the end").is_none());
        for end in 1..frame.len() {
            prop_assert!(read(&frame[..end]).is_err());
        }
    }

    #[test]
    fn no_input_panics(bytes in any::<Vec<u8>>()) {
        let _ = read_head(&bytes);
        let _ = Datagram::decode(bytes.clone().into());
        let _ = decode_peer(bytes.into());
    }
}

/// Addresses as inet_aton(3) takes them: one to four numbers, decimal, octal or hexadecimal.
fn addresses() -> impl Strategy<Value = String> {
    let number = prop_oneof!["0[xX][0-9a-fA-F]{0,8}", "0[0-7]{0,11}", "[0-9]{1,10}"];
    let numbers = prop::collection::vec(number, 1..=4);
    (numbers, "\\.?").prop_map(|(numbers, end)| numbers.join(".") + &end)
}

proptest! {
    #[test]
    fn no_spelling_of_an_address_is_a_name(address in addresses()) {
        prop_assert!(address.parse::<Name>().is_err(), "{}", address);
    }
}

#[test]
fn what_is_no_host_is_refused() {
    for name in [
        "",
        ".",
        "a..b",
        ".a",
        "a b",
        "a/b",
        "münchen",
        &"a".repeat(64),
        "1.2.3.4",
        "1.2.3.4.",
        "127.1",
        "0x7f.1",
        "0X7F.0.0.0X1",
        "0x",
        "2130706433",
        "0177.0.0.01",
        "host.1",
        "127.0.0.1%lo",
        "127.1 ",
        "\t127.1",
    ] {
        assert!(name.parse::<Name>().is_err(), "{name:?}");
    }
    for name in [
        "3com.example",
        "0x.example",
        "1e100.net",
        "0xg",
        "a1",
        "1-1",
        "_25._tcp.a.org",
    ] {
        assert!(name.parse::<Name>().is_ok(), "{name:?}");
    }
    assert!(format!("{}a", "a.".repeat(127)).parse::<Name>().is_err());
    assert!(format!("{}a", "a.".repeat(126)).parse::<Name>().is_ok());
    assert_eq!(
        "Example.ORG.".parse::<Name>().expect("a name").as_str(),
        "example.org"
    );
    // A name that is an address is the address, and a mapped one the one inside.
    let encoded = b"\x03\x09127.0.0.1\0\x50";
    let taken = Destination::take(&mut &encoded[..]).map(|it| it.to_string());
    assert_eq!(taken, Ok("127.0.0.1:80".to_owned()));
    let mapped: Destination = "[::ffff:127.0.0.1]:80".parse().expect("a destination");
    assert_eq!(mapped.to_string(), "127.0.0.1:80");
    assert_eq!(encode_frame(&[&vec![0; 65_535], &[1]]), None);
}
