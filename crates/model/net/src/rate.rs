//! When a link transmits a packet: at a constant rate, at one that changes at given times, or
//! following a trace in mahimahi's format.

use std::fmt;
use std::ops::RangeInclusive;

use crate::packet::{ATTOBITS_PER_BYTE, Attobits, Transmission};
use crate::steps::Steps;
use crate::time::{MILLISECOND, Time};

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

// A transmitter whose rate changes at given times.

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

// Rate traces in mahimahi's format.

/// Bytes that one delivery opportunity of a trace carries at most.
pub const OPPORTUNITY_BYTES: u32 = 1500;

/// A rate that varies: the times at which the link may deliver 1500 bytes each (mahimahi,
/// Netravali et al. 2015). The text has one non-negative integer per line, in milliseconds and not
/// decreasing; a line that is repeated is one more opportunity at the same time. After the last
/// one the trace begins again, so that its period is the last timestamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    opportunities: Vec<Time>,
}

impl Trace {
    /// Reads the text of a trace.
    ///
    /// # Errors
    /// If a line is not a non-negative integer or less than the one before, if there is no line,
    /// or if the last timestamp, the period, is 0.
    pub fn parse(text: &str) -> Result<Trace, TraceError> {
        let mut opportunities = Vec::new();
        let mut previous_ms = 0;
        let mut line = 1;
        for (index, content) in text.lines().enumerate() {
            line = index + 1;
            let time_ms: u32 = content
                .trim()
                .parse()
                .map_err(|_| TraceError::not_a_time(line, content))?;
            if time_ms < previous_ms {
                return Err(TraceError::decreasing(line, time_ms, previous_ms));
            }
            previous_ms = time_ms;
            opportunities.push(Time::from(time_ms) * MILLISECOND);
        }
        match opportunities.last() {
            None => Err(TraceError::empty()),
            Some(0) => Err(TraceError::no_period(line)),
            Some(_) => Ok(Trace { opportunities }),
        }
    }

    /// Time after which the trace repeats, ps.
    pub fn period(&self) -> Time {
        self.opportunities[self.opportunities.len() - 1]
    }

    /// The rate in the mean over a period if every opportunity is used in full, Mbit/s.
    pub fn mean_mbps(&self) -> f64 {
        let bits = self.opportunities.len() as f64 * f64::from(OPPORTUNITY_BYTES * 8);
        bits * 1e6 / self.period() as f64
    }

    /// The rate of the opportunities after `from` and up to `to`, Mbit/s. A window from 0 on has
    /// an opportunity at 0, too.
    pub fn mbps_between(&self, from: Time, to: Time) -> f64 {
        let before = if from == 0 { 0 } else { self.until(from) };
        let bits = (self.until(to) - before) as f64 * f64::from(OPPORTUNITY_BYTES * 8);
        bits * 1e6 / (to - from) as f64
    }

    /// Opportunities from time 0 up to `time`.
    fn until(&self, time: Time) -> u64 {
        let (periods, rest) = (time / self.period(), time % self.period());
        let begun = self.opportunities.partition_point(|&at| at <= rest);
        periods * self.opportunities.len() as u64 + begun as u64
    }
}

/// A fault of a trace, in one line: where, what was expected, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// The line of the text, counted from 1.
    pub line: usize,
    /// Expectation there, finding, and remedy.
    pub problem: String,
}

impl TraceError {
    fn empty() -> TraceError {
        let problem = "the trace is empty; write one timestamp in ms per line".to_owned();
        TraceError { line: 1, problem }
    }

    fn not_a_time(line: usize, found: &str) -> TraceError {
        let problem = format!(
            "expected a timestamp in ms, an integer from 0 to {}, found {found:?}; write one per line, \
             or let `anabranch trace convert` read the file",
            u32::MAX
        );
        TraceError { line, problem }
    }

    fn decreasing(line: usize, time_ms: u32, previous_ms: u32) -> TraceError {
        let problem = format!(
            "expected a timestamp of at least {previous_ms} ms, that of the line before, \
             found {time_ms}; sort the lines"
        );
        TraceError { line, problem }
    }

    fn no_period(line: usize) -> TraceError {
        let problem = "the last timestamp is the period of the trace and must be above 0 ms; \
                       add a later one"
            .to_owned();
        TraceError { line, problem }
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

impl std::error::Error for TraceError {}

/// A transmitter that follows a trace, with mahimahi's semantics: a packet can use
/// opportunities after its arrival, several small packets share one, a large packet
/// continues over several, and opportunities that no waiting packet uses are lost.
#[derive(Clone, Debug)]
pub(crate) struct Opportunities {
    trace: Trace,
    cursor: Cursor,
    free_at: Time,
}

/// The opportunity to use next.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    /// When this repetition of the trace began, ps.
    began: Time,
    /// The opportunity within the trace.
    index: usize,
    /// Bytes not used yet, at least 1.
    left: u32,
}

impl Opportunities {
    pub(crate) fn new(trace: Trace) -> Opportunities {
        let cursor = Cursor {
            began: 0,
            index: 0,
            left: OPPORTUNITY_BYTES,
        };
        Opportunities {
            trace,
            cursor,
            free_at: 0,
        }
    }

    pub(crate) fn free_at(&self) -> Time {
        self.free_at
    }

    /// When the first opportunity from `now` on is that is not used up.
    pub(crate) fn next_from(&self, now: Time) -> Time {
        let next = self.time_of(self.cursor);
        match now.checked_sub(1) {
            Some(before) if next <= before => self.time_of(self.first_after(before)),
            _ => next,
        }
    }

    /// Bytes to be transmitted after `now`. While there are any, packets use every opportunity.
    pub(crate) fn backlog_bytes(&self, now: Time) -> u64 {
        if self.free_at <= now {
            return 0;
        }
        let first = self.first_after(now);
        let periods = (self.cursor.began - first.began) / self.trace.period();
        let whole = periods * self.trace.opportunities.len() as u64 + self.cursor.index as u64
            - first.index as u64;
        let used = OPPORTUNITY_BYTES - self.cursor.left;
        whole * u64::from(OPPORTUNITY_BYTES) + u64::from(used)
    }

    pub(crate) fn serve(&mut self, now: Time, bytes: u32, deadline: Time) -> Option<Transmission> {
        let mut cursor = self.cursor;
        if self.time_of(cursor) <= now {
            cursor = self.first_after(now);
        }
        let start = self.time_of(cursor);
        let mut rest = bytes;
        while rest > cursor.left {
            rest -= cursor.left;
            cursor = self.after(cursor);
        }
        let end = self.time_of(cursor);
        if end >= deadline {
            return None;
        }
        cursor.left -= rest;
        self.cursor = if cursor.left == 0 {
            self.after(cursor)
        } else {
            cursor
        };
        self.free_at = end;
        Some(Transmission { start, end })
    }

    fn time_of(&self, cursor: Cursor) -> Time {
        cursor.began + self.trace.opportunities[cursor.index]
    }

    fn after(&self, cursor: Cursor) -> Cursor {
        let left = OPPORTUNITY_BYTES;
        if cursor.index + 1 < self.trace.opportunities.len() {
            Cursor {
                index: cursor.index + 1,
                left,
                ..cursor
            }
        } else {
            Cursor {
                began: cursor.began + self.trace.period(),
                index: 0,
                left,
            }
        }
    }

    /// The first opportunity later than `now`. There is always one in the repetition that
    /// contains `now`: its last opportunity is at the begin of the next repetition.
    fn first_after(&self, now: Time) -> Cursor {
        let since = now % self.trace.period();
        let index = self
            .trace
            .opportunities
            .partition_point(|&time| time <= since);
        Cursor {
            began: now - since,
            index,
            left: OPPORTUNITY_BYTES,
        }
    }
}
