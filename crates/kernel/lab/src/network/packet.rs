//! Packets with their partial checksums, and what is read from them: destinations, and the source
//! port and sequence number of TCP over IPv4.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::Ipv4Addr;

use crate::hosts;

/// The protocol number of TCP.
pub(crate) const TCP: u8 = 6;
/// The protocol number of UDP.
const UDP: u8 = 17;
const SYN: u8 = 0x02;
const CWR: u8 = 0x80;

/// An IP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// IP header and payload.
    pub bytes: Vec<u8>,
    /// The checksum that its sender has left to the network; `None` if all are complete.
    pub checksum: Option<PartialChecksum>,
}

/// A checksum of TCP or UDP whose field has the sum of the pseudo-header only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialChecksum {
    /// The first byte that the checksum covers; it covers all from there on.
    pub start: u16,
    /// Position of the field, bytes from `start`.
    pub offset: u16,
}

impl Packet {
    /// The packet as it is on a real wire, with all checksums complete.
    pub fn complete(self) -> Vec<u8> {
        let mut bytes = self.bytes;
        if let Some(PartialChecksum { start, offset }) = self.checksum {
            let start = usize::from(start);
            let covered = bytes.get(start..).unwrap_or_default();
            // 0 means no checksum for UDP, and its complement is the same number.
            let checksum = match !sum(covered, 0) {
                0 => u16::MAX,
                checksum => checksum,
            };
            let field = start + usize::from(offset);
            if let Some(field) = bytes.get_mut(field..field + 2) {
                field.copy_from_slice(&checksum.to_be_bytes());
            }
        }
        bytes
    }
}

/// Codepoint in the last two bits of the traffic class (RFC 3168, section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// Not-ECT: links drop it.
    NotCapable,
    /// ECT(0) or ECT(1): links may mark it.
    Capable,
    /// CE: a link has marked it.
    Marked,
}

/// Both bits of [`Ecn`], of IPv4 in byte 1.
const MARKED: u8 = 3;

impl Packet {
    /// Whether it is ECN-capable, and marked.
    pub fn ecn(&self) -> Ecn {
        let bits = match self.bytes[..] {
            [first, class, ..] if first >> 4 == 4 => class & MARKED,
            [first, class, ..] if first >> 4 == 6 => class >> 4 & MARKED,
            _ => 0,
        };
        match bits {
            0 => Ecn::NotCapable,
            MARKED => Ecn::Marked,
            _ => Ecn::Capable,
        }
    }

    /// Marks it. No checksum of TCP covers the traffic class; the header's of IPv4 does.
    pub fn mark(&mut self) {
        if !is_ipv4(&self.bytes) {
            if let [first, class, ..] = &mut self.bytes[..]
                && *first >> 4 == 6
            {
                *class |= MARKED << 4;
            }
            return;
        }
        self.bytes[1] |= MARKED;
        self.bytes[10..12].fill(0);
        let header = usize::from(self.bytes[0] & 15) * 4;
        let checksum = !sum(self.bytes.get(..header).unwrap_or_default(), 0);
        self.bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// A packet with complete checksums.
impl From<Vec<u8>> for Packet {
    fn from(bytes: Vec<u8>) -> Packet {
        Packet {
            bytes,
            checksum: None,
        }
    }
}

/// The sum of the Internet checksum (RFC 1071), not complemented; `initial` is added to it.
pub(crate) fn sum(bytes: &[u8], initial: u16) -> u16 {
    let words = bytes.chunks(2).map(|word| match *word {
        [high, low] => u64::from(u16::from_be_bytes([high, low])),
        [high] => u64::from(high) << 8,
        _ => 0,
    });
    let mut sum = u64::from(initial) + words.sum::<u64>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The destination of a packet; an IPv6 destination as the same host's IPv4 address. `None` if the
/// packet is neither, or if its IPv6 destination is no host.
pub fn destination(packet: &[u8]) -> Option<Ipv4Addr> {
    match packet {
        _ if is_ipv4(packet) => Some(<[u8; 4]>::try_from(&packet[16..20]).ok()?.into()),
        [first, ..] if first >> 4 == 6 => {
            let destination = <[u8; 16]>::try_from(packet.get(24..40)?).ok()?;
            hosts::from_ipv6(destination.into())
        }
        _ => None,
    }
}

/// The flow of a packet in a queue that separates flows: of its addresses, its protocol, and the
/// ports of TCP and UDP, which RFC 8290 takes.
pub fn flow(packet: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    let (addresses, protocol, payload) = match packet {
        _ if is_ipv4(packet) => (12..20, 9, usize::from(packet[0] & 15) * 4),
        _ => (8..40, 6, 40),
    };
    let protocol = packet.get(protocol);
    packet.get(addresses).hash(&mut hasher);
    protocol.hash(&mut hasher);
    if matches!(protocol, Some(&(TCP | UDP))) {
        packet.get(payload..payload + 4).hash(&mut hasher);
    }
    hasher.finish()
}

/// Whether it is an IPv4 packet with a complete header.
fn is_ipv4(packet: &[u8]) -> bool {
    packet.len() >= 20 && packet[0] >> 4 == 4
}

/// A TCP segment with data, or one that opens a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The sender's port.
    pub port: u16,
    /// Sequence number of the first byte of payload, or of the SYN.
    pub sequence: u32,
    /// Bytes of payload.
    pub bytes: u32,
    /// Whether the segment is a SYN.
    pub is_syn: bool,
    /// Whether its sender has reduced the window (CWR, RFC 3168).
    pub has_reduced: bool,
}

impl Segment {
    /// The segment in an IPv4 packet; `None` if it is not TCP, is truncated, or is a pure
    /// acknowledgement.
    pub fn of(packet: &[u8]) -> Option<Segment> {
        if !is_ipv4(packet) || packet[9] != TCP {
            return None;
        }
        let total = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
        let packet = packet.get(..total)?;
        let tcp = packet.get(usize::from(packet[0] & 15) * 4..)?;
        if tcp.len() < 20 {
            return None;
        }
        let payload = tcp.get(usize::from(tcp[12] >> 4) * 4..)?;
        let is_syn = tcp[13] & SYN != 0;
        (is_syn || !payload.is_empty()).then(|| Segment {
            port: u16::from_be_bytes([tcp[0], tcp[1]]),
            sequence: u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]),
            bytes: payload.len() as u32,
            is_syn,
            has_reduced: !is_syn && tcp[13] & CWR != 0,
        })
    }
}

// The header that precedes packets on the lab's TUN devices: the kernel's `struct virtio_net_hdr`,
// in native byte order, which is a TUN device's default.
//
// It has the flags and the kind of packet (1 byte each), then numbers of 2 bytes: the length of IP
// and TCP headers and the payload of a segment, which are set only if several segments are in one
// packet, and the start and the offset of the [`PartialChecksum`].

/// Length of the header, bytes.
pub const HEADER_BYTES: usize = 10;
/// Flag: the packet has a partial checksum (VIRTIO_NET_HDR_F_NEEDS_CSUM).
const NEEDS_CHECKSUM: u8 = 1;
/// Kind: segments of TCP over IPv4 (VIRTIO_NET_HDR_GSO_TCPV4).
const TCP_IPV4: u8 = 1;

/// The packet that was read from a device with its header; `None` if the header is incomplete.
pub fn packet(read: &[u8]) -> Option<Packet> {
    let (header, bytes) = read.split_at_checked(HEADER_BYTES)?;
    let field = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
    let partial = header[0] & NEEDS_CHECKSUM != 0;
    Some(Packet {
        bytes: bytes.to_vec(),
        checksum: partial.then(|| PartialChecksum {
            start: field(6),
            offset: field(8),
        }),
    })
}

/// The header of a packet that is written by itself.
pub fn header(checksum: Option<PartialChecksum>) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    if let Some(PartialChecksum { start, offset }) = checksum {
        header[0] = NEEDS_CHECKSUM;
        header[6..8].copy_from_slice(&start.to_ne_bytes());
        header[8..10].copy_from_slice(&offset.to_ne_bytes());
    }
    header
}

/// Makes it the header of several segments of TCP over IPv4 in one packet. `headers` is the length
/// of its IP and TCP headers, `payload` the length of each segment but the last, bytes.
pub fn set_segments(header: &mut [u8], headers: u16, payload: u16) {
    header[1] = TCP_IPV4;
    header[2..4].copy_from_slice(&headers.to_ne_bytes());
    header[4..6].copy_from_slice(&payload.to_ne_bytes());
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A TCP packet of 40 bytes of headers and a payload, from path 0 of `user` to the server.
    pub(crate) fn tcp(user: usize, port: u16, sequence: u32, bytes: usize, flags: u8) -> Vec<u8> {
        let mut packet = vec![0; 40 + bytes];
        packet[0] = 0x45;
        packet[2..4].copy_from_slice(&(40 + bytes as u16).to_be_bytes());
        packet[9] = TCP;
        packet[12..16].copy_from_slice(&crate::hosts::of_path(user, 0).octets());
        packet[16..20].copy_from_slice(&crate::hosts::SERVER.octets());
        packet[20..22].copy_from_slice(&port.to_be_bytes());
        packet[24..28].copy_from_slice(&sequence.to_be_bytes());
        packet[32] = 0x50;
        packet[33] = flags;
        packet
    }

    #[test]
    fn a_segment_is_read_from_its_packet() {
        let packet = tcp(3, 4000, 77, 100, 0x10);
        let segment = Segment {
            port: 4000,
            sequence: 77,
            bytes: 100,
            is_syn: false,
            has_reduced: false,
        };
        assert_eq!(Segment::of(&packet), Some(segment));
        assert_eq!(destination(&packet), Some(crate::hosts::SERVER));
    }

    #[test]
    fn a_flow_is_that_of_addresses_and_ports() {
        let one = flow(&tcp(0, 4000, 1, 100, 0x10));
        assert_eq!(
            one,
            flow(&tcp(0, 4000, 101, 9, SYN)),
            "another segment of it"
        );
        assert_ne!(one, flow(&tcp(0, 4001, 1, 100, 0x10)), "another port");
        assert_ne!(one, flow(&tcp(1, 4000, 1, 100, 0x10)), "another user");
    }

    #[test]
    fn a_syn_is_a_segment_and_a_pure_acknowledgement_is_not() {
        assert_eq!(Segment::of(&tcp(0, 1, 1, 0, 0x10)), None);
        assert!(Segment::of(&tcp(0, 1, 1, 0, SYN)).is_some_and(|segment| segment.is_syn));
    }

    #[test]
    fn a_mark_is_set_in_ecn_capable_packets_and_its_header_checksum_is_right() {
        let mut packet = Packet::from(tcp(0, 4000, 1, 100, 0x10));
        assert_eq!(packet.ecn(), Ecn::NotCapable);
        for capable in [1, 2] {
            packet.bytes[1] = 0xb8 | capable; // beside a DSCP
            assert_eq!(packet.ecn(), Ecn::Capable);
        }
        packet.mark();
        assert_eq!((packet.ecn(), packet.bytes[1]), (Ecn::Marked, 0xbb));
        // The words of a header with its checksum add up to 0xffff (RFC 791).
        assert_eq!(sum(&packet.bytes[..20], 0), 0xffff);
        let mut ipv6 = Packet::from([&[0x6b, 0xa5][..], &[0; 58]].concat());
        assert_eq!(ipv6.ecn(), Ecn::Capable);
        ipv6.mark();
        assert_eq!(ipv6.bytes[..3], [0x6b, 0xb5, 0]);
    }

    #[test]
    fn a_sum_is_that_of_words_with_their_carries() {
        // The example of RFC 1071, section 3.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(sum(&bytes, 0), 0xddf2);
        assert_eq!(sum(&bytes[..7], 1), 0xdcfc); // 0xf600 and 1 instead of 0xf6f7
    }

    #[test]
    fn a_partial_checksum_is_completed_and_never_0() {
        // 0x1234 in the field and 0x0001: !0x1235. With 0xedcb they add up to 0xffff.
        for (data, expected) in [([0x00, 0x01], [0xed, 0xca]), ([0xed, 0xcb], [0xff, 0xff])] {
            let packet = Packet {
                bytes: [&[9, 9, 0x12, 0x34], &data[..]].concat(),
                checksum: Some(PartialChecksum {
                    start: 2,
                    offset: 0,
                }),
            };
            assert_eq!(packet.complete(), [&[9, 9], &expected[..], &data].concat());
        }
    }

    #[test]
    fn a_checksum_beyond_its_packet_is_ignored() {
        let bytes = vec![1, 2, 3];
        for (start, offset) in [(2, 0), (4, 0), (u16::MAX, u16::MAX)] {
            let packet = Packet {
                bytes: bytes.clone(),
                checksum: Some(PartialChecksum { start, offset }),
            };
            assert_eq!(packet.complete(), bytes);
        }
    }

    #[test]
    fn a_truncated_packet_is_no_segment() {
        let packet = tcp(0, 1, 1, 10, 0x10);
        for length in 0..packet.len() {
            assert_eq!(Segment::of(&packet[..length]), None, "{length} bytes");
        }
        let mut wide = packet;
        wide[32] = 0xf0; // a header of 60 bytes, but 30 are left
        assert_eq!(Segment::of(&wide), None);
    }
}
