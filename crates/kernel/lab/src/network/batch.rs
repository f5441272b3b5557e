//! Packets that are written to a device at once, as by network cards with generic receive offload
//! (GRO): consecutive TCP segments of a connection that are due in the same wake-up. A write
//! executes the receiving host's TCP, which takes more time than the rest of the forwarder; for a
//! batch it does so once.

use std::ops::Range;

use anabranch_net::Time;

use crate::network::emulator::{Delivery, Device};
use crate::network::packet;
use crate::network::packet::{HEADER_BYTES, Packet, PartialChecksum, TCP, sum};

/// Connections whose segments are gathered at the same time, as in Linux' GRO.
const BATCHES: usize = 8;

/// Length of an IPv4 header without options, bytes.
const IP_BYTES: usize = 20;
/// Length of both headers without options, bytes.
const MIN_HEADERS: usize = IP_BYTES + 20;
/// The largest total length of an IPv4 packet, bytes.
const MAX_BYTES: usize = 65_535;
/// The partial checksum of TCP over IPv4 without IP options.
const TCP_CHECKSUM: PartialChecksum = PartialChecksum {
    start: IP_BYTES as u16,
    offset: 16,
};

/// Offsets of fields in a packet of TCP over IPv4 without IP options.
const LENGTH: usize = 2;
const ID: usize = 4;
const FRAGMENT: usize = 6;
const PROTOCOL: usize = 9;
const IP_CHECKSUM: usize = 10;
const ADDRESSES: Range<usize> = 12..20;
const CONNECTION: Range<usize> = 12..24;
const SEQUENCE: usize = 24;
const DATA_OFFSET: usize = 32;
const FLAGS: usize = 33;
const CHECKSUM: usize = 36;
/// The rest of the fixed headers, which must be equal in all packets of a batch: version and TOS;
/// "don't fragment", TTL and protocol; addresses and ports; acknowledgement number and data offset;
/// window; urgent pointer.
const EQUAL: [Range<usize>; 6] = [0..2, 6..10, 12..24, 28..33, 34..36, 38..40];

const DONT_FRAGMENT: u16 = 0x4000;
const ACK: u8 = 0x10;
const PSH: u8 = 0x08;

/// The packets of a wake-up that wait for others to be written with them.
#[derive(Debug, Default)]
pub struct Batches {
    /// Each is empty or can be extended; those that can't be any more are written at once.
    batches: [Batch; BATCHES],
}

impl Batches {
    /// Adds a packet, and has `write` write all that must not wait for others. Packets of different
    /// TCP connections may overtake one another; no other packets do.
    ///
    /// # Errors
    /// Errors of `write`.
    pub fn add<E>(
        &mut self,
        delivery: &Delivery,
        mut write: impl FnMut(&Batch) -> Result<(), E>,
    ) -> Result<(), E> {
        let segment = Mergeable::of(&delivery.packet);
        let extended = self
            .batches
            .iter_mut()
            .find_map(|batch| batch.extend(delivery, segment?).then_some(batch));
        let batch = match extended {
            Some(batch) => batch,
            None => {
                for batch in &mut self.batches {
                    if batch.must_precede(delivery, segment) {
                        batch.write(&mut write)?;
                    }
                }
                if !self.batches.iter().any(Batch::is_empty) {
                    self.flush(&mut write)?;
                }
                let free = self.batches.iter_mut().find(|batch| batch.is_empty());
                let batch = free.expect("flush empties all");
                batch.start(delivery, segment);
                batch
            }
        };
        match batch.open {
            Some(_) => Ok(()),
            None => batch.write(&mut write),
        }
    }

    /// Has `write` write all packets, and returns whether there were any.
    ///
    /// # Errors
    /// Errors of `write`.
    pub fn flush<E>(&mut self, mut write: impl FnMut(&Batch) -> Result<(), E>) -> Result<bool, E> {
        let mut any = false;
        for batch in &mut self.batches {
            if !batch.is_empty() {
                any = true;
                batch.write(&mut write)?;
            }
        }
        Ok(any)
    }
}

/// Packets that are written at once: one of any kind, or consecutive segments of a TCP connection,
/// as a single packet with a header that has their size. Linux' own GRO has the same conditions for
/// segments (`tcp_gro_receive`).
#[derive(Debug)]
pub struct Batch {
    /// The device.
    pub to: Device,
    /// The header and the packet, to whose end the payload of further segments is added.
    pub buffer: Vec<u8>,
    /// Time at which each packet was due; empty if the batch is.
    pub dues: Vec<Time>,
    /// The first segment; `None`: nothing can be added.
    open: Option<Mergeable>,
}

impl Default for Batch {
    fn default() -> Batch {
        Batch {
            to: Device::Server,
            buffer: Vec::new(),
            dues: Vec::new(),
            open: None,
        }
    }
}

/// A segment that may be merged with others of its connection.
#[derive(Clone, Copy, Debug)]
struct Mergeable {
    /// Length of the IP and TCP headers, bytes.
    headers: usize,
    /// Length of the payload, bytes.
    payload: usize,
}

impl Mergeable {
    /// `None` for any other packet. A checksum that is complete would have to be verified first; it
    /// is not from a host's TCP, which leaves it to the device.
    fn of(packet: &Packet) -> Option<Mergeable> {
        let bytes = &packet.bytes[..];
        let is_plain = packet.checksum == Some(TCP_CHECKSUM)
            && bytes.len() > MIN_HEADERS
            && bytes[0] == 0x45
            && bytes[PROTOCOL] == TCP
            && usize::from(word(bytes, LENGTH)) == bytes.len()
            && word(bytes, FRAGMENT) & !DONT_FRAGMENT == 0
            && bytes[DATA_OFFSET] & 0x0f == 0
            && bytes[FLAGS] & !PSH == ACK;
        if !is_plain {
            return None;
        }
        let headers = IP_BYTES + usize::from(bytes[DATA_OFFSET] >> 4) * 4;
        let payload = bytes.len().checked_sub(headers)?;
        (headers >= MIN_HEADERS && payload > 0).then_some(Mergeable { headers, payload })
    }
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.dues.is_empty()
    }

    /// Makes a packet of any kind, here and below with what it is as a segment, the first of the
    /// batch, which must be empty.
    fn start(&mut self, delivery: &Delivery, segment: Option<Mergeable>) {
        debug_assert!(self.is_empty());
        let Delivery { due, to, packet } = delivery;
        self.to = *to;
        self.dues.push(*due);
        self.buffer.extend(packet::header(packet.checksum));
        self.buffer.extend_from_slice(&packet.bytes);
        self.open = segment.filter(|_| packet.bytes[FLAGS] & PSH == 0);
    }

    /// Adds a packet if it is the next segment of the same connection, and returns whether it is.
    /// Nothing can be added after the flag PSH, or after less payload than in the first segment.
    fn extend(&mut self, delivery: &Delivery, segment: Mergeable) -> bool {
        let Some(first) = self.open else {
            return false;
        };
        let packet = &delivery.packet.bytes;
        let batch = &mut self.buffer[HEADER_BYTES..];
        let fits = self.to == delivery.to
            && segment.headers == first.headers
            && segment.payload <= first.payload
            && batch.len() + segment.payload <= MAX_BYTES;
        if !fits {
            return false;
        }
        let id = word(batch, ID).wrapping_add(self.dues.len() as u16);
        let before = (batch.len() - first.headers) as u32;
        let sequence = double_word(batch, SEQUENCE).wrapping_add(before);
        let options = MIN_HEADERS..first.headers;
        let mut equal = EQUAL.into_iter().chain([options]);
        if word(packet, ID) != id
            || double_word(packet, SEQUENCE) != sequence
            || !equal.all(|range| packet[range.clone()] == batch[range])
        {
            return false;
        }
        batch[FLAGS] |= packet[FLAGS];
        if segment.payload < first.payload || packet[FLAGS] & PSH != 0 {
            self.open = None;
        }
        if self.dues.len() == 1 {
            let [headers, payload] = [first.headers, first.payload].map(|bytes| bytes as u16);
            packet::set_segments(&mut self.buffer, headers, payload);
        }
        self.buffer.extend_from_slice(&packet[first.headers..]);
        self.dues.push(delivery.due);
        true
    }

    /// Whether the batch has to be written before a packet that does not extend it.
    fn must_precede(&self, delivery: &Delivery, segment: Option<Mergeable>) -> bool {
        let is_other_connection = || {
            segment.is_some()
                && self.buffer[HEADER_BYTES..][CONNECTION] != delivery.packet.bytes[CONNECTION]
        };
        !self.is_empty() && self.to == delivery.to && !is_other_connection()
    }

    /// Has `write` write the batch, and empties it.
    fn write<E>(&mut self, mut write: impl FnMut(&Batch) -> Result<(), E>) -> Result<(), E> {
        if self.dues.len() > 1 {
            correct_lengths(&mut self.buffer[HEADER_BYTES..]);
        }
        let written = write(self);
        self.buffer.clear();
        self.dues.clear();
        self.open = None;
        written
    }
}

/// Sets what depends on the length of a packet of TCP over IPv4: the length, the checksum of the IP
/// header, and the sum of TCP's pseudo-header, which is TCP's partial checksum.
fn correct_lengths(packet: &mut [u8]) {
    let length = packet.len() as u16;
    packet[LENGTH..][..2].copy_from_slice(&length.to_be_bytes());
    packet[IP_CHECKSUM..][..2].fill(0);
    let checksum = !sum(&packet[..IP_BYTES], 0);
    packet[IP_CHECKSUM..][..2].copy_from_slice(&checksum.to_be_bytes());
    let protocol_and_length = u16::from(TCP) + (length - IP_BYTES as u16);
    let pseudo_header = sum(&packet[ADDRESSES], protocol_and_length);
    packet[CHECKSUM..][..2].copy_from_slice(&pseudo_header.to_be_bytes());
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn double_word(bytes: &[u8], at: usize) -> u32 {
    u32::from(word(bytes, at)) << 16 | u32::from(word(bytes, at + 2))
}

#[cfg(test)]
mod tests;
