//! Queries for the addresses of a name, and their answers (RFC 1035; RFC 3596 for IPv6).

use std::net::IpAddr;
use std::time::Duration;

use super::dns::{HEADER, count, skip_question};
use crate::wire::Name;

const A: u16 = 1;
const AAAA: u16 = 28;
const IN: u16 = 1;
const NXDOMAIN: u8 = 3;

/// The queries for the IPv6 and the IPv4 addresses of a name.
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

/// The addresses in an answer and how long it is valid. Answers of a recursive server contain the
/// whole chain of aliases. `None` if the server reports a failure other than that there is no such
/// name, or the answer is malformed.
pub fn addresses(answer: &[u8]) -> Option<(Vec<IpAddr>, Duration)> {
    let header = answer.get(..HEADER)?;
    if ![0, NXDOMAIN].contains(&(header[3] & 0xf)) {
        return None;
    }
    let mut at = skip_question(answer)?;
    let mut addresses = Vec::new();
    let mut valid_s = u32::MAX;
    for _ in 0..count(header, 6) {
        at = skip_compressed_name(answer, at)?;
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

/// Where the name ends that begins at `at`; a pointer ends it (RFC 1035, section 4.1.4).
fn skip_compressed_name(message: &[u8], mut at: usize) -> Option<usize> {
    const POINTER: u8 = 0xc0;
    loop {
        match *message.get(at)? {
            0 => return Some(at + 1),
            length if length & POINTER == POINTER => return Some(at + 2),
            length => at += 1 + usize::from(length),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::dns::parse_query;
    use super::*;

    /// `www.a.test` is an alias of `a.test`, with one address of each family; the names are
    /// compressed.
    fn answer() -> Vec<u8> {
        let mut answer = vec![0, 0, 0x81, 0x80, 0, 1, 0, 3, 0, 0, 0, 0];
        answer.extend(b"\x03www\x01a\x04test\0\0\x01\0\x01");
        answer.extend(b"\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x02\xc0\x10");
        answer.extend(b"\xc0\x10\0\x01\0\x01\0\0\0\x1e\0\x04\xc0\0\x02\x01");
        answer.extend(b"\x01a\xc0\x12\0\x1c\0\x01\0\0\0\x78\0\x10");
        answer.extend(b"\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01");
        answer
    }

    #[test]
    fn an_answer_has_the_addresses_of_a_chain_and_the_shortest_time() {
        let expected = ["192.0.2.1", "2001:db8::1"].map(|text| text.parse().expect("an address"));
        let found = addresses(&answer()).expect("an answer");
        assert_eq!(found, (expected.to_vec(), Duration::from_secs(30)));
        for end in 0..answer().len() {
            assert_eq!(addresses(&answer()[..end]), None, "{end}");
        }
        let with_code = |code: u8| {
            let mut answer = answer();
            answer[3] |= code;
            addresses(&answer).is_some()
        };
        let (format_error, server_failure, refused) = (1, 2, 5);
        assert!(with_code(NXDOMAIN));
        assert!(
            ![format_error, server_failure, refused]
                .map(with_code)
                .contains(&true)
        );
    }

    #[test]
    fn own_queries_are_queries() {
        let name: Name = "www.example.org".parse().expect("a name");
        for (query, kind) in queries(&name).iter().zip([AAAA, A]) {
            let parsed = parse_query(query).expect("a query");
            let mut question = b"\x03www\x07example\x03org\0".to_vec();
            question.extend([kind, IN].map(u16::to_be_bytes).as_flattened());
            assert_eq!(parsed.question, question);
        }
    }
}
