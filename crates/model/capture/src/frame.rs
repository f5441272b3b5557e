//! A packet of TCP as the bytes of its headers.

use std::net::Ipv4Addr;

use etherparse::{EtherType, Ethernet2Header, IpEcn, IpNumber, Ipv4Header, TcpHeader, TcpOptions};

use crate::options::Options;

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
