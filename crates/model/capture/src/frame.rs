//! A packet of TCP as the bytes of its headers: options, and the keys of Multipath TCP in them.

use std::net::Ipv4Addr;

use etherparse::{EtherType, Ethernet2Header, IpEcn, IpNumber, Ipv4Header, TcpHeader, TcpOptions};
use ring::digest::{self, digest};
use ring::hmac;

/// The hops that a packet may take.
const TIME_TO_LIVE: u8 = 64;

/// No packet of IPv4 is larger.
static ZEROS: [u8; 65535] = [0; 65535];

/// Flags of a header, beside ACK, which all but the first SYN have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flags {
    pub syn: bool,
    pub ack: bool,
    /// Echoes a mark (RFC 3168).
    pub ece: bool,
    /// The window was reduced (RFC 3168).
    pub cwr: bool,
}

/// One direction of a subflow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub source: (Ipv4Addr, u16),
    pub destination: (Ipv4Addr, u16),
}

impl Way {
    pub fn reversed(self) -> Way {
        Way {
            source: self.destination,
            destination: self.source,
        }
    }
}

/// Contents of a packet.
#[derive(Debug)]
pub(crate) struct Segment {
    pub flags: Flags,
    /// The field, not the window that it stands for.
    pub window: u16,
    pub sequence: u32,
    pub acknowledged: u32,
    pub options: Options,
    /// Bytes of payload.
    pub payload: u16,
    /// Whether links may mark it.
    pub ecn_capable: bool,
}

/// The headers, and the length with payload.
pub(crate) fn frame(way: Way, segment: &Segment) -> (Vec<u8>, u32) {
    let options = TcpOptions::try_from_slice(segment.options.bytes()).expect("at most 40 bytes");
    let mut tcp = TcpHeader {
        sequence_number: segment.sequence,
        acknowledgment_number: segment.acknowledged,
        source_port: way.source.1,
        destination_port: way.destination.1,
        window_size: segment.window,
        syn: segment.flags.syn,
        ack: segment.flags.ack,
        ece: segment.flags.ece,
        cwr: segment.flags.cwr,
        options,
        ..TcpHeader::default()
    };
    let (source, destination) = (way.source.0.octets(), way.destination.0.octets());
    let length = tcp.header_len_u16().saturating_add(segment.payload);
    let mut ip = Ipv4Header::new(length, TIME_TO_LIVE, IpNumber::TCP, source, destination)
        .expect("a length that IPv4 has");
    ip.dont_fragment = true;
    ip.ecn = IpEcn::try_new(if segment.ecn_capable { 2 } else { 0 }).expect("two bits");
    ip.header_checksum = ip.calc_header_checksum();
    let payload = &ZEROS[..segment.payload.into()];
    tcp.checksum = tcp
        .calc_checksum_ipv4_raw(source, destination, payload)
        .expect("a length that IPv4 has");
    let ethernet = Ethernet2Header {
        source: address(source),
        destination: address(destination),
        ether_type: EtherType::IPV4,
    };
    let headers = [&ethernet.to_bytes()[..], &ip.to_bytes(), &tcp.to_bytes()].concat();
    let whole = headers.len() as u32 + u32::from(segment.payload);
    (headers, whole)
}

/// A locally administered address of Ethernet with the four octets.
fn address(octets: [u8; 4]) -> [u8; 6] {
    let [a, b, c, d] = octets;
    [2, 0, a, b, c, d]
}

// TCP options in the order in which Linux writes them, padded to words.

/// The end of all options, which fills the last word, and an option that does nothing.
const END: u8 = 0;
const NOP: u8 = 1;
/// The kind of Multipath TCP's options, and the subtypes that are used (RFC 8684, section 8).
const MPTCP: u8 = 30;
const CAPABLE: u8 = 0;
const JOIN: u8 = 1;
const DSS: u8 = 2;
/// Version 1, and the flag of HMAC-SHA256.
const VERSION: u8 = 1;
const SHA256: u8 = 1;
/// Bits of a data sequence signal: there is a mapping, and a data acknowledgement of 4 octets.
const HAS_MAPPING: u8 = 4;
const HAS_ACK: u8 = 1;
/// The bytes of options that a header has room for.
const MOST: usize = 40;

/// The options of one header.
#[derive(Debug, Default)]
pub(crate) struct Options(Vec<u8>);

impl Options {
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Adds what a SYN has: the largest segment, window scale, and whether SACK is permitted.
    pub fn syn(mut self, mss: u16, scale: u8, selective: bool) -> Options {
        self.0.extend([2, 4]);
        self.0.extend(mss.to_be_bytes());
        self.0.extend([NOP, 3, 3, scale]);
        if selective {
            self.0.extend([NOP, NOP, 4, 2]);
        }
        self
    }

    /// Adds the sender's clock, and the last that it has seen of the other end's (RFC 7323).
    pub fn timestamps(mut self, value: u32, echo: u32) -> Options {
        self.0.extend([NOP, NOP, 8, 10]);
        self.0.extend(value.to_be_bytes());
        self.0.extend(echo.to_be_bytes());
        self
    }

    /// Adds as many of the blocks as there is room for.
    pub fn sack(mut self, blocks: &[(u32, u32)]) -> Options {
        let room = (MOST - self.0.len()).saturating_sub(4) / 8;
        let blocks = &blocks[..blocks.len().min(room)];
        if !blocks.is_empty() {
            self.0.extend([NOP, NOP, 5, 2 + 8 * blocks.len() as u8]);
            for (start, end) in blocks {
                self.0.extend(start.to_be_bytes());
                self.0.extend(end.to_be_bytes());
            }
        }
        self
    }

    /// Adds MP_CAPABLE with the keys known so far, and of the first data with its length.
    pub fn capable(self, keys: &[Key], data: Option<u16>) -> Options {
        let mut content = vec![CAPABLE << 4 | VERSION, SHA256];
        content.extend(keys.iter().flat_map(|key| key.0));
        content.extend(data.iter().flat_map(|bytes| bytes.to_be_bytes()));
        self.mptcp(&content)
    }

    /// Adds MP_JOIN of a SYN: the connection's token and a nonce.
    pub fn join(self, address: u8, token: u32, nonce: u32) -> Options {
        let content = [token, nonce].map(u32::to_be_bytes).concat();
        self.mptcp(&[&[JOIN << 4, address][..], &content].concat())
    }

    /// Adds MP_JOIN of a SYN's answer.
    pub fn join_answer(self, address: u8, hmac: [u8; 32], nonce: u32) -> Options {
        let nonce = nonce.to_be_bytes();
        self.mptcp(&[&[JOIN << 4, address], &hmac[..8], &nonce[..]].concat())
    }

    /// Adds MP_JOIN of the third packet.
    pub fn join_end(self, hmac: [u8; 32]) -> Options {
        self.mptcp(&[&[JOIN << 4, 0], &hmac[..20]].concat())
    }

    /// Adds a data acknowledgement.
    pub fn data_ack(self, ack: u32) -> Options {
        self.mptcp(&[&[DSS << 4, HAS_ACK], &ack.to_be_bytes()[..]].concat())
    }

    /// Adds a data acknowledgement, and the mapping of the segment's bytes to data.
    pub fn mapping(self, ack: u32, data: u32, subflow: u32, bytes: u16) -> Options {
        let numbers = [ack, data, subflow].map(u32::to_be_bytes).concat();
        let flags = [DSS << 4, HAS_ACK | HAS_MAPPING];
        self.mptcp(&[&flags[..], &numbers, &bytes.to_be_bytes()].concat())
    }

    fn mptcp(mut self, content: &[u8]) -> Options {
        self.0.extend([MPTCP, 2 + content.len() as u8]);
        self.0.extend(content);
        self.0.resize(self.0.len().next_multiple_of(4), END);
        debug_assert!(self.0.len() <= MOST);
        self
    }
}

// Keys of Multipath TCP and what follows from them (RFC 8684, section 3): random-looking, and the
// same in every run.

/// The key of one end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key(pub [u8; 8]);

impl Key {
    /// The 32 highest bits of the key's hash, which name the connection.
    pub fn token(self) -> u32 {
        u32::from_be_bytes(part(&self.hash(), 0))
    }

    /// The 64 lowest bits of the key's hash: the number of the octet before the first of data.
    pub fn initial_data_sequence(self) -> u64 {
        u64::from_be_bytes(part(&self.hash(), 24))
    }

    fn hash(self) -> [u8; 32] {
        hash(&[&self.0])
    }
}

/// The HMAC by which an end shows that it has both keys: its own and nonce first (section 3.2).
pub(crate) fn hmac(keys: [Key; 2], nonces: [u32; 2]) -> [u8; 32] {
    let key = hmac::Key::new(hmac::HMAC_SHA256, &[keys[0].0, keys[1].0].concat());
    let message = nonces.map(u32::to_be_bytes).concat();
    part(hmac::sign(&key, &message).as_ref(), 0)
}

/// A number that looks random, by what it is for.
pub(crate) fn random<const N: usize>(purpose: &str, numbers: &[u64]) -> [u8; N] {
    let numbers: Vec<u8> = numbers.iter().flat_map(|n| n.to_be_bytes()).collect();
    part(&hash(&[purpose.as_bytes(), &numbers]), 0)
}

fn hash(parts: &[&[u8]]) -> [u8; 32] {
    part(digest(&digest::SHA256, &parts.concat()).as_ref(), 0)
}

fn part<const N: usize>(bytes: &[u8], from: usize) -> [u8; N] {
    bytes[from..from + N].try_into().expect("as many bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256 of eight zero bytes, by another program (`head -c8 /dev/zero | sha256sum`):
    /// af5570f5a1810b7af78caf4bc70a660f0df51e42baf91d4de5b2328de0e83dfc
    #[test]
    fn token_and_first_number_are_the_ends_of_the_hash() {
        let key = Key([0; 8]);
        assert_eq!(key.token(), 0xaf55_70f5);
        assert_eq!(key.initial_data_sequence(), 0xe5b2_328d_e0e8_3dfc);
    }
}
