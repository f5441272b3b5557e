//! Pacing rate and window of BBRv1, in recovery, too.

use super::{
    BbrMemory, CWND_GAIN, CWND_MIN_TARGET, EXTRA_ACKED_MAX, HIGH_GAIN, INITIAL_CWND,
    PACING_MARGIN_PERCENT,
};
use super::model::Mode::{Drain, ProbeBw, ProbeRtt, Startup};
use crate::delivery::{Delivery, Sample};

impl BbrMemory {
    /// `bbr_init_pacing_rate_from_rtt`.
    pub(super) fn init_pacing_rate(&mut self, rtt: f64) {
        self.pacing_rate = paced(self.cwnd / rtt, HIGH_GAIN);
    }

    /// `bbr_set_pacing_rate`.
    pub(super) fn set_pacing_rate(&mut self, gain: f64) {
        let rate = paced(self.bw(), gain);
        if self.full_bw_reached || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    /// `bbr_bdp`.
    fn bdp(&self, bw: f64, gain: f64) -> f64 {
        if self.min_rtt == f64::INFINITY {
            return INITIAL_CWND;
        }
        libm::ceil(bw * self.min_rtt * gain)
    }

    /// `bbr_quantization_budget`, with aggregates of one packet.
    fn quantization_budget(&self, cwnd: f64) -> f64 {
        let even = 2.0 * libm::ceil((cwnd + 3.0) / 2.0);
        let is_probing = self.mode == ProbeBw && self.cycle_index == 0;
        if is_probing { even + 2.0 } else { even }
    }

    /// `bbr_inflight`.
    pub(super) fn inflight(&self, bw: f64, gain: f64) -> f64 {
        self.quantization_budget(self.bdp(bw, gain))
    }

    /// `bbr_ack_aggregation_cwnd`.
    fn ack_aggregation_cwnd(&self) -> f64 {
        if !self.full_bw_reached {
            return 0.0;
        }
        let extra = self.extra_acked[0].max(self.extra_acked[1]);
        extra.min(self.bw() * EXTRA_ACKED_MAX)
    }

    /// `bbr_set_cwnd`.
    pub(super) fn set_cwnd(&mut self, connection: &Delivery, rs: &Sample) {
        if !self.recover_or_restore(connection, rs) {
            let gain = match self.mode {
                Startup | Drain => HIGH_GAIN,
                ProbeBw => CWND_GAIN,
                ProbeRtt => 1.0,
            };
            let target = self.bdp(self.bw(), gain) + self.ack_aggregation_cwnd();
            let target = self.quantization_budget(target);
            if self.full_bw_reached {
                self.cwnd = (self.cwnd + rs.newly_acked).min(target);
            } else if self.cwnd < target || connection.delivered < INITIAL_CWND {
                self.cwnd += rs.newly_acked;
            }
            self.cwnd = self.cwnd.max(CWND_MIN_TARGET);
        }
        if self.mode == ProbeRtt {
            self.cwnd = self.cwnd.min(CWND_MIN_TARGET);
        }
    }

    /// `bbr_set_cwnd_to_recover_or_restore`: whether packets are conserved, which they are in the
    /// first round trip of a recovery.
    fn recover_or_restore(&mut self, connection: &Delivery, rs: &Sample) -> bool {
        if rs.newly_lost > 0.0 {
            self.cwnd = (self.cwnd - rs.newly_lost).max(1.0);
        }
        if self.in_recovery && !self.was_in_recovery {
            self.packet_conservation = true;
            self.next_round_delivered = connection.delivered;
            self.cwnd = rs.in_flight + rs.newly_acked;
        } else if self.was_in_recovery && !self.in_recovery {
            self.cwnd = self.cwnd.max(self.prior_cwnd);
            self.packet_conservation = false;
        }
        self.was_in_recovery = self.in_recovery;
        if self.packet_conservation {
            self.cwnd = self.cwnd.max(rs.in_flight + rs.newly_acked);
        }
        self.packet_conservation
    }

    /// `bbr_save_cwnd`.
    pub(super) fn save_cwnd(&mut self) {
        self.prior_cwnd = if self.was_in_recovery || self.mode == ProbeRtt {
            self.prior_cwnd.max(self.cwnd)
        } else {
            self.cwnd
        };
    }

    /// Recovery begins: `bbr_ssthresh`. If another one has ended at the same acknowledgement, they
    /// are one.
    pub(super) fn enter_recovery(&mut self) {
        self.save_cwnd();
        self.in_recovery = true;
    }

    /// Recovery, or the repair after a timeout, is over.
    pub(super) fn exit_recovery(&mut self) {
        self.in_recovery = false;
    }

    /// `bbr_ssthresh` and `bbr_set_state`. Linux enters the state with what is in flight and one
    /// packet more; all is declared lost, so nothing is in flight.
    pub(super) fn on_timeout(&mut self, connection: &Delivery) {
        self.save_cwnd();
        self.in_recovery = true;
        self.was_in_recovery = true;
        self.full_bw = 0.0;
        self.round_start = true;
        let lost = Sample { newly_lost: 1.0, ..Sample::default() };
        self.policer.sample(connection, &lost, true, self.mode == ProbeBw);
        self.cwnd = 1.0;
    }

    /// `bbr_undo_cwnd`.
    pub(super) fn undo(&mut self, connection: &Delivery) {
        self.full_bw = 0.0;
        self.full_bw_count = 0;
        self.policer.reset(connection);
        self.exit_recovery();
    }
}

/// `bbr_bw_to_pacing_rate`.
fn paced(bw: f64, gain: f64) -> f64 {
    bw * gain * (100.0 - PACING_MARGIN_PERCENT) / 100.0
}
