//! The state machine: draft-ietf-ccwg-bbr-06, sections 5.3 and 5.4.

use super::{
    AckPhase, Bbr3Memory, DEFAULT_CWND_GAIN, DRAIN_PACING_GAIN, DRAIN_ROUNDS, FULL_BW_GROWTH,
    FULL_BW_ROUNDS, HEADROOM, MIN_PIPE_CWND, MIN_RTT_FILTER_LEN, PROBE_DOWN_PACING_GAIN,
    PROBE_RTT_CWND_GAIN, PROBE_RTT_DURATION, PROBE_RTT_INTERVAL, PROBE_UP_CWND_GAIN,
    PROBE_UP_PACING_GAIN, STARTUP_PACING_GAIN,
};
use crate::delivery::{Delivery, Sample, chance};

/// `BBR.state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the draft defines them, by these names")]
pub enum Bbr3State {
    Startup,
    Drain,
    ProbeBwDown,
    ProbeBwCruise,
    ProbeBwRefill,
    ProbeBwUp,
    ProbeRtt,
}

use Bbr3State::{Drain, ProbeBwCruise, ProbeBwDown, ProbeBwRefill, ProbeBwUp, ProbeRtt, Startup};

impl Bbr3State {
    /// `BBR.pacing_gain` in this state (section 5.6.1).
    pub fn pacing_gain(self) -> f64 {
        match self {
            Startup => STARTUP_PACING_GAIN,
            Drain => DRAIN_PACING_GAIN,
            ProbeBwDown => PROBE_DOWN_PACING_GAIN,
            ProbeBwCruise | ProbeBwRefill | ProbeRtt => 1.0,
            ProbeBwUp => PROBE_UP_PACING_GAIN,
        }
    }

    /// `BBR.cwnd_gain` in this state (section 5.6.1).
    pub fn cwnd_gain(self) -> f64 {
        match self {
            ProbeBwUp => PROBE_UP_CWND_GAIN,
            ProbeRtt => PROBE_RTT_CWND_GAIN,
            _ => DEFAULT_CWND_GAIN,
        }
    }

    /// `IsInAProbeBWState` (section 5.3.3.9).
    pub fn is_probe_bw(self) -> bool {
        matches!(self, ProbeBwDown | ProbeBwCruise | ProbeBwRefill | ProbeBwUp)
    }

    /// `IsProbingBW` (section 5.3.3.9).
    pub fn is_probing_bw(self) -> bool {
        matches!(self, Startup | ProbeBwRefill | ProbeBwUp)
    }
}

impl Bbr3Memory {
    pub(super) fn reset_full_bw(&mut self) {
        self.full_bw = 0.0;
        self.full_bw_count = 0;
        self.full_bw_now = false;
    }

    /// Section 5.3.1.2.
    pub(super) fn check_full_bw_reached(&mut self, rs: &Sample) {
        if self.full_bw_now || !self.round_start || rs.is_app_limited {
            return;
        }
        if rs.delivery_rate >= self.full_bw * FULL_BW_GROWTH {
            self.reset_full_bw();
            self.full_bw = rs.delivery_rate;
            return;
        }
        self.full_bw_count += 1;
        self.full_bw_now = self.full_bw_count >= FULL_BW_ROUNDS;
        self.full_bw_reached |= self.full_bw_now;
    }

    /// Section 5.3.1.1.
    pub(super) fn check_startup_done(&mut self, rs: &Sample) {
        self.check_startup_high_loss(rs);
        if self.state == Startup && self.full_bw_reached {
            self.state = Drain; // EnterDrain
            self.drain_start_round = self.round_count;
        }
    }

    /// Section 5.3.2.
    pub(super) fn check_drain_done(&mut self, connection: &Delivery, rs: &Sample) {
        let is_drained = rs.in_flight <= self.inflight(1.0);
        if self.state == Drain
            && (is_drained || self.round_count > self.drain_start_round + DRAIN_ROUNDS)
        {
            self.start_probe_bw_down(rs.now, connection);
        }
    }

    pub(super) fn start_probe_bw_down(&mut self, now: f64, connection: &Delivery) {
        self.reset_congestion_signals();
        self.probe_up_acked_per_inc = f64::INFINITY;
        self.pick_probe_wait(now, connection);
        self.cycle_stamp = now;
        self.ack_phase = AckPhase::ProbeStopping;
        self.start_round(connection);
        self.state = ProbeBwDown;
    }

    pub(super) fn start_probe_bw_refill(&mut self, connection: &Delivery) {
        self.reset_short_term_model();
        self.bw_probe_up_rounds = 0;
        self.bw_probe_up_acked = 0.0;
        self.prev_probe_precautionary = false;
        self.ack_phase = AckPhase::Refilling;
        self.start_round(connection);
        self.state = ProbeBwRefill;
    }

    fn start_probe_bw_up(&mut self, connection: &Delivery, rs: &Sample) {
        self.ack_phase = AckPhase::ProbeStarting;
        self.start_round(connection);
        self.reset_full_bw();
        self.full_bw = rs.delivery_rate;
        self.state = ProbeBwUp;
        self.raise_inflight_longterm_slope();
    }

    /// Section 5.3.3.9.
    pub(super) fn update_probe_bw_cycle_phase(&mut self, connection: &Delivery, rs: &Sample) {
        if !self.full_bw_reached || self.adapt_long_term_model(connection, rs) {
            return;
        }
        let state = self.state;
        match state {
            ProbeBwDown | ProbeBwCruise if self.probes_bw_if_it_is_time(connection, rs) => {}
            ProbeBwDown if self.is_time_to_cruise(rs) => self.state = ProbeBwCruise,
            ProbeBwRefill if self.round_start => {
                self.is_bw_probe_sample = true;
                self.start_probe_bw_up(connection, rs);
            }
            ProbeBwUp if self.is_time_to_go_down(rs) => {
                self.prev_probe_too_high = false;
                self.start_probe_bw_down(rs.now, connection);
            }
            _ => {}
        }
    }

    fn is_time_to_cruise(&self, rs: &Sample) -> bool {
        let bdp = self.quantization_budget(self.bdp_multiple(self.max_bw, 1.0));
        rs.in_flight <= self.inflight_with_headroom() && rs.in_flight <= bdp
    }

    fn is_time_to_go_down(&mut self, rs: &Sample) -> bool {
        if self.prev_probe_too_high && rs.prior_in_flight() >= self.inflight_longterm {
            self.prev_probe_precautionary = true;
            return true;
        }
        if rs.is_cwnd_limited && self.cwnd >= self.inflight_longterm {
            self.reset_full_bw();
            self.full_bw = rs.delivery_rate;
            return false;
        }
        self.full_bw_now
    }

    pub(super) fn inflight_with_headroom(&self) -> f64 {
        if self.inflight_longterm == f64::INFINITY {
            return f64::INFINITY;
        }
        let headroom = (HEADROOM * self.inflight_longterm).max(1.0);
        (self.inflight_longterm - headroom).max(MIN_PIPE_CWND)
    }

    fn raise_inflight_longterm_slope(&mut self) {
        let growth_this_round = f64::from(1u32 << self.bw_probe_up_rounds);
        self.bw_probe_up_rounds = (self.bw_probe_up_rounds + 1).min(30);
        self.probe_up_acked_per_inc = (self.cwnd / growth_this_round).max(1.0);
    }

    fn probe_inflight_longterm_upward(&mut self, rs: &Sample) {
        if !rs.is_cwnd_limited || self.cwnd < self.inflight_longterm {
            return;
        }
        self.bw_probe_up_acked += rs.newly_acked;
        if self.bw_probe_up_acked >= self.probe_up_acked_per_inc {
            let delta = libm::floor(self.bw_probe_up_acked / self.probe_up_acked_per_inc);
            self.bw_probe_up_acked -= delta * self.probe_up_acked_per_inc;
            self.inflight_longterm += delta;
        }
        if self.round_start {
            self.raise_inflight_longterm_slope();
        }
    }

    /// `AdaptLongTermModel` (section 5.3.3.9): whether it decided on a state.
    fn adapt_long_term_model(&mut self, connection: &Delivery, rs: &Sample) -> bool {
        if self.ack_phase == AckPhase::ProbeStarting && self.round_start {
            self.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.ack_phase == AckPhase::ProbeStopping && self.round_start {
            self.is_bw_probe_sample = false;
            self.ack_phase = AckPhase::Init;
            if self.state.is_probe_bw() && !rs.is_app_limited {
                self.cycle_count += 1; // AdvanceMaxBwFilter
            }
            if self.state.is_probe_bw()
                && self.prev_probe_precautionary
                && !self.prev_probe_too_high
            {
                self.start_probe_bw_refill(connection);
                return true;
            }
        }
        if !Self::is_inflight_too_high(rs.lost, rs.tx_in_flight)
            && self.inflight_longterm < f64::INFINITY
        {
            self.inflight_longterm = self.inflight_longterm.max(rs.tx_in_flight);
            if self.state == ProbeBwUp {
                self.probe_inflight_longterm_upward(rs);
            }
        }
        false
    }

    /// `IsTimeToProbeBW` (section 5.3.3.8.3).
    fn probes_bw_if_it_is_time(&mut self, connection: &Delivery, rs: &Sample) -> bool {
        let has_elapsed = rs.now > self.cycle_stamp + self.bw_probe_wait;
        let reno_rounds = self.target_inflight().min(63.0);
        let is_time = has_elapsed || self.rounds_since_probe_up as f64 >= reno_rounds;
        if is_time {
            self.start_probe_bw_refill(connection);
        }
        is_time
    }

    /// Section 5.3.3.8.3, with both choices from one chance.
    fn pick_probe_wait(&mut self, now: f64, connection: &Delivery) {
        let chance = 2.0 * chance(now, connection.delivered);
        self.rounds_since_probe_up = chance as u64;
        self.bw_probe_wait = 2.0 + chance - libm::floor(chance);
    }

    /// Section 5.3.4.3.
    pub(super) fn update_min_rtt(&mut self, rs: &Sample) {
        self.probe_rtt_expired = rs.now > self.probe_rtt_min_stamp + PROBE_RTT_INTERVAL;
        if let Some(rtt) = rs.rtt
            && (rtt < self.probe_rtt_min_delay || self.probe_rtt_expired)
        {
            self.probe_rtt_min_delay = rtt;
            self.probe_rtt_min_stamp = rs.now;
        }
        let min_rtt_expired = rs.now > self.min_rtt_stamp + MIN_RTT_FILTER_LEN;
        if self.probe_rtt_min_delay < self.min_rtt || min_rtt_expired {
            self.min_rtt = self.probe_rtt_min_delay;
            self.min_rtt_stamp = self.probe_rtt_min_stamp;
        }
    }

    /// Section 5.3.4.3.
    pub(super) fn check_probe_rtt(&mut self, connection: &mut Delivery, rs: &Sample) {
        if self.state != ProbeRtt && self.probe_rtt_expired && !self.idle_restart {
            self.state = ProbeRtt; // EnterProbeRTT
            self.save_cwnd();
            self.probe_rtt_done_stamp = None;
            self.ack_phase = AckPhase::ProbeStopping;
            self.start_round(connection);
        }
        if self.state == ProbeRtt {
            self.handle_probe_rtt(connection, rs);
        }
        if rs.delivered > 0.0 {
            self.idle_restart = false;
        }
    }

    fn handle_probe_rtt(&mut self, connection: &mut Delivery, rs: &Sample) {
        connection.mark_app_limited(rs.in_flight);
        if self.probe_rtt_done_stamp.is_some() {
            self.probe_rtt_round_done |= self.round_start;
            if self.probe_rtt_round_done {
                self.check_probe_rtt_done(rs.now, connection);
            }
        } else if rs.in_flight <= self.probe_rtt_cwnd() {
            self.probe_rtt_done_stamp = Some(rs.now + PROBE_RTT_DURATION);
            self.probe_rtt_round_done = false;
            self.start_round(connection);
        }
    }

    fn check_probe_rtt_done(&mut self, now: f64, connection: &Delivery) {
        if self.probe_rtt_done_stamp.is_some_and(|stamp| now > stamp) {
            self.probe_rtt_min_stamp = now;
            self.restore_cwnd();
            self.exit_probe_rtt(now, connection);
        }
    }

    /// Section 5.3.4.4.
    fn exit_probe_rtt(&mut self, now: f64, connection: &Delivery) {
        self.reset_short_term_model();
        if self.full_bw_reached {
            self.start_probe_bw_down(now, connection);
            self.state = ProbeBwCruise;
        } else {
            self.state = Startup;
        }
    }

    /// Section 5.4.1.
    pub(super) fn handle_restart_from_idle(&mut self, now: f64, connection: &Delivery) {
        if !connection.is_app_limited() {
            return;
        }
        self.idle_restart = true;
        self.extra_acked_interval_start = now;
        if self.state.is_probe_bw() {
            self.set_pacing_rate_with_gain(1.0);
        } else if self.state == ProbeRtt {
            self.check_probe_rtt_done(now, connection);
        }
    }
}
