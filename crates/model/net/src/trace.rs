//! Rate traces in mahimahi's format.

use std::fmt;

use crate::time::{MILLISECOND, Time};
use crate::transmission::Transmission;

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
