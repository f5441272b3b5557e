//! Virtual time as the library's `Instant`.

use std::time::{Duration, Instant};

use anabranch_net::Time;

/// Converts between the time of a run and `Instant`, whose origin is arbitrary: the library uses
/// differences only. An `Instant` has whole nanoseconds, so a datagram may seem to arrive up to
/// 1 ns early; a timer never fires early.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

/// Picoseconds of a nanosecond.
const NANOSECOND: Time = 1000;

impl Clock {
    /// A clock whose time 0 is now.
    pub fn start() -> Clock {
        Clock(Instant::now())
    }

    /// The instant of a time of the run.
    pub fn instant(self, time: Time) -> Instant {
        self.0 + Duration::from_nanos(time / NANOSECOND)
    }

    /// The time of the run at an instant.
    pub fn time(self, instant: Instant) -> Time {
        instant.duration_since(self.0).as_nanos() as Time * NANOSECOND
    }

    /// The time of the run at an instant, s.
    pub fn seconds(self, instant: Instant) -> f64 {
        anabranch_net::time::seconds(self.time(instant))
    }
}
