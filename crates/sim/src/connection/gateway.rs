//! The gateway of an aggregate connection: the files it holds, one packet of each in turn.
//!
//! The connection delivers in order, so the receiver has a file as soon as it has the file's last
//! packet and all before it. So the gateway keeps one number per file in transit, and no state per
//! packet.

use std::collections::VecDeque;

use anabranch_control::{Adjuster, BufferSample};
use anabranch_net::{Dice, Time};

use crate::connection::tcp::Tcp;
use crate::network::PacketNumber;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct File {
    pub arrived_at: Time,
    pub bytes: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Gateway {
    /// Files that are not completely sent, and their remaining packets; the next in turn is first.
    waiting: VecDeque<(File, u64)>,
    /// Files that are completely sent but not delivered, and the number of their last packet.
    in_transit: VecDeque<(PacketNumber, File)>,
    /// By how much the last packets of delivered files were shorter than full ones, bytes.
    lacked: u64,
    adjustment: Option<Adjustment>,
}

/// Adjusts kappa, and its random waiting times.
#[derive(Debug)]
struct Adjustment {
    adjuster: Adjuster,
    dice: Dice,
}

impl Gateway {
    /// An empty gateway; `adjuster` adjusts its kappa, if there is one.
    pub fn new(adjuster: Option<Adjuster>, dice: Dice) -> Gateway {
        let adjustment = adjuster.map(|adjuster| Adjustment { adjuster, dice });
        Gateway {
            adjustment,
            ..Gateway::default()
        }
    }

    /// Adds a file of `packets` packets.
    pub fn push(&mut self, file: File, packets: u64) {
        self.waiting.push_back((file, packets));
    }

    /// How long to wait for the next sample of the buffer, s; `None` if kappa is fixed.
    pub fn wait_s(&mut self) -> Option<f64> {
        let Adjustment { adjuster, dice } = self.adjustment.as_mut()?;
        Some(adjuster.wait_s(|| dice.uniform()))
    }

    /// Takes a sample of the buffer and gives kappa; `None` if kappa is fixed.
    pub fn sample(&mut self, sample: &BufferSample) -> Option<f64> {
        let adjuster = &mut self.adjustment.as_mut()?.adjuster;
        adjuster.sample(sample);
        Some(adjuster.kappa())
    }

    /// The kappa of the adjustment; `None` if kappa is fixed.
    pub fn kappa(&self) -> Option<f64> {
        let adjustment = self.adjustment.as_ref()?;
        Some(adjustment.adjuster.kappa())
    }

    /// Takes a packet of the next file in turn; the packet gets the data number `data`.
    pub fn take(&mut self, data: PacketNumber) {
        let Some((file, packets)) = self.waiting.pop_front() else {
            return;
        };
        if packets > 1 {
            self.waiting.push_back((file, packets - 1));
        } else {
            self.in_transit.push_back((data, file));
        }
    }

    /// The size of a packet: full, except for the last of a file. A packet sent again after its
    /// file was delivered counts as full.
    pub fn packet_bytes(&self, tcp: &Tcp, data: PacketNumber) -> u16 {
        match self
            .in_transit
            .binary_search_by_key(&data, |&(last, _)| last)
        {
            Ok(place) => tcp.packet_bytes - lacking(tcp, &self.in_transit[place].1),
            Err(_) => tcp.packet_bytes,
        }
    }

    /// Payload of the first `received` packets.
    pub fn payload_of(&self, tcp: &Tcp, received: PacketNumber) -> u64 {
        received * tcp.payload() - self.lacked
    }

    /// Whether the first `received` packets complete a file that was not delivered yet.
    #[inline]
    pub fn has_file(&self, received: PacketNumber) -> bool {
        self.in_transit
            .front()
            .is_some_and(|&(last, _)| last < received)
    }

    pub fn deliver(&mut self, tcp: &Tcp, received: PacketNumber) -> Option<File> {
        if !self.has_file(received) {
            return None;
        }
        let (_, file) = self.in_transit.pop_front()?;
        self.lacked += u64::from(lacking(tcp, &file));
        Some(file)
    }
}

/// By how much the last packet of a file is shorter than a full one, bytes.
fn lacking(tcp: &Tcp, file: &File) -> u16 {
    (file.bytes.next_multiple_of(tcp.payload()) - file.bytes) as u16
}

#[cfg(test)]
mod tests {
    use anabranch_scenario::PacketBytes;

    use super::*;

    /// Packets of 1000 bytes, 900 of them payload.
    fn tcp() -> Tcp {
        Tcp::new(&anabranch_scenario::Tcp {
            packet_bytes: PacketBytes::try_from(1000.0).expect("in range"),
            header_bytes: 100,
            ..Default::default()
        })
    }

    fn file(bytes: u64) -> File {
        File {
            arrived_at: 0,
            bytes,
        }
    }

    /// A of 3 packets and B of 2 take turns: A B A B A. C comes after the first two.
    /// So A B A B C A: the last packets are 3 of B, 4 of C and 5 of A.
    fn three_files() -> Gateway {
        let mut gateway = Gateway::default();
        gateway.waiting.extend([(file(2500), 3), (file(1800), 2)]);
        (0..2).for_each(|data| gateway.take(data));
        gateway.waiting.push_back((file(1), 1));
        (2..7).for_each(|data| gateway.take(data));
        gateway
    }

    #[test]
    fn each_file_gives_a_packet_in_turn() {
        let gateway = three_files();
        let last: Vec<_> = gateway
            .in_transit
            .iter()
            .map(|(data, file)| (*data, file.bytes))
            .collect();
        assert_eq!(last, [(3, 1800), (4, 1), (5, 2500)]);
        assert!(gateway.waiting.is_empty());
    }

    /// Payload is 900 bytes: A ends with 700, B with 900, C with 1.
    #[test]
    fn the_last_packet_of_a_file_is_as_long_as_what_is_left() {
        let gateway = three_files();
        let bytes: Vec<u16> = (0..6)
            .map(|data| gateway.packet_bytes(&tcp(), data))
            .collect();
        assert_eq!(bytes, [1000, 1000, 1000, 1000, 101, 800]);
    }

    #[test]
    fn a_file_is_delivered_with_its_last_packet_and_all_before_it() {
        let mut gateway = three_files();
        assert_eq!(gateway.deliver(&tcp(), 3), None);
        assert_eq!(gateway.deliver(&tcp(), 5), Some(file(1800)));
        assert_eq!(gateway.deliver(&tcp(), 5), Some(file(1)));
        assert_eq!(gateway.deliver(&tcp(), 5), None);
        assert_eq!(gateway.payload_of(&tcp(), 5), 4 * 900 + 1);
        assert_eq!(gateway.deliver(&tcp(), 6), Some(file(2500)));
        assert_eq!(gateway.payload_of(&tcp(), 6), 2500 + 1800 + 1);
    }
}
