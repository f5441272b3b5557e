//! The clock of a run: picoseconds since its start.

use anabranch_net::Time;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Picoseconds per nanosecond.
pub const PS_PER_NS: u64 = 1000;
const NS_PER_S: u64 = 1_000_000_000;

/// CLOCK_MONOTONIC, relative to the time when the clock was started.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started_ns: u64,
}

impl Clock {
    /// Starts a clock at 0.
    pub fn start() -> Clock {
        Clock {
            started_ns: monotonic_ns(),
        }
    }

    /// The current time, ps.
    pub fn now(&self) -> Time {
        (monotonic_ns() - self.started_ns) * PS_PER_NS
    }

    /// The time from `now` until `time`, rounded up so that a wait never ends early; 0 if `time`
    /// has passed.
    pub fn timeout(now: Time, time: Time) -> Timespec {
        let ns = time.saturating_sub(now).div_ceil(PS_PER_NS);
        Timespec {
            tv_sec: (ns / NS_PER_S) as i64,
            tv_nsec: (ns % NS_PER_S) as i64,
        }
    }
}

fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * NS_PER_S + now.tv_nsec as u64
}
