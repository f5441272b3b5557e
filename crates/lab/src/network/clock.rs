//! The time of day as links take it: picoseconds since the run began.

use anabranch_net::Time;
use rustix::time::{ClockId, Timespec, clock_gettime};

const PS_PER_NS: u64 = 1000;
const NS_PER_S: u64 = 1_000_000_000;

/// CLOCK_MONOTONIC, from the moment the clock was started.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started_ns: u64,
}

impl Clock {
    /// A clock that stands at 0 now.
    pub fn start() -> Clock {
        Clock {
            started_ns: monotonic_ns(),
        }
    }

    /// The time now, ps.
    pub fn now(&self) -> Time {
        (monotonic_ns() - self.started_ns) * PS_PER_NS
    }

    /// How long from `now` until `time`, rounded up: nothing wakes too early. 0 if it is past.
    pub fn span(now: Time, time: Time) -> Timespec {
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
