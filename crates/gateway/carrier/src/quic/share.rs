//! Share of a path in the data of a tunnel.

/// Most bytes by which a path with a weight below 1 may be ahead of its share.
const AHEAD: f64 = 65_536.0;

/// Credit, bytes, at which a path that had used up its share is used again.
const WORTHWHILE: f64 = 16_384.0;

/// Limits of a path: its rate, and its share of the bytes of all paths.
#[derive(Clone, Debug)]
pub(super) struct Share {
    pub weight: f64,
    /// Largest rate, bytes per second.
    pub rate: Option<f64>,
    /// Bytes that do not count, because they were sent while no path of weight 1 worked.
    free: f64,
    pub used_up: bool,
}

impl Share {
    /// Share with this configuration.
    pub fn new(weight: f64, rate_mbps: Option<f64>) -> Share {
        Share {
            weight,
            rate: rate_mbps.map(|rate| rate * 1e6 / 8.0),
            free: 0.0,
            used_up: false,
        }
    }

    /// Bytes that the path may send now, if it has sent `own` and the paths of weight 1 `full`.
    pub fn credit(&mut self, own: u64, full: u64) -> f64 {
        let credit = self.free + self.weight * full as f64 + AHEAD - own as f64;
        self.used_up = credit < if self.used_up { WORTHWHILE } else { 0.0 };
        credit
    }

    /// Suspends the limits: bytes sent meanwhile do not count later.
    pub fn pause(&mut self, own: u64, full: u64) {
        self.free = own as f64 - self.weight * full as f64;
        self.used_up = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_relative_to_the_paths_of_weight_1() {
        let mut share = Share::new(0.1, None);
        assert_eq!(share.credit(0, 0), AHEAD);
        // 0.1 x 10^6 + 65536 - 165536 = 0.
        assert_eq!(share.credit(165_536, 1_000_000), 0.0);
        assert!(!share.used_up);
        assert!(share.credit(165_537, 1_000_000) < 0.0 && share.used_up);
        // A little more does not make it worthwhile; 16384 / 0.1 bytes do.
        assert!(share.credit(165_537, 1_100_000) > 0.0 && share.used_up);
        share.credit(165_537, 1_170_000);
        assert!(!share.used_up);
        // While it was alone it sent 10^7 bytes, which do not count.
        share.pause(10_165_537, 1_170_000);
        assert!((share.credit(10_165_537, 1_170_000) - AHEAD).abs() < 1e-6);
    }
}
