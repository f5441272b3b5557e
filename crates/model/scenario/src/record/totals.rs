//! Counters of a path.

use std::ops::{Add, AddAssign, Sub};

use anabranch_net::Cause;

/// Counts of one path. The counts of an interval are the difference of two of these.
#[derive(Clone, Copy, Debug, Default)]
pub struct PathTotals {
    /// Data packets sent, retransmissions included.
    pub sent_packets: u64,
    /// Data packets sent again.
    pub retransmitted_packets: u64,
    /// Packets that reached the receiver for the first time.
    pub delivered_packets: u64,
    /// Payload delivered, bytes.
    pub delivered_bytes: u64,
    /// Packets lost, by `anabranch_net::Cause`.
    pub lost: [u64; Cause::COUNT],
    /// Reductions of the window after losses.
    pub loss_events: u64,
    /// Packets that arrived marked (CE, RFC 3168).
    pub marked_packets: u64,
    /// Reductions of the window after marks.
    pub mark_events: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Timeouts that were undone, because nothing was lost.
    pub spurious_timeouts: u64,
    /// Sum of the RTT samples.
    pub rtt_sum_s: f64,
    /// Number of RTT samples.
    pub rtt_samples: u64,
    /// Sum over delivered packets of the time from sender to receiver.
    pub one_way_sum_s: f64,
}

impl PathTotals {
    fn combine(self, o: Self, int: fn(u64, u64) -> u64, float: fn(f64, f64) -> f64) -> Self {
        PathTotals {
            sent_packets: int(self.sent_packets, o.sent_packets),
            retransmitted_packets: int(self.retransmitted_packets, o.retransmitted_packets),
            delivered_packets: int(self.delivered_packets, o.delivered_packets),
            delivered_bytes: int(self.delivered_bytes, o.delivered_bytes),
            lost: std::array::from_fn(|cause| int(self.lost[cause], o.lost[cause])),
            loss_events: int(self.loss_events, o.loss_events),
            marked_packets: int(self.marked_packets, o.marked_packets),
            mark_events: int(self.mark_events, o.mark_events),
            timeouts: int(self.timeouts, o.timeouts),
            spurious_timeouts: int(self.spurious_timeouts, o.spurious_timeouts),
            rtt_sum_s: float(self.rtt_sum_s, o.rtt_sum_s),
            rtt_samples: int(self.rtt_samples, o.rtt_samples),
            one_way_sum_s: float(self.one_way_sum_s, o.one_way_sum_s),
        }
    }

    /// Packets lost, of every cause.
    pub fn lost_packets(&self) -> u64 {
        self.lost.iter().sum()
    }

    /// Mean RTT in ms; NaN without a sample.
    pub fn rtt_ms(&self) -> f64 {
        mean_ms(self.rtt_sum_s, self.rtt_samples)
    }

    /// Mean one-way delay in ms; NaN without a delivery.
    pub fn one_way_delay_ms(&self) -> f64 {
        mean_ms(self.one_way_sum_s, self.delivered_packets)
    }
}

/// The mean in ms; NaN if `count` is 0, where `sum_s`, a difference of sums, may be a rounding
/// error.
fn mean_ms(sum_s: f64, count: u64) -> f64 {
    if count == 0 {
        f64::NAN
    } else {
        1e3 * sum_s / count as f64
    }
}

impl Add for PathTotals {
    type Output = PathTotals;
    fn add(self, other: PathTotals) -> PathTotals {
        self.combine(other, |a, b| a + b, |a, b| a + b)
    }
}

impl AddAssign for PathTotals {
    fn add_assign(&mut self, other: PathTotals) {
        *self = *self + other;
    }
}

impl Sub for PathTotals {
    type Output = PathTotals;
    fn sub(self, other: PathTotals) -> PathTotals {
        self.combine(other, |a, b| a - b, |a, b| a - b)
    }
}
