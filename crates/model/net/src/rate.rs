//! When a link transmits a packet: at a constant rate, or following a trace.

use std::ops::RangeInclusive;

use crate::steps::Steps;
use crate::time::Time;
use crate::trace::{Opportunities, Trace};
use crate::transmission::{ATTOBITS_PER_BYTE, Attobits, Transmission};

mod varying;

use varying::Varying;

/// Constant rates, bit/s, for which transmission times and their fractions fit 64 bits.
const RATES: RangeInclusive<f64> = 1.0..=1e12;

/// How fast a link transmits.
#[derive(Clone, Debug, PartialEq)]
pub enum Rate {
    /// The same rate all the time.
    Constant {
        /// Bits per second, 1 to 10^12; kept to a millionth of a bit per second.
        bits_per_second: f64,
    },
    /// Rates in bits per second, each up to the next time; 0 or as a constant one, the last not 0.
    Steps(Steps),
    /// Delivery opportunities at given times.
    Trace(Trace),
}

impl Rate {
    /// The rate in the mean over time, Mbit/s.
    pub fn mean_mbps(&self) -> f64 {
        match self {
            Rate::Constant { bits_per_second } => bits_per_second / 1e6,
            Rate::Steps(steps) => steps.mean() / 1e6,
            Rate::Trace(trace) => trace.mean_mbps(),
        }
    }

    /// The rate in the mean after `from` and up to `to`, Mbit/s: what the link can deliver then.
    pub fn mbps_between(&self, from: Time, to: Time) -> f64 {
        match self {
            Rate::Constant { bits_per_second } => bits_per_second / 1e6,
            Rate::Steps(steps) => steps.mean_between(from, to) / 1e6,
            Rate::Trace(trace) => trace.mbps_between(from, to),
        }
    }
}

/// The transmitter of a link: one packet at a time, first come, first served.
#[derive(Clone, Debug)]
pub(crate) enum Server {
    Constant(Constant),
    Trace(Opportunities),
    Varying(Box<Varying>),
}

impl Server {
    /// # Panics
    /// If a constant rate is out of range.
    pub(crate) fn new(rate: Rate) -> Server {
        match rate {
            Rate::Constant { bits_per_second } => Server::Constant(Constant::new(bits_per_second)),
            Rate::Trace(trace) => Server::Trace(Opportunities::new(trace)),
            Rate::Steps(steps) => match steps.constant() {
                Some(bits_per_second) => Server::Constant(Constant::new(bits_per_second)),
                None => Server::Varying(Box::new(Varying::new(&steps))),
            },
        }
    }

    /// When the last packet accepted so far is transmitted.
    pub(crate) fn free_at(&self) -> Time {
        match self {
            Server::Constant(server) => server.free_at,
            Server::Trace(server) => server.free_at(),
            Server::Varying(server) => server.free_at(),
        }
    }

    /// Data to be transmitted after `now`, of all packets accepted before.
    pub(crate) fn backlog(&self, now: Time) -> Attobits {
        match self {
            Server::Constant(server) => server.backlog(now),
            Server::Trace(server) => ATTOBITS_PER_BYTE * Attobits::from(server.backlog_bytes(now)),
            Server::Varying(server) => server.backlog(now),
        }
    }

    /// Whether a packet that arrives at `now` has to wait.
    pub(crate) fn waits(&self, now: Time) -> bool {
        match self {
            Server::Constant(server) => server.free_at > now,
            Server::Trace(_) => true,
            Server::Varying(server) => server.free_at() > now,
        }
    }

    /// The earliest time, from `now` on, at which a packet that arrived before can be transmitted.
    pub(crate) fn ready(&self, now: Time) -> Time {
        match self {
            Server::Constant(server) => server.free_at.max(now),
            Server::Trace(server) => server.next_from(now),
            Server::Varying(server) => server.free_at().max(now),
        }
    }

    /// Whether packets wait for opportunities.
    pub(crate) fn is_trace(&self) -> bool {
        matches!(self, Server::Trace(_))
    }

    /// Transmits a packet that waited until now, a time that [`ready`](Self::ready) gave. None, and
    /// nothing changes, if the transmission would not end before `deadline`.
    pub(crate) fn start(&mut self, now: Time, bytes: u32, deadline: Time) -> Option<Transmission> {
        match self {
            Server::Constant(server) => server.serve(now, bytes, deadline),
            // An opportunity serves what arrived before it.
            Server::Trace(server) => server.serve(now - 1, bytes, deadline),
            Server::Varying(server) => server.serve(now, bytes, deadline),
        }
    }

    /// Transmits a packet that arrives at `now`. None, and nothing changes, if the transmission
    /// would not end before `deadline`. Inlined always: every packet passes here.
    #[inline(always)]
    pub(crate) fn serve(&mut self, now: Time, bytes: u32, deadline: Time) -> Option<Transmission> {
        match self {
            Server::Constant(server) => server.serve(now, bytes, deadline),
            Server::Trace(server) => server.serve(now, bytes, deadline),
            Server::Varying(server) => server.serve(now, bytes, deadline),
        }
    }
}

/// A constant rate. While the link is busy, time is kept as an exact fraction, so that nothing
/// drifts whatever the rate; results are rounded down to whole picoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Constant {
    /// Micro-bits per second; also the denominator of the fractions.
    rate: u64,
    free_at: Time,
    /// Fraction of a picosecond missing from `free_at`: numerator over `rate`.
    remainder: u64,
    /// The last packet size: most packets of a link have the same.
    size: Size,
}

/// A packet size and its transmission time.
#[derive(Clone, Copy, Debug)]
struct Size {
    bytes: u32,
    time: Time,
    /// Fraction of a picosecond missing from `time`: numerator over the rate.
    remainder: u64,
}

impl Size {
    fn new(bytes: u32, rate: u64) -> Size {
        let work = Attobits::from(bytes) * ATTOBITS_PER_BYTE;
        let time = (work / Attobits::from(rate)) as Time;
        Size {
            bytes,
            time,
            remainder: (work % Attobits::from(rate)) as u64,
        }
    }
}

impl Constant {
    fn new(bits_per_second: f64) -> Constant {
        assert!(
            RATES.contains(&bits_per_second),
            "a rate of {bits_per_second} bit/s is not within {RATES:?}"
        );
        let rate = (bits_per_second * 1e6).round() as u64;
        Constant {
            rate,
            free_at: 0,
            remainder: 0,
            size: Size::new(0, rate),
        }
    }

    fn backlog(&self, now: Time) -> Attobits {
        let Some(time) = self.free_at.checked_sub(now) else {
            return 0;
        };
        Attobits::from(self.rate) * Attobits::from(time) + Attobits::from(self.remainder)
    }

    #[inline(always)]
    fn serve(&mut self, now: Time, bytes: u32, deadline: Time) -> Option<Transmission> {
        if bytes != self.size.bytes {
            self.size = Size::new(bytes, self.rate);
        }
        let (start, before) = if now > self.free_at {
            (now, 0)
        } else {
            (self.free_at, self.remainder)
        };
        let remainder = before + self.size.remainder;
        let carry = remainder >= self.rate;
        let end = start + self.size.time + Time::from(carry);
        if end >= deadline {
            return None;
        }
        self.free_at = end;
        self.remainder = if carry {
            remainder - self.rate
        } else {
            remainder
        };
        Some(Transmission { start, end })
    }
}
