//! Probes of whether the other end is reachable over a path, without a connection, I/O or a clock.
//!
//! A datagram with an unknown version of QUIC makes a server answer with the versions that it knows
//! (RFC 9000, section 6), over the same path. An open path does not show this: the library returns
//! the acknowledgements of all paths over one of them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Version that is reserved for this (RFC 9000, section 15).
const VERSION: u32 = 0x1a2a_3a4a;

/// Length of a probe, bytes: the smallest first datagram of a connection (RFC 9000, 14.1).
const BYTES: usize = 1200;

/// Length of the connection ids in a probe, bytes.
const ID_BYTES: usize = 8;

/// Most probes that are unanswered at a time.
const OUTSTANDING: usize = 16;

/// A connection id. Others cannot guess a random one, so they cannot answer.
pub(super) type Id = [u8; ID_BYTES];

/// Probes of one path.
#[derive(Clone, Debug, Default)]
pub(super) struct Probes {
    outstanding: VecDeque<(Id, Instant)>,
    answer: Option<(Instant, Duration)>,
}

impl Probes {
    /// The next probe, with two random ids; it must be sent at once.
    pub fn next(&mut self, now: Instant, [other, own]: [Id; 2]) -> Vec<u8> {
        if self.outstanding.len() == OUTSTANDING {
            self.outstanding.pop_front();
        }
        self.outstanding.push_back((own, now));
        probe([other, own])
    }

    /// Time of the latest answer, and its round-trip time.
    pub fn answer(&self) -> Option<(Instant, Duration)> {
        self.answer
    }

    /// Takes the latest answer.
    pub fn take_answer(&mut self) -> Option<(Instant, Duration)> {
        self.answer.take()
    }

    /// Looks for answers among datagrams of `stride` bytes. Returns whether there was one.
    pub fn observe(&mut self, now: Instant, datagrams: &[u8], stride: usize) -> bool {
        let before = self.outstanding.len();
        for id in datagrams.chunks(stride.max(1)).filter_map(answered) {
            let place = self.outstanding.iter().position(|&(own, _)| own == id);
            if let Some((_, sent)) = place.and_then(|place| self.outstanding.remove(place)) {
                self.answer = Some((now, now.saturating_duration_since(sent)));
            }
        }
        self.outstanding.len() < before
    }
}

/// A datagram of an unknown version between connections with these ids.
fn probe(ids: [Id; 2]) -> Vec<u8> {
    let mut datagram = vec![0xc0];
    datagram.extend(VERSION.to_be_bytes());
    for id in ids {
        datagram.push(ID_BYTES as u8);
        datagram.extend(id);
    }
    datagram.resize(BYTES, 0);
    datagram
}

/// Id of the probe that this datagram answers.
fn answered(datagram: &[u8]) -> Option<Id> {
    let (head, rest) = datagram.split_first_chunk::<6>()?;
    let is_answer = head[0] & 0x80 != 0 && head[1..5] == [0; 4] && head[5] == ID_BYTES as u8;
    rest.first_chunk().copied().filter(|_| is_answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_to_an_own_probe_counts() {
        let mut probes = Probes::default();
        let (now, id) = (Instant::now(), [7; ID_BYTES]);
        let probe = probes.next(now, [[9; ID_BYTES], id]);
        let answer = |id: Id| [&[0x80, 0, 0, 0, 0, 8][..], &id, &[8; 20]].concat();
        assert!(!probes.observe(now, &probe, BYTES)); // reflected
        assert!(!probes.observe(now, &answer([8; ID_BYTES]), 2000));
        assert!(!probes.observe(now, &answer(id)[..13], 2000));
        assert!(probes.answer().is_none());
        // The answer is the end of a train of datagrams, as a network interface merges them.
        let train = [&[0x40; 100][..], &answer(id)].concat();
        let rtt = Duration::from_millis(5);
        assert!(probes.observe(now + rtt, &train, 100));
        assert_eq!(probes.take_answer(), Some((now + rtt, rtt)));
        assert!(!probes.observe(now, &train, 100), "it was answered");
    }
}
