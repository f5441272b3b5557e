//! Time as the library's `Instant`: virtual, or the machine's.

use std::time::{Duration, Instant};

use anabranch_net::Time;

/// Converts between the time of a run and `Instant`, whose origin is arbitrary: the library uses
/// differences only. An `Instant` has whole nanoseconds, so a datagram may seem to arrive up to
/// 1 ns early; a timer never fires early.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
    is_real: bool,
}

/// Picoseconds of a nanosecond.
const NANOSECOND: Time = 1000;

impl Clock {
    /// A clock of virtual time, whose time 0 is now.
    pub fn start() -> Clock {
        Clock {
            origin: Instant::now(),
            is_real: false,
        }
    }

    /// The machine's clock, for endpoints over sockets.
    pub fn real() -> Clock {
        Clock {
            is_real: true,
            ..Clock::start()
        }
    }

    /// The latest time at which a datagram that the library handles at `now` can have arrived. Over
    /// sockets the library reads the time before it receives. If the process is preempted in
    /// between and a datagram arrives, its RTT, and the base RTT from then on, would be too small.
    pub fn arrival(self, now: Instant) -> Instant {
        if self.is_real {
            now.max(Instant::now())
        } else {
            now
        }
    }

    /// The instant of a time of the run.
    pub fn instant(self, time: Time) -> Instant {
        self.origin + Duration::from_nanos(time / NANOSECOND)
    }

    /// The time of the run at an instant.
    pub fn time(self, instant: Instant) -> Time {
        instant.duration_since(self.origin).as_nanos() as Time * NANOSECOND
    }

    /// The time of the run at an instant, s.
    pub fn seconds(self, instant: Instant) -> f64 {
        anabranch_net::time::seconds(self.time(instant))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_datagram_arrives_no_earlier_than_it_is_handled_and_a_virtual_one_exactly_then() {
        let read = Instant::now();
        std::thread::sleep(Duration::from_millis(2)); // preempted
        let arrival = Clock::real().arrival(read);
        assert!(arrival >= read + Duration::from_millis(2));
        assert_eq!(Clock::start().arrival(read), read);
        let ahead = Instant::now() + Duration::from_secs(1);
        assert_eq!(Clock::real().arrival(ahead), ahead);
    }
}
