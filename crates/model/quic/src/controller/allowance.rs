//! Limits of a path beside its congestion window.

/// Most that a path may send, beside its congestion window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowance {
    /// Bytes per second.
    pub rate: Option<f64>,
    /// Bytes in flight, two packets at least.
    pub in_flight: u64,
    /// Bytes from now on.
    pub credit: u64,
    /// Two packets whatever is in flight: the library sends no PING while the window is full and
    /// data waits, also if that data goes over other paths.
    pub pings: bool,
}

impl Allowance {
    /// No limit.
    pub const NONE: Allowance = Allowance {
        rate: None,
        in_flight: u64::MAX,
        credit: u64::MAX,
        pings: false,
    };

    /// How much may be in flight, bytes, with this congestion window. The library does not allow 0.
    pub(super) fn window(&self, window: u64, in_flight: u64, mtu: u64) -> u64 {
        window
            .min(self.in_flight.max(2 * mtu))
            .min(in_flight.saturating_add(self.credit))
            .max(if self.pings { in_flight + 2 * mtu } else { 1 })
    }

    /// A packet was sent.
    pub(super) fn on_sent(&mut self, bytes: u64) {
        if self.credit < u64::MAX {
            self.credit = self.credit.saturating_sub(bytes);
        }
    }
}

impl Default for Allowance {
    fn default() -> Self {
        Allowance::NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_bounded_by_what_is_allowed() {
        assert_eq!(Allowance::NONE.window(10_000, 9_000, 1_000), 10_000);
        let mut allowance = Allowance {
            credit: 2_500,
            ..Allowance::NONE
        };
        assert_eq!(allowance.window(10_000, 3_000, 1_000), 5_500);
        (0..3).for_each(|_| allowance.on_sent(1_000));
        assert_eq!(allowance.window(10_000, 6_000, 1_000), 6_000);
        assert_eq!(allowance.window(10_000, 0, 1_000), 1);
        let allowance = Allowance {
            in_flight: 0,
            ..Allowance::NONE
        };
        assert_eq!(allowance.window(10_000, 9_000, 1_000), 2_000);
        let allowance = Allowance {
            pings: true,
            ..Allowance::NONE
        };
        assert_eq!(allowance.window(10_000, 9_500, 1_000), 11_500);
    }
}
