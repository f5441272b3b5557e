//! The behaviour that all endpoints of a scenario have in common.

use anabranch_net::Time;
use anabranch_scenario as scenario;
use anabranch_scenario::time::from_seconds;

/// Headers of IPv4 and TCP without options, bytes: no acknowledgement is smaller, also where
/// `header_bytes` are fewer, so that goodput counts whole packets.
const IP_AND_TCP_BYTES: u16 = 40;

/// The keys `tcp` of a scenario, also in the units of packets and timers.
#[derive(Clone, Debug)]
pub(crate) struct Tcp {
    /// The keys as written.
    pub keys: scenario::Tcp,
    /// Size of a full packet, bytes.
    pub packet_bytes: u16,
    /// Headers of a data packet, bytes.
    pub header_bytes: u16,
    /// Size of an acknowledgement without SACK blocks, bytes.
    pub ack_bytes: u16,
    /// Receive buffer of a connection, packets: the smaller of its two limits.
    pub receive_packets: u32,
    /// Floor of the retransmission timeout.
    pub min_rto: Time,
    /// The most unsent data in a path's queue, packets.
    pub notsent: u32,
    /// The longest time for which the sender's host delays a packet.
    pub host_jitter: Time,
}

impl Tcp {
    pub fn new(keys: &scenario::Tcp) -> Tcp {
        let (packet_bytes, header_bytes) = (keys.packet_bytes.get(), keys.header_bytes);
        let payload = f64::from(packet_bytes - header_bytes);
        Tcp {
            keys: keys.clone(),
            packet_bytes: packet_bytes as u16,
            header_bytes: header_bytes as u16,
            ack_bytes: (header_bytes as u16).max(IP_AND_TCP_BYTES),
            receive_packets: keys.receive_packets(),
            min_rto: from_seconds(keys.min_rto_ms.get() * 1e-3),
            notsent: (keys.notsent_bytes.get() / payload).ceil() as u32,
            host_jitter: from_seconds(keys.host_jitter_us.get() * 1e-3 * 1e-3),
        }
    }

    /// Payload of a full packet of a flow without a size of its own.
    pub fn payload(&self) -> u64 {
        u64::from(self.packet_bytes - self.header_bytes)
    }
}
