//! Acknowledgements that return over links: they queue there and are lost there.
//!
//! A lost acknowledgement takes its information with it, so each repeats what those before it said:
//! the cumulative number, and the blocks of packets above it that arrived last, three beside a
//! timestamp (RFC 2018). The sender's scoreboard takes both (RFC 6675).

use std::collections::VecDeque;
use std::ops::Range;

use crate::connection::bits::Reassembly;
use crate::network::{Acknowledgement, PacketNumber};

/// SACK blocks that fit beside a timestamp into TCP's 40 bytes of options (RFC 2018, section 3).
const BLOCKS: usize = 3;

/// A SACK option and its padding: `FIXED + n * EACH` bytes for `n` blocks.
const FIXED: u16 = 4;
const EACH: u16 = 8;

/// An acknowledgement and its SACK blocks, the latest first.
#[derive(Debug)]
pub(crate) struct Sacking {
    pub ack: Acknowledgement,
    pub blocks: Vec<Range<PacketNumber>>,
}

impl Sacking {
    /// What the blocks add to an acknowledgement without them.
    pub fn option_bytes(&self) -> u16 {
        match self.blocks.len() as u16 {
            0 => 0,
            count => FIXED + count * EACH,
        }
    }
}

/// The links of a path's acknowledgements, and those that are on their way.
#[derive(Debug)]
pub(crate) struct WayBack {
    /// Index of the first hop in the network's table.
    pub first_hop: u32,
    /// The acknowledgements from the first on that is on its way, and its number; `None` is one
    /// that has overtaken it, or is lost.
    sent: VecDeque<Option<Sacking>>,
    first: PacketNumber,
    /// The blocks last reported, the latest first.
    recent: Vec<Range<PacketNumber>>,
}

impl WayBack {
    /// A way back without acknowledgements.
    pub fn new(first_hop: u32) -> WayBack {
        WayBack {
            first_hop,
            sent: VecDeque::new(),
            first: 0,
            recent: Vec::new(),
        }
    }

    /// The blocks to report when `sequence` has arrived: first the one around it, then those that
    /// were reported before (RFC 2018, section 4).
    pub fn report(
        &mut self,
        receiver: &Reassembly,
        sequence: PacketNumber,
    ) -> &[Range<PacketNumber>] {
        let next = receiver.next();
        self.recent.retain(|block| block.start > next);
        if sequence > next {
            let latest = receiver.block(sequence, &self.recent);
            self.recent.retain(|block| !latest.contains(&block.start));
            self.recent.insert(0, latest);
            self.recent.truncate(BLOCKS);
        }
        &self.recent
    }

    /// Stores an acknowledgement; gives its number.
    pub fn push(&mut self, sacking: Sacking) -> PacketNumber {
        self.sent.push_back(Some(sacking));
        self.first + self.sent.len() as PacketNumber - 1
    }

    /// Takes the acknowledgement of this number, which arrives or is lost.
    pub fn take(&mut self, number: PacketNumber) -> Option<Sacking> {
        let place = number.checked_sub(self.first)? as usize;
        let taken = self.sent.get_mut(place)?.take();
        while self.sent.front().is_some_and(Option::is_none) {
            self.sent.pop_front();
            self.first += 1;
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first and last packets of the blocks reported after each of these has arrived.
    fn reported(arrivals: &[PacketNumber]) -> Vec<Vec<(PacketNumber, PacketNumber)>> {
        let (mut way_back, mut receiver) = (WayBack::new(0), Reassembly::default());
        let report = |&sequence: &PacketNumber| {
            receiver.receive(sequence);
            let blocks = way_back.report(&receiver, sequence).iter();
            blocks.map(|block| (block.start, block.end - 1)).collect()
        };
        arrivals.iter().map(report).collect()
    }

    /// The third example of RFC 2018, section 5, in packets: of eight, those with odd numbers are
    /// lost; then the fourth arrives, and then the second.
    #[test]
    fn the_latest_block_is_reported_first() {
        assert_eq!(
            reported(&[0, 2, 4, 6, 3, 1]),
            [
                vec![],
                vec![(2, 2)],
                vec![(4, 4), (2, 2)],
                vec![(6, 6), (4, 4), (2, 2)],
                vec![(2, 4), (6, 6)],
                vec![(6, 6)],
            ]
        );
    }

    /// A block that is no longer reported is a part of the one that reaches it.
    #[test]
    fn a_block_is_all_that_has_arrived_around_a_packet() {
        let blocks = reported(&[1, 2, 5, 7, 9, 3, 4]);
        assert_eq!(blocks[4], [(9, 9), (7, 7), (5, 5)]);
        assert_eq!(blocks[5], [(1, 3), (9, 9), (7, 7)]);
        assert_eq!(blocks[6], [(1, 5), (9, 9), (7, 7)]);
    }

    #[test]
    fn acknowledgements_are_taken_in_any_order_and_once() {
        let mut way_back = WayBack::new(0);
        let sacking = |cumulative| Sacking {
            ack: Acknowledgement {
                sent_at: 0,
                connection: 0,
                cumulative,
                selective: 0,
                data_cumulative: 0,
                path: 0,
                ecn: Default::default(),
            },
            blocks: Vec::new(),
        };
        let numbers: Vec<PacketNumber> = (0..4).map(|n| way_back.push(sacking(n))).collect();
        assert_eq!(numbers, [0, 1, 2, 3]);
        let taken = [2, 0, 2, 1, 0].map(|number| {
            let taken = way_back.take(number);
            taken.map(|sacking| sacking.ack.cumulative)
        });
        assert_eq!(taken, [Some(2), Some(0), None, Some(1), None]);
        assert_eq!(way_back.push(sacking(4)), 4);
        assert_eq!(way_back.sent.len(), 2, "3 and 4 are on their way");
    }
}
