//! Packet numbers as byte numbers.

/// The bytes of numbered packets, all of which are full but some.
#[derive(Debug)]
pub(crate) struct Numbers {
    /// The payload of a full packet.
    full: u64,
    /// The first packet that was not sent yet.
    next: u64,
    /// The packets that are not full, and by how many bytes they and those before them are not.
    lacking: Vec<(u64, u64)>,
}

impl Numbers {
    pub fn new(full: u64) -> Numbers {
        Numbers {
            full,
            next: 0,
            lacking: Vec::new(),
        }
    }

    /// The first byte of `packet`, or the bytes of all before it.
    pub fn first(&self, packet: u64) -> u64 {
        let shorter = self.lacking.partition_point(|&(number, _)| number < packet);
        let lacks = shorter
            .checked_sub(1)
            .map_or(0, |last| self.lacking[last].1);
        packet * self.full - lacks
    }

    /// Whether `packet` was sent.
    pub fn is_sent(&self, packet: u64) -> bool {
        packet < self.next
    }

    /// The bytes of `packet`, of which `bytes` are told. What it had when it was first sent counts.
    pub fn bytes(&mut self, packet: u64, bytes: u64) -> u64 {
        if packet >= self.next {
            self.next = packet + 1;
            if bytes < self.full {
                let before = self.lacking.last().map_or(0, |&(_, lacks)| lacks);
                self.lacking.push((packet, before + self.full - bytes));
            }
        }
        self.first(packet + 1) - self.first(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets of 100 bytes, of which number 1 has 40 and number 3 has 1.
    #[test]
    fn bytes_are_those_before_a_packet() {
        let mut numbers = Numbers::new(100);
        let sent = [100, 40, 100, 1, 100];
        for (packet, bytes) in (0..).zip(sent) {
            assert_eq!(numbers.bytes(packet, bytes), bytes);
        }
        let first: Vec<u64> = (0..6).map(|packet| numbers.first(packet)).collect();
        assert_eq!(first, [0, 100, 140, 240, 241, 341]);
    }

    #[test]
    fn a_packet_that_is_sent_again_has_the_bytes_that_it_had() {
        let mut numbers = Numbers::new(100);
        numbers.bytes(0, 40);
        assert_eq!(numbers.bytes(0, 100), 40);
    }
}
