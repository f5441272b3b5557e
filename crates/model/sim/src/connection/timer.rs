//! A timer whose deadline moves often, while its event in the calendar seldom does.

use anabranch_net::Time;

/// A deadline and the one timer event that checks it. The deadline of a retransmission timer moves
/// at every acknowledgement; an event is scheduled only when none is pending that early.
#[derive(Debug)]
pub(crate) struct Timer {
    /// `None` while the timer is off.
    deadline: Option<Time>,
    /// Time of the pending event, `Time::MAX` if there is none.
    event_at: Time,
}

/// What a timer event means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerEvent {
    /// Nothing: the timer is off, or an earlier event replaced this one.
    Stale,
    /// The deadline has moved: an event must be scheduled at this time.
    Later(Time),
    /// The timer has expired, and is off.
    Expired,
}

impl Default for Timer {
    fn default() -> Self {
        Timer {
            deadline: None,
            event_at: Time::MAX,
        }
    }
}

impl Timer {
    /// When the timer expires; `None` while it is off.
    #[inline]
    pub fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    #[inline]
    pub fn stop(&mut self) {
        self.deadline = None;
    }

    /// Starts the timer anew; gives the time at which an event must be scheduled, unless one is
    /// pending that early.
    #[inline]
    pub fn start(&mut self, deadline: Time) -> Option<Time> {
        self.deadline = Some(deadline);
        (deadline < self.event_at).then(|| {
            self.event_at = deadline;
            deadline
        })
    }

    /// A timer event at `now`.
    pub fn on_event(&mut self, now: Time) -> TimerEvent {
        if now != self.event_at {
            return TimerEvent::Stale;
        }
        self.event_at = Time::MAX;
        match self.deadline {
            Some(deadline) if deadline <= now => {
                self.stop();
                TimerEvent::Expired
            }
            Some(deadline) => self
                .start(deadline)
                .map_or(TimerEvent::Stale, TimerEvent::Later),
            None => TimerEvent::Stale,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_that_moves_back_needs_no_event_until_the_old_one() {
        let mut timer = Timer::default();
        assert_eq!(timer.start(10), Some(10));
        assert_eq!(timer.start(15), None);
        assert_eq!(timer.on_event(10), TimerEvent::Later(15));
        assert_eq!(timer.on_event(15), TimerEvent::Expired);
        assert_eq!(timer.deadline(), None);
    }

    #[test]
    fn an_earlier_deadline_replaces_the_event() {
        let mut timer = Timer::default();
        assert_eq!([timer.start(10), timer.start(7)], [Some(10), Some(7)]);
        assert_eq!(timer.on_event(7), TimerEvent::Expired);
        assert_eq!(timer.on_event(10), TimerEvent::Stale);
    }

    #[test]
    fn a_timer_that_is_off_does_not_expire() {
        let mut timer = Timer::default();
        timer.start(10);
        timer.stop();
        assert_eq!(timer.on_event(10), TimerEvent::Stale);
    }
}
