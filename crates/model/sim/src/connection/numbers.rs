//! A set of sequence numbers within a sliding window, one bit each.

use std::ops::Range;

use crate::network::PacketNumber;

/// Sequence numbers of a sliding window, as bits in a ring of words.
///
/// Only numbers in the window that the owner passes as `live` may be in the set; the ring grows to
/// hold that window.
#[derive(Debug, Default)]
pub(crate) struct NumberSet {
    /// The ring of a window of up to 64 numbers: in place, because many flows have one.
    few: [u64; 2],
    /// The ring of a larger window; else empty.
    many: Vec<u64>,
}

impl NumberSet {
    #[inline]
    fn words(&self) -> &[u64] {
        if self.many.is_empty() {
            &self.few
        } else {
            &self.many
        }
    }

    #[inline]
    fn words_mut(&mut self) -> &mut [u64] {
        if self.many.is_empty() {
            &mut self.few
        } else {
            &mut self.many
        }
    }

    /// The word of `sequence`, and its bit in there.
    #[inline]
    fn place(&mut self, sequence: PacketNumber) -> (&mut u64, u64) {
        let words = self.words_mut();
        let word = (sequence >> 6) as usize & (words.len() - 1);
        (&mut words[word], 1 << (sequence & 63))
    }

    #[inline]
    fn word(&self, sequence: PacketNumber) -> u64 {
        let words = self.words();
        words[(sequence >> 6) as usize & (words.len() - 1)]
    }

    /// Whether `sequence` is in the set; `sequence` must lie in the live window.
    #[inline]
    pub fn contains(&self, sequence: PacketNumber) -> bool {
        self.word(sequence) & 1 << (sequence & 63) != 0
    }

    /// Adds `sequence`; false if it was in the set already.
    #[inline]
    pub fn insert(&mut self, sequence: PacketNumber, live: Range<PacketNumber>) -> bool {
        debug_assert!(live.contains(&sequence));
        self.reserve(live);
        let (word, bit) = self.place(sequence);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// Removes `sequence`; false if it was not in the set.
    #[inline]
    pub fn remove(&mut self, sequence: PacketNumber) -> bool {
        let (word, bit) = self.place(sequence);
        let found = *word & bit != 0;
        *word &= !bit;
        found
    }

    /// Removes the numbers in `range`; returns how many there were.
    pub fn remove_range(&mut self, range: Range<PacketNumber>) -> u32 {
        let (mut at, mut removed) = (range.start, 0);
        while at < range.end {
            let end = ((at | 63) + 1).min(range.end);
            let mask = (u64::MAX >> (64 - (end - at))) << (at & 63);
            let (word, _) = self.place(at);
            removed += (*word & mask).count_ones();
            *word &= !mask;
            at = end;
        }
        removed
    }

    /// The smallest number of the set within `range`.
    pub fn first(&self, range: Range<PacketNumber>) -> Option<PacketNumber> {
        self.first_bit(range, |word| word)
    }

    /// The smallest number within `range` that is not in the set; the ring must hold `range`.
    pub fn first_missing(&self, range: Range<PacketNumber>) -> Option<PacketNumber> {
        self.first_bit(range, |word| !word)
    }

    #[inline(always)]
    fn first_bit(
        &self,
        range: Range<PacketNumber>,
        bits: impl Fn(u64) -> u64,
    ) -> Option<PacketNumber> {
        let mut at = range.start;
        while at < range.end {
            let rest = bits(self.word(at)) >> (at & 63);
            if rest != 0 {
                let found = at + PacketNumber::from(rest.trailing_zeros());
                return (found < range.end).then_some(found);
            }
            at = (at | 63) + 1;
        }
        None
    }

    /// Grows the ring so that no two numbers of `live` share a place.
    #[inline]
    pub fn reserve(&mut self, live: Range<PacketNumber>) {
        let needed = ((live.end - live.start) as usize).div_ceil(64) + 1;
        if needed > self.words().len() {
            self.grow(needed.next_power_of_two(), live);
        }
    }

    #[cold]
    fn grow(&mut self, words: usize, live: Range<PacketNumber>) {
        let many = vec![0; words];
        let old = std::mem::replace(self, NumberSet { few: [0; 2], many });
        let mut from = live.start;
        // The old ring may be shorter than the window: numbers beyond it were not in the set.
        let held = 64 * old.words().len() as PacketNumber;
        let end = live.end.min(live.start.saturating_add(held));
        while let Some(sequence) = old.first(from..end) {
            let (word, bit) = self.place(sequence);
            *word |= bit;
            from = sequence + 1;
        }
    }
}

/// A receiver's view of a sequence space: all below `next` has arrived, and some above.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    next: PacketNumber,
    /// Numbers above `next` that have arrived.
    early: NumberSet,
    /// How many they are.
    early_count: u32,
    /// The end of the window in which they lie.
    end: PacketNumber,
}

impl Reassembly {
    /// The first number that has not arrived: the cumulative acknowledgement.
    #[inline]
    pub fn next(&self) -> PacketNumber {
        self.next
    }

    /// Whether there is a hole: something above `next` has arrived.
    #[inline]
    pub fn has_hole(&self) -> bool {
        self.early_count > 0
    }

    /// The block of numbers that have arrived around `sequence`, which has; all of it above `next`.
    /// It grows by each number in `known`, blocks that have arrived, at once.
    pub fn block(
        &self,
        sequence: PacketNumber,
        known: &[Range<PacketNumber>],
    ) -> Range<PacketNumber> {
        let mut block = sequence..sequence + 1;
        loop {
            let touching = known
                .iter()
                .find(|k| k.start <= block.end && k.end >= block.start && !within(k, &block));
            if let Some(known) = touching {
                block = block.start.min(known.start)..block.end.max(known.end);
            } else if block.start > self.next && self.early.contains(block.start - 1) {
                block.start -= 1;
            } else if block.end < self.end && self.early.contains(block.end) {
                block.end += 1;
            } else {
                return block;
            }
        }
    }

    /// Receives `sequence`; false if it had arrived before.
    #[inline]
    pub fn receive(&mut self, sequence: PacketNumber) -> bool {
        if sequence == self.next {
            self.next += 1;
            if self.early_count > 0 {
                self.close_hole();
            }
            return true;
        }
        if sequence < self.next {
            return false;
        }
        self.end = self.end.max(sequence + 1);
        let new = self.early.insert(sequence, self.next..self.end);
        self.early_count += u32::from(new);
        new
    }

    fn close_hole(&mut self) {
        while self.early_count > 0 && self.early.remove(self.next) {
            self.next += 1;
            self.early_count -= 1;
        }
    }
}

fn within(inner: &Range<PacketNumber>, outer: &Range<PacketNumber>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// The begin of a window: 0, the end of 32 bits, or far beyond.
    fn base() -> impl Strategy<Value = PacketNumber> {
        prop_oneof![Just(0), Just((1 << 32) - 100), Just(1 << 52)]
    }

    proptest! {
        /// The ring against a plain set, while the window slides and grows.
        #[test]
        fn bits_are_a_set(
            base in base(),
            steps in prop::collection::vec((0u8..4, 0u64..700, 0u64..200), 1..300),
        ) {
            let (mut bits, mut set) = (NumberSet::default(), BTreeSet::new());
            let (mut start, mut end) = (base, base + 1);
            for (step, offset, slide) in steps {
                let sequence = start + offset;
                match step {
                    0 => {
                        end = end.max(sequence + 1);
                        prop_assert_eq!(bits.insert(sequence, start..end), set.insert(sequence));
                    }
                    1 if sequence < end => {
                        prop_assert_eq!(bits.remove(sequence), set.remove(&sequence));
                    }
                    2 => {
                        let to = (start + slide).min(end);
                        let gone = set.iter().filter(|&&s| s < to).count() as u32;
                        prop_assert_eq!(bits.remove_range(start..to), gone);
                        set.retain(|&s| s >= to);
                        start = to;
                        end = end.max(start + 1);
                    }
                    _ => {
                        prop_assert_eq!(bits.first(start..end), set.first().copied());
                        bits.reserve(start..end);
                        let missing = (start..end).find(|s| !set.contains(s));
                        prop_assert_eq!(bits.first_missing(start..end), missing);
                    }
                }
            }
        }

        /// In any order of arrival, with duplicates, each number is new exactly once.
        #[test]
        fn reassembly_takes_each_number_once(
            base in base(),
            order in Just((0u64..300).collect::<Vec<_>>()).prop_shuffle(),
            repeats in prop::collection::vec(0usize..300, 0..50),
        ) {
            let mut reassembly = Reassembly { next: base, ..Reassembly::default() };
            let again: Vec<PacketNumber> = repeats.iter().map(|&i| base + order[i]).collect();
            let new = order.iter().filter(|&&s| reassembly.receive(base + s)).count();
            prop_assert_eq!(new, 300);
            prop_assert_eq!(reassembly.next(), base + 300);
            prop_assert!(!reassembly.has_hole());
            prop_assert!(!again.into_iter().any(|s| reassembly.receive(s)));
        }
    }
}
