//! Messages of a hostile peer of a tunnel over QUIC about its paths, and the arrival of its data.

use std::collections::BTreeMap;

use anabranch_gateway::carrier::quic::fuzzing;

use super::Input;

/// Most paths that `near` may announce.
const MAX_ENTRIES: usize = 64;

/// Most data beyond what was read, bytes.
const FURTHEST: u64 = 16 << 20;

/// Most data that waits in the tunnel, bytes.
const BUDGET: u64 = 1 << 18;

/// Messages of near about its paths: far remembers a bounded number of them.
pub fn paths(bytes: &[u8]) {
    let (entries, announced) = fuzzing::paths(bytes);
    assert!(entries <= MAX_ENTRIES && announced <= MAX_ENTRIES);
}

fn pattern(position: u64) -> u8 {
    (position * 31 + position / 251) as u8
}

/// Pieces of a stream's data in any order, of which the library gives each byte once: they are read
/// in order, and what waits is bounded.
pub fn order(bytes: &[u8]) {
    let mut input = Input(bytes);
    let mut stream = fuzzing::Stream::new(BUDGET);
    // Ends of what has arrived, by where it begins.
    let mut arrived: BTreeMap<u64, u64> = BTreeMap::new();
    let mut read = 0;
    while let Some(step) = input.byte() {
        let room = 1 + usize::from(input.number());
        read_all(&mut stream, room, &mut read);
        let ahead = u64::from(input.number()) << (step % 10);
        let length = u64::from(input.number() % 4096) + 1;
        let from = read + if step & 0x80 == 0 { 0 } else { ahead };
        let before = arrived.range(..from + length).next_back();
        if before.is_some_and(|(_, end)| *end > from) {
            continue;
        }
        let piece: Vec<u8> = (from..from + length).map(pattern).collect();
        let (waiting, limit) = (stream.waiting(), stream.limit());
        if !stream.add(from, &piece) {
            // As many pieces wait as are allowed, of 1 KiB on average.
            assert!(from + length > limit || waiting.1 as u64 >= BUDGET >> 10);
            return;
        }
        assert!(from + length <= limit);
        arrived.insert(from, from + length);
    }
    read_all(&mut stream, 1 << 16, &mut read);
    let later = arrived
        .range(read..)
        .map(|(from, end)| (end - from) as usize);
    assert_eq!(stream.waiting(), (later.clone().sum(), later.count()));
}

/// Reads until nothing is in order.
fn read_all(stream: &mut fuzzing::Stream, room: usize, read: &mut u64) {
    loop {
        let data = stream.read(room);
        let is_right = |(at, byte): (u64, &u8)| *byte == pattern(at);
        assert!((*read..).zip(&data).all(is_right), "other data");
        *read += data.len() as u64;
        assert!(stream.limit() - *read <= FURTHEST);
        let (bytes, pieces) = stream.waiting();
        assert!(bytes as u64 <= stream.limit() - *read && pieces as u64 <= BUDGET >> 10);
        if data.len() < room {
            return;
        }
    }
}
