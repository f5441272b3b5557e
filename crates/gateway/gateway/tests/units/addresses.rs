//! Queries for the addresses of a name, and their answers.

use std::time::Duration;

use anabranch_gateway::names::dns::parse_query;
use anabranch_gateway::names::dns::{addresses, queries};
use anabranch_gateway::wire::Name;

/// Type AAAA, type A and class IN.
const AAAA: u16 = 28;
const A: u16 = 1;
const IN: u16 = 1;

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
    let no_such_name = 3;
    let (format_error, server_failure, refused) = (1, 2, 5);
    assert!(with_code(no_such_name));
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
