//! Parses packets: destinations, and the source port and sequence number of TCP over IPv4.

use std::net::Ipv4Addr;

use crate::hosts::address;

const TCP: u8 = 6;
const SYN: u8 = 0x02;

/// The destination of a packet, that of IPv6 as the same host's IPv4 address; `None` if the packet
/// is neither, or if its IPv6 destination is no host.
pub fn destination(packet: &[u8]) -> Option<Ipv4Addr> {
    match packet {
        _ if is_ipv4(packet) => Some(<[u8; 4]>::try_from(&packet[16..20]).ok()?.into()),
        [first, ..] if first >> 4 == 6 => {
            let destination = <[u8; 16]>::try_from(packet.get(24..40)?).ok()?;
            address::from_ipv6(destination.into())
        }
        _ => None,
    }
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
    /// Whether it is a SYN.
    pub is_syn: bool,
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
        })
    }
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
        packet[12..16].copy_from_slice(&crate::hosts::address::of_path(user, 0).octets());
        packet[16..20].copy_from_slice(&crate::hosts::address::SERVER.octets());
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
        };
        assert_eq!(Segment::of(&packet), Some(segment));
        assert_eq!(destination(&packet), Some(crate::hosts::address::SERVER));
    }

    #[test]
    fn a_syn_is_a_segment_and_a_pure_acknowledgement_is_not() {
        assert_eq!(Segment::of(&tcp(0, 1, 1, 0, 0x10)), None);
        assert!(Segment::of(&tcp(0, 1, 1, 0, SYN)).is_some_and(|segment| segment.is_syn));
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
