//! Queries for the addresses of a name, and their answers (RFC 1035; RFC 3596 for IPv6).

use std::net::IpAddr;
use std::time::Duration;

use super::dns::{HEADER, Pointers, count, skip_name, skip_question};
use crate::wire::Name;

const A: u16 = 1;
const AAAA: u16 = 28;
const IN: u16 = 1;
const NXDOMAIN: u8 = 3;

/// Queries for the IPv6 and the IPv4 addresses of a name.
pub fn queries(name: &Name) -> [Vec<u8>; 2] {
    [AAAA, A].map(|kind| {
        const RECURSION_DESIRED: u8 = 0x01;
        let mut query = vec![0, 0, RECURSION_DESIRED, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.as_str().split('.') {
            query.push(u8::try_from(label.len()).expect("a label has at most 63 bytes"));
            query.extend(label.bytes());
        }
        query.push(0);
        query.extend([kind, IN].map(u16::to_be_bytes).as_flattened());
        query
    })
}

/// Addresses in an answer and their time to live. Answers of a recursive server contain the whole
/// chain of aliases. `None` if the server reports a failure other than that there is no such name,
/// or the answer is malformed.
pub fn addresses(answer: &[u8]) -> Option<(Vec<IpAddr>, Duration)> {
    let header = answer.get(..HEADER)?;
    if ![0, NXDOMAIN].contains(&(header[3] & 0xf)) {
        return None;
    }
    let mut at = skip_question(answer)?;
    let mut addresses = Vec::new();
    let mut valid_s = u32::MAX;
    for _ in 0..count(header, 6) {
        at = skip_name(answer, at, Pointers::Accepted)?;
        let fixed = answer.get(at..at + 10)?;
        let end = at + 10 + usize::from(count(fixed, 8));
        let data = answer.get(at + 10..end)?;
        let ttl = u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]);
        valid_s = valid_s.min(ttl);
        match (count(fixed, 0), count(fixed, 2)) {
            (A, IN) => addresses.push(IpAddr::from(<[u8; 4]>::try_from(data).ok()?)),
            (AAAA, IN) => addresses.push(IpAddr::from(<[u8; 16]>::try_from(data).ok()?)),
            _ => {}
        }
        at = end;
    }
    Some((addresses, Duration::from_secs(valid_s.into())))
}
