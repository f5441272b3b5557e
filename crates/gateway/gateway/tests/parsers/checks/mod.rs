//! Properties of each parser for any input, and of a carrier whatever its peer does, for the tests
//! and for `fuzz/main.rs`.

mod quic;

use std::fs;

use anabranch_gateway::carrier::mptcp::frame;
use anabranch_gateway::config::difference::difference;
use anabranch_gateway::config::read::{Either, either};
use anabranch_gateway::keys::KeyPair;
use anabranch_gateway::names::dns::{self, addresses};
use anabranch_gateway::near::{client, socks};
use anabranch_gateway::wire::{Datagram, Destination, Head, decode_peer, encode_frame, read_frame};
use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use tokio_util::codec::Decoder;

/// A check: parses an input and tests the properties of the result.
pub type Check = fn(&[u8]);

/// Every check, by the name of its folder in `fuzz/corpus.tar.gz`.
pub const PARSERS: [(&str, Check); 11] = [
    ("config", config),
    ("tunnel_frame", tunnel_frame),
    ("paths", quic::paths),
    ("order", quic::order),
    ("head", head),
    ("datagram", datagram),
    ("frame", frame),
    ("socks_request", socks_request),
    ("socks_datagram", socks_datagram),
    ("dns_query", dns_query),
    ("dns_answer", dns_answer),
];

/// An input that is read as a sequence of choices.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// The next byte.
    fn byte(&mut self) -> Option<u8> {
        self.0.split_off_first().copied()
    }

    /// The next two bytes; zeros at the end.
    fn number(&mut self) -> u16 {
        let [low, high] = [(); 2].map(|()| self.byte().unwrap_or_default());
        u16::from_le_bytes([low, high])
    }
}

/// The head of a stream: what was read is written and read the same.
fn head(bytes: &[u8]) {
    let mut rest = bytes;
    let read = Head::read(&mut rest)
        .now_or_never()
        .expect("memory never waits");
    if let Ok((head, client)) = read {
        let encoded = head.encode(client);
        let networks = 1 + Head::MAX_NETWORKS * (1 + 1 + 16);
        assert!(encoded.len() <= 2 + 4 + networks + Destination::MAX_BYTES);
        let again = Head::read(&mut &encoded[..])
            .now_or_never()
            .expect("no wait");
        assert_eq!(again.expect("a head"), (head, client));
    }
}

/// Frames of a tunnel over Multipath TCP, of either end, to the first fault.
fn tunnel_frame(bytes: &[u8]) {
    for is_near in [false, true] {
        let (mut codec, mut rest) = (frame::codec(), BytesMut::from(bytes));
        while let Ok(Some(whole)) = codec.decode(&mut rest) {
            let Ok(read) = frame::Frame::decode(&whole, is_near) else {
                break;
            };
            let again = frame::Frame::decode(&read.encode(is_near), is_near);
            match read {
                frame::Frame::Close(reason) => assert!(!reason.contains(['\n', '\u{1b}'])),
                read => assert_eq!(again, Ok(read)),
            }
        }
    }
}

/// A datagram of a tunnel.
fn datagram(bytes: &[u8]) {
    if let Ok(read) = Datagram::decode(Bytes::copy_from_slice(bytes)) {
        assert!(bytes.ends_with(&read.payload));
        let encoded = Datagram::encode(read.association, &read.peer, &read.payload);
        assert_eq!(Datagram::decode(encoded), Ok(read));
    }
}

/// Frames of an association's stream, to the end.
fn frame(bytes: &[u8]) {
    let mut rest = bytes;
    loop {
        let before = rest;
        let read = read_frame(&mut rest)
            .now_or_never()
            .expect("memory never waits");
        let Ok(Some(frame)) = read else { return };
        let encoded = encode_frame(&[&frame]).expect("it was one");
        assert!(before.starts_with(&encoded));
        assert_eq!(before.len() - rest.len(), encoded.len());
        if let Ok((peer, payload)) = decode_peer(frame.clone()) {
            let mut address = BytesMut::new();
            peer.put(&mut address);
            let encoded = encode_frame(&[&address, &payload]).expect("not longer");
            let again = decode_peer(encoded.slice(2..)).expect("the same");
            assert_eq!(again, (peer, payload));
        }
    }
}

/// Checks the part of SOCKS5 that a client sends before its data.
fn socks_request(bytes: &[u8]) {
    let mut client = tokio::io::join(bytes, tokio::io::sink());
    let negotiated = socks::negotiate(&mut client)
        .now_or_never()
        .expect("no wait");
    if let Ok(socks::Request::Connect(to, socks::Protocol::Http)) = &negotiated {
        assert!(bytes.starts_with(b"CONNECT ") && to.port > 0);
    } else if negotiated.is_ok() {
        assert_eq!(bytes[0], 5);
        assert!(bytes[2..2 + usize::from(bytes[1])].contains(&0));
    }
}

/// A datagram of a client of SOCKS5.
fn socks_datagram(bytes: &[u8]) {
    if let Ok((to, payload)) = client::decode_datagram(Bytes::copy_from_slice(bytes)) {
        let encoded = client::encode_datagram(&to, &payload).freeze();
        assert_eq!(client::decode_datagram(encoded), Ok((to, payload)));
    }
}

/// A DNS query: near's own answers are answers to it.
fn dns_query(bytes: &[u8]) {
    if let Some(query) = dns::parse_query(bytes) {
        for answer in [
            dns::failure(bytes, &query, dns::SERVFAIL),
            dns::truncated(bytes, &query),
        ] {
            assert!(dns::answers(&answer, &query));
            assert!(answer.len() <= query.udp_size.into());
            assert!(dns::parse_query(&answer).is_none());
        }
    }
}

/// Checks a DNS answer to a query with its number and question: it is one only if these are its
/// own.
fn dns_answer(bytes: &[u8]) {
    let mut asked = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    asked.extend(b"\x07example\x03org\0\0\x01\0\x01");
    let query = dns::parse_query(&asked).expect("a query");
    if dns::answers(bytes, &query) {
        assert_eq!(bytes[..2], [0, 7]);
        assert!(bytes[2] & 0x80 != 0);
    }
    let _ = dns::is_truncated(bytes);
    // The shortest record has the root's name and an IPv4 address.
    let found = addresses(bytes).map_or(0, |(found, _)| found.len());
    assert!(found * (1 + 10 + 4) <= bytes.len());
}

/// A file with this content: a configuration that is the same as itself, or errors of a line each.
pub fn config(bytes: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder");
    let key = KeyPair::generate().expect("random numbers");
    key.write(&folder.path().join("own.key"))
        .expect("a new file");
    let file = folder.path().join("gateway.toml");
    fs::write(&file, bytes).expect("own folder");
    let is_line = |said: &str| !said.is_empty() && !said.contains(['\n', '\r', '\u{1b}']);
    match either(&file) {
        Err(errors) => {
            assert!(!errors.is_empty());
            for error in errors {
                let error = error.to_string();
                assert!(
                    is_line(&error) && error.contains("gateway.toml"),
                    "{error:?}"
                );
            }
        }
        Ok(valid) => {
            assert!(valid.warnings().iter().all(|warning| is_line(warning)));
            let changed = match &valid {
                Either::Near(near) => difference(near, near),
                Either::Far(far) => difference(far, far),
            };
            assert!(changed.is_empty(), "{changed:?}");
        }
    }
}
