//! Limits how often the forwarder wakes up, as network cards limit their interrupts: waking up
//! costs more than forwarding a packet.

use anabranch_net::Time;

/// The least mean time between wake-ups, ps.
const INTERVAL: Time = 50_000_000;
/// Wake-ups that may happen at once after a pause. At the rates of the papers' scenarios there are
/// never more, so that packets are delivered when they are due.
const BURST: Time = 20;

/// A token bucket of wake-ups: [`BURST`] of them, one more every [`INTERVAL`].
#[derive(Debug, Default)]
pub struct Moderation {
    /// Time at which the bucket is full again.
    full_at: Time,
}

impl Moderation {
    /// The earliest time of the next wake-up, which then counts. `now` must not decrease.
    pub fn wake_up(&mut self, now: Time) -> Time {
        let at = now.max(self.full_at.saturating_sub((BURST - 1) * INTERVAL));
        self.full_at = self.full_at.max(at) + INTERVAL;
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wake_ups_are_immediate_until_the_bucket_is_empty() {
        let mut moderation = Moderation::default();
        for _ in 0..BURST {
            assert_eq!(moderation.wake_up(0), 0);
        }
        // One token every interval.
        assert_eq!(moderation.wake_up(0), INTERVAL);
        assert_eq!(moderation.wake_up(INTERVAL), 2 * INTERVAL);
        // After a pause of three intervals three are left, one of which is for now.
        for expected in [5, 5, 5, 6] {
            assert_eq!(moderation.wake_up(5 * INTERVAL), expected * INTERVAL);
        }
    }

    #[test]
    fn slower_wake_ups_are_never_delayed() {
        let mut moderation = Moderation::default();
        for number in 0..100 {
            let now = number * INTERVAL;
            assert_eq!(moderation.wake_up(now), now);
        }
    }
}
