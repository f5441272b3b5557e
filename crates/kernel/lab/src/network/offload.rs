//! The header that precedes packets on the lab's TUN devices: the kernel's `struct virtio_net_hdr`,
//! in native byte order, which is a TUN device's default.
//!
//! It has the flags and the kind of packet (1 byte each), then numbers of 2 bytes: the length of IP
//! and TCP headers and the payload of a segment, which are set only if several segments are in one
//! packet, and the start and the offset of the [`PartialChecksum`].

use crate::network::packet::{Packet, PartialChecksum};

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
