//! Pacing rate and window: draft-ietf-ccwg-bbr-06, section 5.6.

use super::{
    Bbr3Memory, Bbr3State, MAX_SEND_QUANTUM, MIN_PIPE_CWND, MIN_SEND_QUANTUM,
    PACING_MARGIN_PERCENT, PROBE_RTT_CWND_GAIN, STARTUP_PACING_GAIN,
};
use crate::delivery::{Delivery, Sample};

impl Bbr3Memory {
    /// Section 5.6.2.
    pub(super) fn init_pacing_rate(&mut self, srtt: f64) {
        self.pacing_rate = STARTUP_PACING_GAIN * self.initial_cwnd / srtt;
    }

    pub(super) fn set_pacing_rate_with_gain(&mut self, pacing_gain: f64) {
        let rate = pacing_gain * self.bw * (100.0 - PACING_MARGIN_PERCENT) / 100.0;
        if self.full_bw_reached || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    pub(super) fn set_pacing_rate(&mut self) {
        self.set_pacing_rate_with_gain(self.state.pacing_gain());
    }

    /// Section 5.6.3.
    pub(super) fn set_send_quantum(&mut self) {
        let quantum = self.pacing_rate * 1e-3;
        self.send_quantum = quantum.clamp(MIN_SEND_QUANTUM, MAX_SEND_QUANTUM);
    }

    /// `BDPMultiple` (section 5.6.4.2), of a bandwidth.
    pub(super) fn bdp_multiple(&self, bw: f64, gain: f64) -> f64 {
        if self.min_rtt == f64::INFINITY {
            return self.initial_cwnd;
        }
        gain * bw * self.min_rtt
    }

    pub(super) fn quantization_budget(&self, inflight_cap: f64) -> f64 {
        let cap = inflight_cap.max(self.send_quantum).max(MIN_PIPE_CWND);
        if self.state == Bbr3State::ProbeBwUp { cap + 2.0 } else { cap }
    }

    /// `Inflight(gain)` (section 5.6.4.2).
    pub(super) fn inflight(&self, gain: f64) -> f64 {
        self.quantization_budget(self.bdp_multiple(self.bw, gain))
    }

    fn update_max_inflight(&mut self) {
        if self.min_rtt < f64::INFINITY {
            self.bdp = self.bw * self.min_rtt;
        }
        let cap = self.bdp_multiple(self.bw, self.state.cwnd_gain()) + self.extra_acked;
        self.max_inflight = self.quantization_budget(cap);
    }

    /// Section 5.3.3.8.3.
    pub(super) fn target_inflight(&self) -> f64 {
        self.bdp.min(self.cwnd)
    }

    /// Section 5.6.4.5.
    pub(super) fn probe_rtt_cwnd(&self) -> f64 {
        self.bdp_multiple(self.bw, PROBE_RTT_CWND_GAIN).max(MIN_PIPE_CWND)
    }

    /// Section 5.6.4.6.
    pub(super) fn set_cwnd(&mut self, connection: &Delivery, rs: &Sample) {
        self.update_max_inflight();
        if self.full_bw_reached {
            self.cwnd = (self.cwnd + rs.newly_acked).min(self.max_inflight);
        } else if self.cwnd < self.max_inflight || connection.delivered < self.initial_cwnd {
            self.cwnd += rs.newly_acked;
        }
        self.cwnd = self.cwnd.max(MIN_PIPE_CWND);
        if self.state == Bbr3State::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
        self.bound_cwnd_for_model();
    }

    /// Section 5.6.4.7.
    fn bound_cwnd_for_model(&mut self) {
        let cap = match self.state {
            Bbr3State::ProbeRtt | Bbr3State::ProbeBwCruise => self.inflight_with_headroom(),
            state if state.is_probe_bw() => self.inflight_longterm,
            _ => f64::INFINITY,
        };
        let cap = cap.min(self.inflight_shortterm).max(MIN_PIPE_CWND);
        self.cwnd = self.cwnd.min(cap);
    }
}
