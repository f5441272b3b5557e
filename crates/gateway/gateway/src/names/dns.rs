//! DNS messages, as far as a relay must understand them (RFC 1035; RFC 6891 for sizes over UDP).

use std::ops::RangeInclusive;
use std::time::Duration;

/// Longest time of a query.
pub const TIMEOUT: Duration = Duration::from_secs(5);

/// Largest query, bytes. Queries have one question and a few options.
pub const MAX_QUERY: usize = 4096;

pub(super) const HEADER: usize = 12;
const OPT: u16 = 41;
/// Types of questions for something else than data: TKEY, TSIG, IXFR, AXFR.
const NO_DATA: RangeInclusive<u16> = 249..=252;
/// The bits of a header's third byte that are 0 in a query (opcode QUERY).
const RESPONSE_AND_OPCODE: u8 = 0xf8;
/// The size that every client accepts over UDP, and the largest that RFC 9715 advises.
const MIN_UDP: u16 = 512;
const MAX_UDP: u16 = 1400;

/// Parts of a query that a relay must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query<'a> {
    /// Number of the query.
    pub id: u16,
    /// The question: name, type, class.
    pub question: &'a [u8],
    /// Largest answer over UDP, bytes.
    pub udp_size: u16,
}

/// Reads a query with one question; `None` if it is something else, such as an update (RFC 2136) or
/// a zone transfer (RFC 5936), which the resolver may permit to `far` alone.
pub fn parse_query(message: &[u8]) -> Option<Query<'_>> {
    let header = message.get(..HEADER)?;
    let is_query = header[2] & RESPONSE_AND_OPCODE == 0;
    if !is_query || message.len() > MAX_QUERY || count(header, 4) != 1 {
        return None;
    }
    let question_end = skip_question(message)?;
    if NO_DATA.contains(&count(message, question_end - 4)) {
        return None;
    }
    let records = u32::from(count(header, 6)) + u32::from(count(header, 8));
    let mut at = question_end;
    let mut udp_size = MIN_UDP;
    for i in 0..records + u32::from(count(header, 10)) {
        let end = skip_name(message, at, Pointers::Refused)?;
        let fixed = message.get(end..end + 10)?;
        if i >= records && count(fixed, 0) == OPT {
            udp_size = count(fixed, 2).clamp(MIN_UDP, MAX_UDP);
        }
        at = end + 10 + usize::from(count(fixed, 8));
    }
    (at <= message.len()).then_some(Query {
        id: count(header, 0),
        question: &message[HEADER..question_end],
        udp_size,
    })
}

/// Whether this message answers the query: number and question are its own. An answer without
/// question is accepted if it reports an error.
pub fn answers(message: &[u8], query: &Query<'_>) -> bool {
    let Some(header) = message.get(..HEADER) else {
        return false;
    };
    let is_response = header[2] & 0x80 != 0;
    let question = skip_question(message).map(|end| &message[HEADER..end]);
    let same_question = match count(header, 4) {
        0 => header[3] & 0xf != 0,
        1 => question.is_some_and(|question| question.eq_ignore_ascii_case(query.question)),
        _ => false,
    };
    is_response && count(header, 0) == query.id && same_question
}

/// Whether the message is truncated.
pub fn is_truncated(message: &[u8]) -> bool {
    message.get(2).is_some_and(|flags| flags & 0x02 != 0)
}

/// Replaces the number of a message of at least two bytes.
pub fn set_id(message: &mut [u8], id: u16) {
    message[..2].copy_from_slice(&id.to_be_bytes());
}

/// The answer SERVFAIL.
pub fn failure(query: &[u8], parsed: &Query<'_>) -> Vec<u8> {
    const SERVFAIL: u8 = 2;
    reply(query, parsed, 0, SERVFAIL)
}

/// The truncated answer, after which the client asks again over TCP.
pub fn truncated(query: &[u8], parsed: &Query<'_>) -> Vec<u8> {
    const TC: u8 = 0x02;
    reply(query, parsed, TC, 0)
}

/// Header and question of an answer, with these flags and code.
fn reply(query: &[u8], parsed: &Query<'_>, flags: u8, code: u8) -> Vec<u8> {
    let (response, opcode_and_recursion_desired, recursion_available) = (0x80, 0x79, 0x80);
    let mut reply = query[..HEADER + parsed.question.len()].to_vec();
    reply[2] = response | (query[2] & opcode_and_recursion_desired) | flags;
    reply[3] = recursion_available | code;
    reply[6..HEADER].fill(0);
    reply
}

pub(super) fn count(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Position after the question that follows the header.
pub(super) fn skip_question(message: &[u8]) -> Option<usize> {
    let end = skip_name(message, HEADER, Pointers::Refused)? + 4;
    (end <= message.len()).then_some(end)
}

/// Permission of a name to end with a pointer (RFC 1035, section 4.1.4). A name in a query has
/// none, and one in an OPT record is the root.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Pointers {
    Accepted,
    Refused,
}

/// Position after the name that begins at `at`.
pub(super) fn skip_name(message: &[u8], mut at: usize, pointers: Pointers) -> Option<usize> {
    const POINTER: u8 = 0xc0;
    let start = at;
    loop {
        let length = *message.get(at)?;
        if length & POINTER == POINTER && pointers == Pointers::Accepted {
            return Some(at + 2);
        }
        at += 1 + usize::from(length);
        if length > 63 || at - start > 255 {
            return None;
        }
        if length == 0 {
            return Some(at);
        }
    }
}
