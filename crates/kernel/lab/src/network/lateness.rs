//! Lateness: the time from when a packet was due to when it was written to its device.

use anabranch_net::Time;
use serde::Serialize;

/// One microsecond, the width of the first bins, ps.
const US: Time = 1_000_000;
/// Bins per power of two: a bin is at most 1/1024 as wide as its lower edge, or 1 us.
const BINS: u64 = 1 << BIN_BITS;
const BIN_BITS: u32 = 10;
/// A run was too late if the 99th percentile of its lateness is above this, us.
pub const MAX_LATENESS_US: f64 = 1000.0;

/// A histogram of lateness. Bins are 1 us wide up to 2048 us and then twice as wide per power of
/// two, so that it has no upper end.
#[derive(Clone, Debug, Default)]
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
    /// Whether the 99th percentile is above [`MAX_LATENESS_US`].
    pub too_late: bool,
}

impl Lateness {
    /// Counts a packet that was due at one time and delivered at another.
    pub fn count(&mut self, due: Time, delivered: Time) {
        let late = delivered.saturating_sub(due);
        let bin = bin_of(late / US);
        if bin >= self.counts.len() {
            self.counts.resize(bin + 1, 0);
        }
        self.counts[bin] += 1;
        self.worst = self.worst.max(late);
    }

    /// The percentiles, each the upper edge of its bin; NaN without a packet.
    pub fn summary(&self) -> LatenessSummary {
        let p99_us = self.percentile_us(0.99);
        LatenessSummary {
            packets: self.counts.iter().sum(),
            median_us: self.percentile_us(0.5),
            p99_us,
            worst_us: self.worst as f64 / US as f64,
            too_late: p99_us > MAX_LATENESS_US,
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
        bin.map_or(f64::NAN, |bin| upper_edge_us(bin) as f64)
    }
}

/// The bin of a lateness of `us`. The first `2 * BINS` bins are 1 us wide, each `BINS` further ones
/// twice as wide as those before.
fn bin_of(us: u64) -> usize {
    let shift = (us | BINS).ilog2() - BIN_BITS;
    (u64::from(shift) * BINS + (us >> shift)) as usize
}

fn upper_edge_us(bin: usize) -> u64 {
    let bin = bin as u64;
    let shift = (bin / BINS).saturating_sub(1);
    (bin - shift * BINS + 1) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_upper_edges_of_bins() {
        let mut lateness = Lateness::default();
        for late_us in 0..100 {
            lateness.count(5, 5 + late_us * US);
        }
        // 0 to 99 us: half are at most 49 us late, 99 of 100 at most 98 us.
        let summary = lateness.summary();
        assert_eq!((summary.packets, summary.worst_us), (100, 99.0));
        assert_eq!((summary.median_us, summary.p99_us), (50.0, 99.0));
        assert!(!summary.too_late);
    }

    #[test]
    fn percentiles_have_no_upper_limit() {
        let mut lateness = Lateness::default();
        for late_ms in 1..=100 {
            lateness.count(0, late_ms * 1000 * US);
        }
        // 1 to 100 ms: the median is 50 ms and the 99th percentile 99 ms, each less than 1/1024
        // below the upper edge of its bin.
        let summary = lateness.summary();
        assert!((50_000.0..50_050.0).contains(&summary.median_us));
        assert!((99_000.0..99_100.0).contains(&summary.p99_us));
        assert!(summary.too_late);
    }

    #[test]
    fn a_bin_ends_where_the_next_begins() {
        for us in [0, 1, 1023, 1024, 2047, 2048, 2049, 4095, 4096, 123_456_789] {
            let bin = bin_of(us);
            let edge = upper_edge_us(bin);
            assert!(us < edge && edge - us <= 1 + us / BINS, "{us}: {edge}");
            assert_eq!(bin_of(edge), bin + 1, "{us}");
        }
    }

    #[test]
    fn percentiles_without_packets_are_nan() {
        assert!(Lateness::default().summary().median_us.is_nan());
    }
}
