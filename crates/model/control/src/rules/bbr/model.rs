//! The model of the path and the modes of BBRv1.

use super::{
    BW_ROUNDS, BbrMemory, CWND_MIN_TARGET, CYCLE_LEN, CYCLE_RANDOM, EXTRA_ACKED_WINDOW_ROUNDS,
    FULL_BW_COUNT, FULL_BW_THRESH, HIGH_GAIN, MIN_RTT_WINDOW, PACING_GAINS, PROBE_RTT_MODE,
};
use crate::delivery::{Delivery, Sample, chance};

/// `enum bbr_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "Linux' source explains them, by these names")]
pub enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

use Mode::{Drain, ProbeBw, ProbeRtt, Startup};

impl BbrMemory {
    /// The pacing gain of the mode (`bbr_update_gains`).
    pub(super) fn pacing_gain(&self) -> f64 {
        match self.mode {
            Startup => HIGH_GAIN,
            Drain => 1.0 / HIGH_GAIN,
            ProbeBw if self.policer.rate().is_none() => PACING_GAINS[self.cycle_index],
            ProbeBw | ProbeRtt => 1.0,
        }
    }

    /// The estimate of the bandwidth: a policer's rate if there seems to be one (`bbr_bw`).
    pub(super) fn bw(&self) -> f64 {
        self.policer.rate().unwrap_or(self.max_bw)
    }

    /// `bbr_update_bw`, with `bbr_lt_bw_sampling`.
    pub(super) fn update_bw(&mut self, connection: &Delivery, rs: &Sample) {
        self.round_start = false;
        if rs.delivery_rate <= 0.0 {
            return;
        }
        if rs.prior_delivered >= self.next_round_delivered {
            self.next_round_delivered = connection.delivered;
            self.round_count += 1;
            self.round_start = true;
            self.packet_conservation = false;
        }
        let is_cycling = self.mode == ProbeBw;
        let stopped = self.policer.sample(connection, rs, self.round_start, is_cycling);
        if stopped {
            self.start_probe_bw(rs.now, connection);
        }
        if !rs.is_app_limited || rs.delivery_rate >= self.max_bw {
            let filter = &mut self.bw_filter;
            self.max_bw = filter.update(self.round_count, rs.delivery_rate, BW_ROUNDS + 1);
        }
    }

    /// `bbr_update_ack_aggregation`.
    pub(super) fn update_ack_aggregation(&mut self, rs: &Sample) {
        if rs.delivery_rate <= 0.0 {
            return;
        }
        if self.round_start {
            self.extra_acked_rounds += 1;
            if self.extra_acked_rounds >= EXTRA_ACKED_WINDOW_ROUNDS {
                self.extra_acked_rounds = 0;
                self.extra_acked_index = 1 - self.extra_acked_index;
                self.extra_acked[self.extra_acked_index] = 0.0;
            }
        }
        let mut expected = self.bw() * (rs.now - self.ack_epoch_stamp);
        if self.ack_epoch_acked <= expected {
            self.ack_epoch_acked = 0.0;
            self.ack_epoch_stamp = rs.now;
            expected = 0.0;
        }
        self.ack_epoch_acked += rs.newly_acked;
        let extra = (self.ack_epoch_acked - expected).min(self.cwnd);
        let largest = &mut self.extra_acked[self.extra_acked_index];
        *largest = largest.max(extra);
    }

    /// `bbr_update_cycle_phase`.
    pub(super) fn update_cycle_phase(&mut self, rs: &Sample) {
        if self.mode == ProbeBw && self.is_next_cycle_phase(rs) {
            self.advance_cycle_phase(rs.now);
        }
    }

    fn is_next_cycle_phase(&self, rs: &Sample) -> bool {
        let is_full_length = rs.now - self.cycle_stamp > self.min_rtt;
        let gain = self.pacing_gain();
        if gain > 1.0 {
            let is_high = rs.prior_in_flight() + 1.0 >= self.inflight(self.max_bw, gain);
            is_full_length && (rs.newly_lost > 0.0 || is_high)
        } else if gain < 1.0 {
            is_full_length || rs.prior_in_flight() <= self.inflight(self.max_bw, 1.0)
        } else {
            is_full_length
        }
    }

    fn advance_cycle_phase(&mut self, now: f64) {
        self.cycle_index = (self.cycle_index + 1) % CYCLE_LEN;
        self.cycle_stamp = now;
    }

    /// `bbr_reset_probe_bw_mode`.
    fn start_probe_bw(&mut self, now: f64, connection: &Delivery) {
        self.mode = ProbeBw;
        let chosen = (CYCLE_RANDOM * chance(now, connection.delivered)) as usize;
        self.cycle_index = CYCLE_LEN - 1 - chosen;
        self.advance_cycle_phase(now);
    }

    /// `bbr_check_full_bw_reached`.
    pub(super) fn check_full_bw_reached(&mut self, rs: &Sample) {
        if self.full_bw_reached || !self.round_start || rs.is_app_limited {
            return;
        }
        if self.max_bw >= self.full_bw * FULL_BW_THRESH {
            self.full_bw = self.max_bw;
            self.full_bw_count = 0;
            return;
        }
        self.full_bw_count += 1;
        self.full_bw_reached = self.full_bw_count >= FULL_BW_COUNT;
    }

    /// `bbr_check_drain`.
    pub(super) fn check_drain(&mut self, connection: &Delivery, rs: &Sample) {
        if self.mode == Startup && self.full_bw_reached {
            self.mode = Drain;
        }
        if self.mode == Drain && rs.in_flight <= self.inflight(self.max_bw, 1.0) {
            self.start_probe_bw(rs.now, connection);
        }
    }

    /// `bbr_update_min_rtt`.
    pub(super) fn update_min_rtt(&mut self, connection: &mut Delivery, rs: &Sample) {
        let expired = rs.now > self.min_rtt_stamp + MIN_RTT_WINDOW;
        if let Some(rtt) = rs.rtt
            && (rtt < self.min_rtt || expired)
        {
            self.min_rtt = rtt;
            self.min_rtt_stamp = rs.now;
        }
        if expired && !self.idle_restart && self.mode != ProbeRtt {
            self.mode = ProbeRtt;
            self.save_cwnd();
            self.probe_rtt_done_stamp = None;
        }
        if self.mode == ProbeRtt {
            self.stay_in_probe_rtt(connection, rs);
        }
        if rs.delivered > 0.0 {
            self.idle_restart = false;
        }
    }

    fn stay_in_probe_rtt(&mut self, connection: &mut Delivery, rs: &Sample) {
        connection.mark_app_limited(rs.in_flight);
        if self.probe_rtt_done_stamp.is_some() {
            self.probe_rtt_round_done |= self.round_start;
            if self.probe_rtt_round_done {
                self.check_probe_rtt_done(rs.now, connection);
            }
        } else if rs.in_flight <= CWND_MIN_TARGET {
            self.probe_rtt_done_stamp = Some(rs.now + PROBE_RTT_MODE);
            self.probe_rtt_round_done = false;
            self.next_round_delivered = connection.delivered;
        }
    }

    /// `bbr_check_probe_rtt_done`, with `bbr_reset_mode`.
    pub(super) fn check_probe_rtt_done(&mut self, now: f64, connection: &Delivery) {
        if self.probe_rtt_done_stamp.is_none_or(|stamp| now <= stamp) {
            return;
        }
        self.min_rtt_stamp = now;
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        if self.full_bw_reached {
            self.start_probe_bw(now, connection);
        } else {
            self.mode = Startup;
        }
    }
}
