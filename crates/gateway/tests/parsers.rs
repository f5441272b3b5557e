//! Every parser that reads from the network, with inputs that are mutated at random: `make fuzz`
//! runs it for minutes, the tests replay `fuzz/corpus` and run a moment longer.
//!
//! The corpus has a folder per parser. An input that fails is added to it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anabranch_gateway::names::{addresses::addresses, dns};
use anabranch_gateway::near::socks;
use anabranch_gateway::wire::{Datagram, Destination, Head, decode_peer, encode_frame, read_frame};
use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A parser with what must hold of its results.
type Check = fn(&[u8]);

const PARSERS: [(&str, Check); 7] = [
    ("head", head),
    ("datagram", datagram),
    ("frame", frame),
    ("socks_request", socks_request),
    ("socks_datagram", socks_datagram),
    ("dns_query", dns_query),
    ("dns_answer", dns_answer),
];

/// The head of a stream: what was read is written and read the same.
fn head(bytes: &[u8]) {
    let mut rest = bytes;
    let read = Head::read(&mut rest)
        .now_or_never()
        .expect("memory never waits");
    if let Ok(head) = read {
        let encoded = head.encode();
        let networks = 1 + Head::MAX_NETWORKS * (1 + 1 + 16);
        assert!(encoded.len() <= 2 + networks + Destination::MAX_BYTES);
        let again = Head::read(&mut &encoded[..])
            .now_or_never()
            .expect("no wait");
        assert_eq!(again.expect("a head"), head);
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

/// What a client of SOCKS5 sends before its data.
fn socks_request(bytes: &[u8]) {
    let mut client = tokio::io::join(bytes, tokio::io::sink());
    let negotiated = socks::negotiate(&mut client)
        .now_or_never()
        .expect("no wait");
    if negotiated.is_ok() {
        assert_eq!(bytes[0], 5);
        assert!(bytes[2..2 + usize::from(bytes[1])].contains(&0));
    }
}

/// A datagram of a client of SOCKS5.
fn socks_datagram(bytes: &[u8]) {
    if let Ok((to, payload)) = socks::decode_datagram(Bytes::copy_from_slice(bytes)) {
        let encoded = socks::encode_datagram(&to, &payload).freeze();
        assert_eq!(socks::decode_datagram(encoded), Ok((to, payload)));
    }
}

/// A DNS query: near's own answers are answers to it.
fn dns_query(bytes: &[u8]) {
    if let Some(query) = dns::parse_query(bytes) {
        for answer in [dns::failure(bytes, &query), dns::truncated(bytes, &query)] {
            assert!(dns::answers(&answer, &query));
            assert!(answer.len() <= query.udp_size.into());
            assert!(dns::parse_query(&answer).is_none());
        }
    }
}

/// A DNS answer, to a query with its number and question: it is one only if these are its own.
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

/// Mutates inputs of a corpus.
struct Mutator {
    random: Xoshiro256PlusPlus,
    corpus: Vec<Vec<u8>>,
}

impl Mutator {
    fn below(&mut self, n: usize) -> usize {
        (self.random.next_u64() % n.max(1) as u64) as usize
    }

    fn some(&mut self) -> Vec<u8> {
        let i = self.below(self.corpus.len());
        self.corpus[i].clone()
    }

    /// An input with 1 to 8 changes.
    fn next(&mut self) -> Vec<u8> {
        let mut bytes = self.some();
        for _ in 0..=self.below(8) {
            self.change(&mut bytes);
        }
        bytes.truncate(70_000);
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        const BOUNDARIES: [u8; 12] = [0, 1, 2, 3, 4, 5, 0x3f, 0x40, 0x7f, 0x80, 0xc0, 0xff];
        let at = self.below(bytes.len());
        let boundary = BOUNDARIES[self.below(BOUNDARIES.len())];
        match (self.below(8), bytes.get_mut(at)) {
            (0, Some(byte)) => *byte ^= 1 << (self.random.next_u64() % 8),
            (1, Some(byte)) => *byte = self.random.next_u64() as u8,
            (2, Some(byte)) => *byte = boundary,
            (3, Some(_)) => drop(bytes.remove(at)),
            (4, Some(_)) => bytes.truncate(at),
            (5, _) => bytes.insert(at.min(bytes.len()), boundary),
            (6, Some(_)) => {
                let end = at + self.below(bytes.len() - at + 1);
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
            _ => {
                let other = self.some();
                let from = self.below(other.len());
                bytes.truncate(at);
                bytes.extend(&other[from.min(other.len())..]);
            }
        }
    }
}

fn folder(parser: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(parser)
}

fn corpus(parser: &str) -> Vec<Vec<u8>> {
    let files = std::fs::read_dir(folder(parser)).expect("a corpus");
    let mut paths: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort();
    let corpus: Vec<_> = paths
        .iter()
        .map(|path| std::fs::read(path).expect("read"))
        .collect();
    assert!(!corpus.is_empty(), "{parser}");
    corpus
}

/// Runs a parser for a while on mutated inputs; how often.
fn fuzz(parser: &str, check: Check, seed: u64, time: Duration) -> u64 {
    let corpus = corpus(parser);
    corpus.iter().for_each(|input| check(input));
    let random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut mutator = Mutator { random, corpus };
    let start = Instant::now();
    let mut executions = 0;
    while start.elapsed() < time {
        for _ in 0..1000 {
            let input = mutator.next();
            if let Err(panic) = std::panic::catch_unwind(|| check(&input)) {
                let file = folder(parser).join(format!("failed-{seed}-{executions}"));
                std::fs::write(&file, &input).expect("written");
                eprintln!("{parser}: the input that failed is {}", file.display());
                std::panic::resume_unwind(panic);
            }
            executions += 1;
        }
    }
    executions
}

#[test]
fn the_corpus_and_inputs_near_it_are_parsed_without_a_fault() {
    for (parser, check) in PARSERS {
        let executions = fuzz(parser, check, 1, Duration::from_millis(300));
        println!("{parser}: {executions} executions");
    }
}

/// `make fuzz`: FUZZ_SECONDS for each parser, with a seed of its own each time.
#[test]
#[ignore = "takes an hour"]
fn parsers_are_fuzzed_for_minutes() {
    let seconds = std::env::var("FUZZ_SECONDS").map_or(600, |text| text.parse().expect("a number"));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seed = now.expect("after 1970").as_secs();
    std::thread::scope(|scope| {
        for (parser, check) in PARSERS {
            scope.spawn(move || {
                let executions = fuzz(parser, check, seed, Duration::from_secs(seconds));
                println!("{parser}: {executions} executions in {seconds} s, seed {seed}");
            });
        }
    });
}
