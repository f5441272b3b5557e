//! Random early detection as the testbed of the OLIA draft states it.

use crate::arrival::Arrival;
use crate::time::Time;

/// Size of the packets that an idle link could have transmitted.
const TYPICAL_BYTES: u32 = 1500;

/// Random early detection with a drop probability in three pieces: 0 up to `min_packets`, linear
/// to `mid_probability` at `mid_packets`, linear to 1 at `max_packets` (OLIA draft, Sec. 3; after
/// Floyd and Jacobson 1993). Packets are dropped, or marked, each independently of the others,
/// where Floyd and Jacobson spread drops evenly by a count of the packets since the last one.
#[derive(Clone, Debug, PartialEq)]
pub struct Red {
    /// Queue up to which no packet is dropped.
    pub min_packets: f64,
    /// Queue at which the slope changes.
    pub mid_packets: f64,
    /// Queue from which every packet is dropped.
    pub max_packets: f64,
    /// Drop probability at `mid_packets`.
    pub mid_probability: f64,
    /// Weight of an arrival in the moving average of the queue, within (0, 1]; None: the
    /// instantaneous queue is used.
    pub average_weight: Option<f64>,
    /// Maximum number of waiting packets, for any average.
    pub limit_packets: u32,
    /// Mark packets that are ECN-capable instead of dropping them, below `max_packets` (RFC 3168,
    /// section 7).
    pub ecn: bool,
}

impl Red {
    /// The queue of the OLIA draft, Sec. 3: thresholds of 25, 50 and 100 packets at 10 Mbps, in
    /// proportion to the rate; probability 0.1 at the middle one. The instantaneous queue is used,
    /// and at most as many packets as the highest threshold may wait.
    pub fn scaled(rate_mbps: f64) -> Red {
        let scale = rate_mbps / 10.0;
        Red {
            min_packets: 25.0 * scale,
            mid_packets: 50.0 * scale,
            max_packets: 100.0 * scale,
            mid_probability: 0.1,
            average_weight: None,
            limit_packets: (100.0 * scale).round() as u32,
            ecn: true,
        }
    }

    /// Probability that an arrival is dropped when `queue` packets wait, instantaneous or average.
    pub fn drop_probability(&self, queue: f64) -> f64 {
        if queue <= self.min_packets {
            0.0
        } else if queue <= self.mid_packets {
            let share = (queue - self.min_packets) / (self.mid_packets - self.min_packets);
            share * self.mid_probability
        } else if queue < self.max_packets {
            let share = (queue - self.mid_packets) / (self.max_packets - self.mid_packets);
            self.mid_probability + share * (1.0 - self.mid_probability)
        } else {
            1.0
        }
    }

    /// The points between which [`drop_probability`](Self::drop_probability) is linear: queue and
    /// probability. Before the first it is 0, after the last 1.
    pub fn curve(&self) -> [(f64, f64); 3] {
        [self.min_packets, self.mid_packets, self.max_packets]
            .map(|queue| (queue, self.drop_probability(queue)))
    }

    fn is_valid(&self) -> bool {
        let ordered = 0.0 <= self.min_packets
            && self.min_packets <= self.mid_packets
            && self.mid_packets <= self.max_packets;
        let weight = self.average_weight.unwrap_or(1.0);
        ordered && (0.0..=1.0).contains(&self.mid_probability) && 0.0 < weight && weight <= 1.0
    }
}

/// A [`Red`] and its moving average.
#[derive(Clone, Debug)]
pub(crate) struct Averager {
    red: Red,
    average: f64,
    /// When the average last took a sample, ps.
    sampled_at: Time,
    /// Transmission time of a typical packet, ps.
    typical: f64,
}

impl Averager {
    /// # Panics
    /// If thresholds are out of order, the probability is outside [0, 1] or the weight outside
    /// (0, 1].
    pub(crate) fn new(red: Red, mean_mbps: f64) -> Averager {
        assert!(red.is_valid(), "invalid parameters of RED: {red:?}");
        let typical = f64::from(TYPICAL_BYTES * 8) * 1e6 / mean_mbps;
        Averager {
            red,
            average: 0.0,
            sampled_at: 0,
            typical,
        }
    }

    pub(crate) fn limit_packets(&self) -> u32 {
        self.red.limit_packets
    }

    /// Whether ECN-capable packets are marked instead of dropped at the present average.
    pub(crate) fn marks(&self) -> bool {
        self.red.ecn && self.average < self.red.max_packets
    }

    /// Takes an arrival's sample of the queue and gives the probability of dropping it. While the
    /// link is idle the average decays as if typical packets had met an empty queue all that time
    /// (Floyd and Jacobson 1993, Sec. 4).
    pub(crate) fn drop_probability(&mut self, arrival: &Arrival) -> f64 {
        let queue = f64::from(arrival.backlog.packets);
        match self.red.average_weight {
            None => self.average = queue,
            Some(weight) => {
                let idle_since = self.sampled_at.max(arrival.free_at);
                if arrival.now > idle_since {
                    let missed = (arrival.now - idle_since) as f64 / self.typical;
                    // The system's pow differs between machines.
                    self.average *= libm::pow(1.0 - weight, missed);
                }
                self.average += weight * (queue - self.average);
            }
        }
        self.sampled_at = arrival.now;
        self.red.drop_probability(self.average)
    }
}
