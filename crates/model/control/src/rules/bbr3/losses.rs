//! Losses, and their undoing: draft-ietf-ccwg-bbr-06, sections 5.3.1.3, 5.5.10 and 5.5.11.

use super::{BETA, Bbr3Memory, Bbr3State, LOSS_THRESH, STARTUP_FULL_LOSS_CNT};
use crate::delivery::{Delivery, Sample, Stamp};

impl Bbr3Memory {
    /// Section 5.3.1.3.
    pub(super) fn check_startup_high_loss(&mut self, rs: &Sample) {
        let in_recovery = self.recovery_round.is_some_and(|round| self.round_count > round);
        if !self.full_bw_reached
            && in_recovery
            && self.lost_ranges >= STARTUP_FULL_LOSS_CNT
            && Self::is_inflight_too_high(rs.lost, rs.tx_in_flight)
        {
            self.undo_state = Some(Bbr3State::Startup);
            self.full_bw_reached = true;
            self.full_bw_now = true;
            self.inflight_longterm = self.bdp.max(self.inflight_latest);
        }
        if self.loss_round_start {
            self.lost_ranges = 0;
        }
    }

    /// `IsInflightTooHigh` (section 5.5.10.2).
    pub(super) fn is_inflight_too_high(lost: f64, tx_in_flight: f64) -> bool {
        lost > tx_in_flight * LOSS_THRESH
    }

    fn handle_inflight_too_high(&mut self, now: f64, connection: &Delivery, packet: &Stamp, at: f64) {
        self.prev_probe_too_high = true;
        self.is_bw_probe_sample = false;
        if !packet.is_app_limited {
            self.inflight_longterm = libm::floor(at.max(self.target_inflight() * BETA));
        }
        if self.state == Bbr3State::ProbeBwUp {
            self.undo_state = Some(Bbr3State::ProbeBwUp);
            self.start_probe_bw_down(now, connection);
        }
    }

    fn note_loss(&mut self, connection: &Delivery, packet: &Stamp) {
        if !self.is_loss_in_round {
            self.loss_round_delivered = connection.delivered;
        }
        self.is_loss_in_round = true;
        self.lost_ranges += u32::from(packet.packet_id != self.last_lost_id + 1);
        self.last_lost_id = packet.packet_id;
    }

    /// Section 5.5.10.2.
    pub(super) fn handle_lost_packet(&mut self, now: f64, connection: &Delivery, packet: &Stamp) {
        self.note_loss(connection, packet);
        if !self.is_bw_probe_sample {
            return;
        }
        let lost = connection.lost - packet.lost;
        if Self::is_inflight_too_high(lost, packet.tx_in_flight) {
            let at = Self::inflight_at_loss(lost, packet);
            self.handle_inflight_too_high(now, connection, packet, at);
        }
    }

    fn inflight_at_loss(lost: f64, packet: &Stamp) -> f64 {
        let inflight_prev = packet.tx_in_flight - packet.size;
        let lost_prev = lost - packet.size;
        let lost_prefix = (LOSS_THRESH * inflight_prev - lost_prev) / (1.0 - LOSS_THRESH);
        inflight_prev + lost_prefix
    }

    /// Section 5.5.10.3, near the start of the processing of an acknowledgement.
    pub(super) fn update_latest_delivery_signals(&mut self, connection: &Delivery, rs: &Sample) {
        self.bw_latest = self.bw_latest.max(rs.delivery_rate);
        self.inflight_latest = self.inflight_latest.max(rs.delivered);
        self.loss_round_start = rs.prior_delivered >= self.loss_round_delivered;
        if self.loss_round_start {
            self.loss_round_delivered = connection.delivered;
        }
    }

    /// Section 5.5.10.3, near its end.
    pub(super) fn advance_latest_delivery_signals(&mut self, rs: &Sample) {
        if self.loss_round_start {
            self.bw_latest = rs.delivery_rate;
            self.inflight_latest = rs.delivered;
        }
    }

    pub(super) fn reset_congestion_signals(&mut self) {
        self.is_loss_in_round = false;
        self.bw_latest = 0.0;
        self.inflight_latest = 0.0;
    }

    pub(super) fn update_congestion_signals(&mut self, connection: &Delivery, rs: &Sample) {
        self.update_max_bw(connection, rs);
        if self.loss_round_start {
            self.adapt_lower_bounds_from_congestion();
            self.is_loss_in_round = false;
        }
    }

    fn adapt_lower_bounds_from_congestion(&mut self) {
        if self.state.is_probing_bw() || !self.is_loss_in_round {
            return;
        }
        if self.bw_shortterm == f64::INFINITY {
            self.bw_shortterm = self.max_bw;
        }
        if self.inflight_shortterm == f64::INFINITY {
            self.inflight_shortterm = self.cwnd;
        }
        self.bw_shortterm = self.bw_latest.max(BETA * self.bw_shortterm);
        self.inflight_shortterm = self.inflight_latest.max(BETA * self.inflight_shortterm);
    }

    pub(super) fn reset_short_term_model(&mut self) {
        self.bw_shortterm = f64::INFINITY;
        self.inflight_shortterm = f64::INFINITY;
    }

    /// Section 5.5.11.1.
    fn save_state_upon_loss(&mut self) {
        self.save_cwnd();
        self.undo_state = None;
        self.undo_bw_shortterm = self.bw_shortterm;
        self.undo_inflight_shortterm = self.inflight_shortterm;
        self.undo_inflight_longterm = self.inflight_longterm;
    }

    /// Section 5.5.11.2.
    pub(super) fn handle_spurious_loss_detection(&mut self, connection: &Delivery) {
        self.recovery_round = None;
        self.restore_cwnd();
        self.is_loss_in_round = false;
        self.reset_full_bw();
        self.bw_shortterm = self.bw_shortterm.max(self.undo_bw_shortterm);
        self.inflight_shortterm = self.inflight_shortterm.max(self.undo_inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(self.undo_inflight_longterm);
        let undo_state = self.undo_state.take().filter(|&state| state != self.state);
        match undo_state {
            Some(Bbr3State::Startup) => {
                self.full_bw_reached = false;
                if self.state != Bbr3State::ProbeRtt {
                    self.state = Bbr3State::Startup;
                }
            }
            Some(Bbr3State::ProbeBwUp) if self.state != Bbr3State::ProbeRtt => {
                self.start_probe_bw_refill(connection);
            }
            _ => {}
        }
    }

    /// Section 5.6.4.4.
    pub(super) fn on_enter_fast_recovery(&mut self) {
        self.save_state_upon_loss();
        self.recovery_round.get_or_insert(self.round_count);
    }

    /// Section 5.6.4.4.
    pub(super) fn on_enter_rto(&mut self) {
        self.save_state_upon_loss();
        self.recovery_round.get_or_insert(self.round_count);
        self.cwnd = 1.0;
    }

    /// Section 5.6.4.4.
    pub(super) fn on_exit_recovery(&mut self) {
        if self.recovery_round.take().is_some() {
            self.restore_cwnd();
        }
    }

    pub(super) fn save_cwnd(&mut self) {
        if self.recovery_round.is_none() && self.state != Bbr3State::ProbeRtt {
            self.prior_cwnd = self.cwnd;
        } else {
            self.prior_cwnd = self.prior_cwnd.max(self.cwnd);
        }
    }

    pub(super) fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }
}
