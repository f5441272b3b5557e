//! A transmitter whose rate changes at given times.

use crate::steps::Steps;
use crate::time::Time;
use crate::transmission::{ATTOBITS_PER_BYTE, Attobits, Transmission};

/// As a constant rate, with the same exact fractions, through the steps of the rate. A packet goes
/// on at the new rate where the rate changes, and waits where it is 0.
#[derive(Clone, Debug)]
pub(crate) struct Varying {
    /// Micro-bits per second.
    rate: Steps,
    free_at: Time,
    /// Rest of the last packet at `free_at`, less than the rate transmits in 1 ps.
    remainder: Attobits,
}

impl Varying {
    /// An idle transmitter of this rate, bit/s.
    pub(crate) fn new(rate: &Steps) -> Varying {
        Varying {
            rate: rate.map(|bits_per_second| (bits_per_second * 1e6).round()),
            free_at: 0,
            remainder: 0,
        }
    }

    pub(crate) fn free_at(&self) -> Time {
        self.free_at
    }

    pub(crate) fn backlog(&self, now: Time) -> Attobits {
        if self.free_at < now {
            return 0;
        }
        let (mut sum, mut at) = (self.remainder, now);
        while at < self.free_at {
            let (rate, end) = self.rate.piece(at);
            let end = end.min(self.free_at);
            sum += rate as Attobits * Attobits::from(end - at);
            at = end;
        }
        sum
    }

    pub(crate) fn serve(&mut self, now: Time, bytes: u32, deadline: Time) -> Option<Transmission> {
        let (start, before) = if now > self.free_at {
            (now, 0)
        } else {
            (self.free_at, self.remainder)
        };
        let mut left = before + Attobits::from(bytes) * ATTOBITS_PER_BYTE;
        let mut at = start;
        loop {
            let (rate, end) = self.rate.piece(at);
            let rate = rate as Attobits;
            let capacity = rate * Attobits::from(end - at);
            if left < capacity {
                at += (left / rate) as Time;
                left %= rate;
                break;
            }
            if end == Time::MAX {
                return None;
            }
            left -= capacity;
            at = end;
            if left == 0 {
                break;
            }
        }
        if at >= deadline {
            return None;
        }
        self.free_at = at;
        self.remainder = left;
        Some(Transmission { start, end: at })
    }
}
