//! Probes whether `far` is reachable over a path, without a connection.
//!
//! A datagram with an unknown version of QUIC makes a server answer with the versions that it
//! knows (RFC 9000, section 6), over the same path. An open path does not show this: the library
//! returns the acknowledgements of all paths over one of them.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

/// A version that is reserved for this (RFC 9000, section 15).
const VERSION: u32 = 0x1a2a_3a4a;

/// Length of a probe, bytes: the smallest first datagram of a connection (RFC 9000, 14.1).
const BYTES: usize = 1200;

/// Length of the connection ids in a probe, bytes.
const ID_BYTES: usize = 8;

/// Probes that may be unanswered at a time.
const OUTSTANDING: usize = 16;

/// The probes of one path.
#[derive(Debug, Default)]
pub(super) struct Probes(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    outstanding: VecDeque<([u8; ID_BYTES], Instant)>,
    answer: Option<Answer>,
}

/// The latest answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    /// When it arrived.
    pub at: Instant,
    /// The round-trip time.
    pub rtt: Duration,
}

impl Probes {
    /// The next probe, to be sent at once.
    pub fn next(&self) -> Vec<u8> {
        let id = random_id();
        let mut state = self.0.lock().expect("no holder panics");
        if state.outstanding.len() == OUTSTANDING {
            state.outstanding.pop_front();
        }
        state.outstanding.push_back((id, Instant::now()));
        probe(id)
    }

    /// The latest answer.
    pub fn answer(&self) -> Option<Answer> {
        self.0.lock().expect("no holder panics").answer
    }

    /// Looks for answers among datagrams of `stride` bytes.
    pub fn observe(&self, datagrams: &[u8], stride: usize) {
        for datagram in datagrams.chunks(stride.max(1)) {
            if let Some(id) = answered(datagram) {
                self.on_answer(id);
            }
        }
    }

    fn on_answer(&self, id: [u8; ID_BYTES]) {
        let mut state = self.0.lock().expect("no holder panics");
        let place = state.outstanding.iter().position(|&(sent, _)| sent == id);
        if let Some((_, sent)) = place.and_then(|place| state.outstanding.remove(place)) {
            let at = Instant::now();
            let rtt = at - sent;
            state.answer = Some(Answer { at, rtt });
        }
    }
}

/// A datagram of an unknown version from a connection with this id.
fn probe(id: [u8; ID_BYTES]) -> Vec<u8> {
    let mut datagram = vec![0xc0];
    datagram.extend(VERSION.to_be_bytes());
    for id in [random_id(), id] {
        datagram.push(ID_BYTES as u8);
        datagram.extend(id);
    }
    datagram.resize(BYTES, 0);
    datagram
}

/// The id of the probe that this datagram answers.
fn answered(datagram: &[u8]) -> Option<[u8; ID_BYTES]> {
    let (head, rest) = datagram.split_first_chunk::<6>()?;
    let is_answer = head[0] & 0x80 != 0 && head[1..5] == [0; 4] && head[5] == ID_BYTES as u8;
    rest.first_chunk().copied().filter(|_| is_answer)
}

/// Others cannot guess it, so they cannot answer.
fn random_id() -> [u8; ID_BYTES] {
    let mut id = [0; ID_BYTES];
    rustls::crypto::ring::default_provider()
        .secure_random
        .fill(&mut id)
        .expect("the system has random numbers");
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_to_an_own_probe_counts() {
        let probes = Probes::default();
        let id = [7; ID_BYTES];
        let sent = Instant::now();
        probes
            .0
            .lock()
            .expect("no panic")
            .outstanding
            .push_back((id, sent));
        let answer = |id: [u8; ID_BYTES]| [&[0x80, 0, 0, 0, 0, 8][..], &id, &[8; 20]].concat();
        probes.observe(&probe(id), BYTES); // reflected
        probes.observe(&answer([8; ID_BYTES]), 2000);
        probes.observe(&answer(id)[..13], 2000);
        assert!(probes.answer().is_none());
        // At the end of a train of datagrams, as a network interface merges them.
        let train = [&[0x40; 100][..], &answer(id)].concat();
        probes.observe(&train, 100);
        assert!(probes.answer().is_some());
    }
}
