//! Lateness: the time from when a packet was due to when it was written to its device.

use anabranch_net::Time;
use serde::Serialize;

/// Width of a bin, ps, and number of bins: up to 20 ms in steps of 1 us.
const BIN: Time = 1_000_000;
const BINS: usize = 20_000;

/// A histogram of lateness with bins of 1 us.
#[derive(Clone, Debug)]
pub struct Lateness {
    counts: Vec<u64>,
    worst: Time,
}

/// Percentiles of the lateness of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LatenessSummary {
    /// Packets delivered.
    pub packets: u64,
    /// Median, us.
    pub median_us: f64,
    /// 99th percentile, us.
    pub p99_us: f64,
    /// Maximum, us.
    pub worst_us: f64,
}

impl Default for Lateness {
    fn default() -> Self {
        Lateness {
            counts: vec![0; BINS],
            worst: 0,
        }
    }
}

impl Lateness {
    /// Counts a packet that was due at one time and delivered at another.
    pub fn count(&mut self, due: Time, delivered: Time) {
        let late = delivered.saturating_sub(due);
        self.counts[((late / BIN) as usize).min(BINS - 1)] += 1;
        self.worst = self.worst.max(late);
    }

    /// The percentiles, each the upper edge of its bin; NaN without a packet.
    pub fn summary(&self) -> LatenessSummary {
        LatenessSummary {
            packets: self.counts.iter().sum(),
            median_us: self.percentile_us(0.5),
            p99_us: self.percentile_us(0.99),
            worst_us: self.worst as f64 / BIN as f64,
        }
    }

    fn percentile_us(&self, share: f64) -> f64 {
        let packets: u64 = self.counts.iter().sum();
        if packets == 0 {
            return f64::NAN;
        }
        let wanted = (share * packets as f64).ceil() as u64;
        let mut below = 0;
        let bin = self.counts.iter().position(|count| {
            below += count;
            below >= wanted
        });
        bin.map_or(f64::NAN, |bin| (bin + 1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_upper_edges_of_bins() {
        let mut lateness = Lateness::default();
        for late_us in 0..100 {
            lateness.count(5, 5 + late_us * BIN);
        }
        // 0 to 99 us: half are at most 49 us late, 99 of 100 at most 98 us.
        let summary = lateness.summary();
        assert_eq!((summary.packets, summary.worst_us), (100, 99.0));
        assert_eq!((summary.median_us, summary.p99_us), (50.0, 99.0));
    }

    #[test]
    fn percentiles_without_packets_are_nan() {
        assert!(Lateness::default().summary().median_us.is_nan());
    }
}
