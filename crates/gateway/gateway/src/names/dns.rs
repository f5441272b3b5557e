//! DNS messages, as far as a relay must understand them (RFC 1035; RFC 6891 for sizes over UDP).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::random;
use crate::socket::receive_from;
use crate::wire::{Name, encode_frame, read_frame};

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
/// Size that every client accepts over UDP, bytes.
const MIN_UDP: u16 = 512;

/// Largest size over UDP that counts, bytes (RFC 6891, section 6.2.5). The network of the client
/// and near carries fragments, or the client asks for less.
const MAX_UDP: u16 = 4096;

/// Code of an answer: the server fails.
pub const SERVFAIL: u8 = 2;

/// Code of an answer: the name is not allowed.
pub const REFUSED: u8 = 5;

/// Parts of a query that a relay must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query<'a> {
    /// Number of the query.
    pub id: u16,
    /// The question: name, type, class.
    pub question: &'a [u8],
    /// Largest answer over UDP, bytes.
    pub udp_size: u16,
    /// Flags of the OPT record, if the query has one.
    edns: Option<u16>,
}

impl Query<'_> {
    /// The name that is asked for; `None` for one that is no host's.
    pub fn name(&self) -> Option<Name> {
        let (name, _) = self.question.split_last_chunk::<4>()?;
        let mut labels = Vec::new();
        let mut rest = name;
        while let Some((length, after)) = rest.split_first().filter(|(length, _)| **length > 0) {
            let (label, after) = after.split_at_checked((*length).into())?;
            labels.push(std::str::from_utf8(label).ok()?);
            rest = after;
        }
        labels.join(".").parse().ok()
    }
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
    let mut edns = None;
    for i in 0..records + u32::from(count(header, 10)) {
        let end = skip_name(message, at, Pointers::Refused)?;
        let fixed = message.get(end..end + 10)?;
        if i >= records && count(fixed, 0) == OPT {
            udp_size = count(fixed, 2).clamp(MIN_UDP, MAX_UDP);
            edns = Some(count(fixed, 6));
        }
        at = end + 10 + usize::from(count(fixed, 8));
    }
    (at <= message.len()).then_some(Query {
        id: count(header, 0),
        question: &message[HEADER..question_end],
        udp_size,
        edns,
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

/// An answer without data, with this code.
pub fn failure(query: &[u8], parsed: &Query<'_>, code: u8) -> Vec<u8> {
    reply(query, parsed, 0, code)
}

/// The truncated answer, after which the client asks again over TCP.
pub fn truncated(query: &[u8], parsed: &Query<'_>) -> Vec<u8> {
    const TC: u8 = 0x02;
    reply(query, parsed, TC, 0)
}

/// Header and question of an answer, with these flags and code, and with an OPT record if the query
/// has one (RFC 6891, section 6.1.1).
fn reply(query: &[u8], parsed: &Query<'_>, flags: u8, code: u8) -> Vec<u8> {
    let (response, opcode_and_recursion_desired, recursion_available) = (0x80, 0x79, 0x80);
    let mut reply = query[..HEADER + parsed.question.len()].to_vec();
    reply[2] = response | (query[2] & opcode_and_recursion_desired) | flags;
    reply[3] = recursion_available | code;
    reply[6..HEADER].fill(0);
    if let Some(flags) = parsed.edns {
        const DNSSEC_OK: u16 = 0x8000;
        reply[HEADER - 1] = 1;
        reply.push(0);
        let record = [OPT, MAX_UDP, 0, flags & DNSSEC_OK, 0];
        reply.extend(record.map(u16::to_be_bytes).as_flattened());
    }
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

const A: u16 = 1;
const CNAME: u16 = 5;
const AAAA: u16 = 28;
const IN: u16 = 1;
const NXDOMAIN: u8 = 3;

/// Queries for the IPv6 (RFC 3596) and the IPv4 addresses of a name.
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

/// Most aliases that lead from a name to its addresses.
const MAX_ALIASES: usize = 16;

/// A record of an answer.
struct Record<'a> {
    owner: Vec<u8>,
    kind: u16,
    ttl_s: u32,
    /// Position and value of its data.
    at: usize,
    data: &'a [u8],
}

/// Addresses in an answer and their time to live: those of the name that was asked for, or of the
/// one to which its aliases lead (RFC 1034, section 3.6.2). Others count for nothing. `None` if the
/// server reports a failure other than that there is no such name, or the answer is malformed.
pub fn addresses(answer: &[u8]) -> Option<(Vec<IpAddr>, Duration)> {
    let header = answer.get(..HEADER)?;
    if ![0, NXDOMAIN].contains(&(header[3] & 0xf)) {
        return None;
    }
    let records = records(answer)?;
    let mut owners = vec![name_at(answer, HEADER)?];
    let mut addresses = Vec::new();
    let mut valid_s = u32::MAX;
    for _ in 0..=MAX_ALIASES {
        let owner = owners.last().expect("never empty");
        let own = || records.iter().filter(|record| record.owner == *owner);
        for record in own() {
            match record.kind {
                A => addresses.push(IpAddr::from(<[u8; 4]>::try_from(record.data).ok()?)),
                AAAA => addresses.push(IpAddr::from(<[u8; 16]>::try_from(record.data).ok()?)),
                _ => continue,
            }
            valid_s = valid_s.min(record.ttl_s);
        }
        let Some(alias) = own().find(|record| record.kind == CNAME) else {
            break;
        };
        valid_s = valid_s.min(alias.ttl_s);
        let next = name_at(answer, alias.at)?;
        if owners.contains(&next) {
            break;
        }
        owners.push(next);
    }
    Some((addresses, Duration::from_secs(valid_s.into())))
}

/// Records of the Internet in the answer section.
fn records(answer: &[u8]) -> Option<Vec<Record<'_>>> {
    let mut at = skip_question(answer)?;
    let mut records = Vec::new();
    for _ in 0..count(answer, 6) {
        let owner = at;
        at = skip_name(answer, at, Pointers::Accepted)?;
        let fixed = answer.get(at..at + 10)?;
        let end = at + 10 + usize::from(count(fixed, 8));
        if count(fixed, 2) == IN {
            records.push(Record {
                owner: name_at(answer, owner)?,
                kind: count(fixed, 0),
                ttl_s: u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]),
                at: at + 10,
                data: answer.get(at + 10..end)?,
            });
        }
        at = end;
    }
    (at <= answer.len()).then_some(records)
}

/// The name at a position, in lower case. Pointers lead to earlier positions alone.
fn name_at(message: &[u8], mut at: usize) -> Option<Vec<u8>> {
    const POINTER: u16 = 0xc000;
    let mut name = Vec::new();
    let mut before = at;
    loop {
        let length = usize::from(*message.get(at)?);
        if length > 63 {
            let pointer = u16::from_be_bytes([*message.get(at)?, *message.get(at + 1)?]);
            at = usize::from(pointer & !POINTER);
            if pointer & POINTER != POINTER || at >= before {
                return None;
            }
            before = at;
            continue;
        }
        name.extend(message.get(at..=at + length)?.to_ascii_lowercase());
        if length == 0 || name.len() > 255 {
            return (length == 0).then_some(name);
        }
        at += 1 + length;
    }
}

/// Time after which a query over UDP is repeated.
const REPEAT: Duration = Duration::from_millis(1500);

/// Asks the server. Returns its answer: over UDP, and over TCP if it is truncated there. Each query
/// has a random number and a port of its own (RFC 5452). Waits for as long as it is polled.
///
/// # Errors
/// If the server cannot be reached, or the answer over TCP is not one to this query.
pub async fn ask(server: SocketAddr, query: &[u8], parsed: &Query<'_>) -> io::Result<Vec<u8>> {
    let asked = Query {
        id: u16::from_ne_bytes(random()),
        ..*parsed
    };
    let mut query = query.to_vec();
    set_id(&mut query, asked.id);
    let mut answer = over_udp(server, &query, &asked).await?;
    if is_truncated(&answer) {
        answer = over_tcp(server, &query, &asked).await?;
    }
    let mut answer = Vec::from(answer);
    set_id(&mut answer, parsed.id);
    Ok(answer)
}

async fn over_udp(server: SocketAddr, query: &[u8], asked: &Query<'_>) -> io::Result<Bytes> {
    let unspecified: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((unspecified, 0)).await?;
    socket.connect(server).await?;
    loop {
        socket.send(query).await?;
        let answer = async {
            loop {
                let (answer, _) = receive_from(&socket).await?;
                if answers(&answer, asked) {
                    return Ok(answer);
                }
            }
        };
        if let Ok(answer) = timeout(REPEAT, answer).await {
            return answer;
        }
    }
}

async fn over_tcp(server: SocketAddr, query: &[u8], asked: &Query<'_>) -> io::Result<Bytes> {
    let mut socket = TcpStream::connect(server).await?;
    let frame = encode_frame(&[query]).ok_or(io::ErrorKind::InvalidData)?;
    socket.write_all(&frame).await?;
    let answer = read_frame(&mut socket).await?.unwrap_or_default();
    answers(&answer, asked)
        .then_some(answer)
        .ok_or(io::ErrorKind::InvalidData.into())
}
