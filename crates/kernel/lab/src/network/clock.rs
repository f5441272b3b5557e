//! The clock of a run, in picoseconds since its start, and the times at which its counters are
//! sampled.

use anabranch_net::Time;
use anabranch_scenario::Scenario;
use anabranch_scenario::time::from_seconds;
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

// The times at which the counters of a run are sampled.

/// The end of the warm-up, each sample and the end of the run.
pub struct SampleTimes {
    /// All times, increasing, ps.
    pub times: Vec<Time>,
    /// The index of the end of the warm-up. All others are samples, except possibly the last.
    pub warm_up: usize,
    /// Whether the last time is a sample too.
    ends_in_sample: bool,
}

impl SampleTimes {
    /// The sample times of a scenario.
    pub fn of(scenario: &Scenario) -> SampleTimes {
        let measure = &scenario.measure;
        let end = from_seconds(measure.duration_s.get());
        let every = from_seconds(measure.sample_ms.get() * 1e-3).max(1);
        let warm_up_at = from_seconds(measure.warmup_s.get());
        let mut times: Vec<Time> = (1..).map(|n| n * every).take_while(|&t| t <= end).collect();
        let ends_in_sample = times.last() == Some(&end);
        if !ends_in_sample {
            times.push(end);
        }
        let warm_up = times.partition_point(|&time| time < warm_up_at);
        times.insert(warm_up, warm_up_at);
        SampleTimes {
            times,
            warm_up,
            ends_in_sample,
        }
    }

    /// Whether the time with this index is a sample.
    pub fn is_sample(&self, index: usize) -> bool {
        index != self.warm_up && (index + 1 < self.times.len() || self.ends_in_sample)
    }
}
