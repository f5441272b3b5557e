//! Time as the library's `Instant`: of a run, or of a clock that runs by itself.

use std::time::{Duration, Instant};

use anabranch_net::Time;

/// Converts between the time of a run and `Instant`, whose origin is arbitrary: the library uses
/// differences only. An `Instant` has whole nanoseconds, so a datagram may seem to arrive up to
/// 1 ns early; a timer never fires early.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
    /// Reads a clock that runs by itself; `None` in the virtual time of a run.
    read: Option<fn() -> Instant>,
}

/// Picoseconds of a nanosecond.
const NANOSECOND: Time = 1000;

impl Clock {
    /// A clock of virtual time, whose time 0 is now.
    pub fn start() -> Clock {
        Clock {
            origin: Instant::now(),
            read: None,
        }
    }

    /// A clock that runs by itself and is read so, for endpoints over sockets.
    pub fn running(read: fn() -> Instant) -> Clock {
        Clock {
            origin: read(),
            read: Some(read),
        }
    }

    /// The latest time at which a datagram that the library handles at `now` can have arrived. Over
    /// sockets the library reads the time before it receives. If the process is preempted in
    /// between and a datagram arrives, its RTT, and the base RTT from then on, would be too small.
    pub fn arrival(self, now: Instant) -> Instant {
        self.read.map_or(now, |read| now.max(read()))
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
    fn a_datagram_of_a_socket_arrives_when_it_is_handled_or_later_one_of_a_run_exactly_then() {
        let read = Instant::now();
        std::thread::sleep(Duration::from_millis(2)); // preempted
        let arrival = Clock::running(Instant::now).arrival(read);
        assert!(arrival >= read + Duration::from_millis(2));
        assert_eq!(Clock::start().arrival(read), read);
        let ahead = Instant::now() + Duration::from_secs(1);
        assert_eq!(Clock::running(Instant::now).arrival(ahead), ahead);
    }
}
