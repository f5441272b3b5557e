//! A policer: a token bucket without a queue of its own.

use crate::arrival::Arrival;
use crate::time::Time;
use crate::transmission::{ATTOBITS_PER_BYTE, Attobits};

/// A token bucket that fills at a rate up to a burst, full at first. A packet for which it has too
/// few tokens is dropped; any other takes its size out of it (RFC 2697, with one colour).
#[derive(Clone, Debug, PartialEq)]
pub struct Policer {
    /// Rate at which tokens arrive, bit/s, kept to a millionth.
    pub bits_per_second: f64,
    /// The most tokens, bytes.
    pub burst_bytes: u32,
}

/// A [`Policer`] and its tokens. Time and rate make whole numbers of attobits, so nothing drifts.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    /// Attobits per picosecond.
    rate: Attobits,
    most: Attobits,
    tokens: Attobits,
    filled_at: Time,
}

impl Bucket {
    pub(crate) fn new(policer: &Policer) -> Bucket {
        let most = Attobits::from(policer.burst_bytes) * ATTOBITS_PER_BYTE;
        Bucket {
            rate: (policer.bits_per_second * 1e6).round() as Attobits,
            most,
            tokens: most,
            filled_at: 0,
        }
    }

    /// Whether a packet conforms; if so, its tokens are taken.
    pub(crate) fn admits(&mut self, arrival: &Arrival) -> bool {
        let new = self.rate * Attobits::from(arrival.now - self.filled_at);
        self.filled_at = arrival.now;
        self.tokens = (self.tokens + new).min(self.most);
        let needed = Attobits::from(arrival.bytes) * ATTOBITS_PER_BYTE;
        let conforms = needed <= self.tokens;
        if conforms {
            self.tokens -= needed;
        }
        conforms
    }
}
