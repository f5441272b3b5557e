//! BBRv3.

use crate::delivery::{Delivery, Event, Sample, WindowedMax};
use crate::path::Path;
use crate::rule::Rule;
use crate::scalar::Scalar;
pub use states::Bbr3State;

mod losses;
mod states;

// The constants of section 2 and section 5.6.1, by their names there.
const STARTUP_PACING_GAIN: f64 = 2.77;
const DRAIN_PACING_GAIN: f64 = 0.5;
const PROBE_DOWN_PACING_GAIN: f64 = 0.9;
const PROBE_UP_PACING_GAIN: f64 = 1.25;
const PACING_MARGIN_PERCENT: f64 = 1.0;
const DEFAULT_CWND_GAIN: f64 = 2.0;
const PROBE_UP_CWND_GAIN: f64 = 2.25;
const PROBE_RTT_CWND_GAIN: f64 = 0.5;
const LOSS_THRESH: f64 = 0.02;
const BETA: f64 = 0.7;
const HEADROOM: f64 = 0.15;
const MIN_PIPE_CWND: f64 = 4.0;
const MAX_BW_FILTER_LEN: usize = 2;
const EXTRA_ACKED_FILTER_LEN: usize = 10;
const STARTUP_FULL_LOSS_CNT: u32 = 6;
const FULL_BW_GROWTH: f64 = 1.25;
const FULL_BW_ROUNDS: u32 = 3;
const DRAIN_ROUNDS: u64 = 3;
const MIN_RTT_FILTER_LEN: f64 = 10.0;
const PROBE_RTT_DURATION: f64 = 0.2;
const PROBE_RTT_INTERVAL: f64 = 5.0;
/// The nominal RTT before the first sample, s (section 5.6.2).
const NOMINAL_RTT: f64 = 0.001;
/// Largest send quantum (section 5.6.3), packets: 64 KBytes of 1500 bytes.
const MAX_SEND_QUANTUM: f64 = 43.0;
const MIN_SEND_QUANTUM: f64 = 2.0;

/// BBRv3 on every path by itself, uncoupled: each path is paced at a multiple of the largest
/// delivery rate of late, with a window of a multiple of that rate times the smallest RTT, both
/// bounded by what losses above 2 % of a round trip have shown to be too much.
///
/// draft-ietf-ccwg-bbr-06; functions and variables have the draft's names. Volumes are in packets
/// (`C.SMSS` = 1), which section 2 allows.
///
/// # What differs from the draft
///
/// - `C.srtt` before the first RTT sample: [section 5.6.2] takes it from the handshake. Here the
///   first acknowledgement gives it, and the pacing rate starts anew from it, as in Linux.
/// - Random choices ([section 5.3.3.8.3]) follow from the time and the volume delivered, so that a
///   run can be repeated.
/// - `BBR.offload_budget` is one send quantum, the simplest case of QUIC ([section 5.5.8.2]); the
///   endpoints send single packets, so the quantum bounds no burst.
/// - Exit of Startup by losses ([section 5.3.1.3], in prose): the rate of a "single full round
///   trip" is `RS.lost / RS.tx_in_flight`, a "sequence range" is a run of packets that were sent
///   one after the other, and `C.has_selective_acks` is true.
/// - `SaveStateUponLoss` is called when a recovery begins, as in the prose of
///   [section 5.5.11.1] and in Linux, and not by `NoteLoss`, too ([section 5.5.10.2]): there
///   `StartProbeBW_DOWN` forgets that there was a loss in this round, so that the second lost
///   packet of an acknowledgement would overwrite `BBR.undo_state`, and nothing could be undone.
/// - A precautionary probe ([section 5.3.3.6]) ends where `C.inflight` before the acknowledgement
///   reaches `BBR.inflight_longterm`, which is in whole packets after a loss; both as in Linux. The
///   window is bounded by the same value, and an acknowledgement leaves less than a window in
///   flight, so that otherwise the probe ends with the losses that it is to avoid.
/// - After a timeout `C.inflight` is 0, because the endpoints declare all lost, so `C.cwnd` is 1
///   ([section 5.6.4.4]) up to the next acknowledgement.
/// - An acknowledgement without a new packet changes nothing; [section 5.2.3] does not say.
///
/// [section 5.6.2]: https://www.ietf.org/archive/id/draft-ietf-ccwg-bbr-06.html#section-5.6.2
/// [section 5.3.3.6]: https://www.ietf.org/archive/id/draft-ietf-ccwg-bbr-06.html#section-5.3.3
/// [section 5.3.3.8.3]: https://www.ietf.org/archive/id/draft-ietf-ccwg-bbr-06.html#section-5.3.3
/// [section 5.5.8.2]: https://www.ietf.org/archive/id/draft-ietf-ccwg-bbr-06.html#section-5.5.8
/// [section 5.3.1.3]: https://www.ietf.org/archive/id/draft-ietf-ccwg-bbr-06.html#section-5.3.1
/// [section 5.5.10.2]: https://www.ietf.org/archive/id/draft-ietf-ccwg-bbr-06.html#section-5.5.10
/// [section 5.5.11.1]: https://www.ietf.org/archive/id/draft-ietf-ccwg-bbr-06.html#section-5.5.11
/// [section 5.6.4.4]: https://www.ietf.org/archive/id/draft-ietf-ccwg-bbr-06.html#section-5.6.4
/// [section 5.2.3]: https://www.ietf.org/archive/id/draft-ietf-ccwg-bbr-06.html#section-5.2.3
#[derive(Clone, Debug)]
pub struct Bbr3;

/// The part of a probe for bandwidth that acknowledgements are of: `BBR.ack_phase`, section 2.13.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum AckPhase {
    #[default]
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// The state of a path in BBRv3: the variables `C.` and `BBR.` of section 2, in packets and s.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the draft defines them, by these names")]
pub struct Bbr3Memory {
    is_initialized: bool,
    has_seen_rtt: bool,
    initial_cwnd: f64,
    pub cwnd: f64,
    pub pacing_rate: f64,
    send_quantum: f64,
    pub state: Bbr3State,
    pub round_count: u64,
    pub round_start: bool,
    next_round_delivered: f64,
    pub idle_restart: bool,
    pub drain_start_round: u64,
    pub max_bw: f64,
    pub bw_shortterm: f64,
    pub bw: f64,
    pub min_rtt: f64,
    pub bdp: f64,
    pub extra_acked: f64,
    pub max_inflight: f64,
    pub inflight_longterm: f64,
    pub inflight_shortterm: f64,
    pub bw_latest: f64,
    pub inflight_latest: f64,
    max_bw_filter: WindowedMax<MAX_BW_FILTER_LEN>,
    cycle_count: u64,
    extra_acked_interval_start: f64,
    extra_acked_delivered: f64,
    extra_acked_filter: WindowedMax<EXTRA_ACKED_FILTER_LEN>,
    pub full_bw_reached: bool,
    pub full_bw_now: bool,
    full_bw: f64,
    pub full_bw_count: u32,
    ack_phase: AckPhase,
    is_bw_probe_sample: bool,
    is_loss_in_round: bool,
    loss_round_delivered: f64,
    loss_round_start: bool,
    bw_probe_up_acked: f64,
    pub probe_up_acked_per_inc: f64,
    bw_probe_up_rounds: u32,
    rounds_since_probe_up: u64,
    pub bw_probe_wait: f64,
    pub cycle_stamp: f64,
    pub prev_probe_too_high: bool,
    pub prev_probe_precautionary: bool,
    pub undo_state: Option<Bbr3State>,
    pub undo_bw_shortterm: f64,
    pub undo_inflight_shortterm: f64,
    pub undo_inflight_longterm: f64,
    min_rtt_stamp: f64,
    probe_rtt_min_delay: f64,
    pub probe_rtt_min_stamp: f64,
    probe_rtt_expired: bool,
    probe_rtt_done_stamp: Option<f64>,
    probe_rtt_round_done: bool,
    prior_cwnd: f64,
    /// The round in which the present recovery began (`InLossRecovery`).
    recovery_round: Option<u64>,
    /// Ranges of packets lost in this round of losses.
    lost_ranges: u32,
    /// The last packet of the last of these ranges.
    last_lost_id: u64,
}

impl Default for Bbr3Memory {
    /// `OnInit` (section 5.2.1) without what depends on the time and the window.
    fn default() -> Self {
        Bbr3Memory {
            is_initialized: false,
            has_seen_rtt: false,
            initial_cwnd: 0.0,
            cwnd: 0.0,
            pacing_rate: f64::INFINITY,
            send_quantum: MIN_SEND_QUANTUM,
            state: Bbr3State::Startup,
            round_count: 0,
            round_start: false,
            next_round_delivered: 0.0,
            idle_restart: false,
            drain_start_round: 0,
            max_bw: 0.0,
            bw_shortterm: f64::INFINITY,
            bw: 0.0,
            min_rtt: f64::INFINITY,
            bdp: 0.0,
            extra_acked: 0.0,
            max_inflight: 0.0,
            inflight_longterm: f64::INFINITY,
            inflight_shortterm: f64::INFINITY,
            bw_latest: 0.0,
            inflight_latest: 0.0,
            max_bw_filter: WindowedMax::default(),
            cycle_count: 0,
            extra_acked_interval_start: 0.0,
            extra_acked_delivered: 0.0,
            extra_acked_filter: WindowedMax::default(),
            full_bw_reached: false,
            full_bw_now: false,
            full_bw: 0.0,
            full_bw_count: 0,
            ack_phase: AckPhase::Init,
            is_bw_probe_sample: false,
            is_loss_in_round: false,
            loss_round_delivered: 0.0,
            loss_round_start: false,
            bw_probe_up_acked: 0.0,
            probe_up_acked_per_inc: f64::INFINITY,
            bw_probe_up_rounds: 0,
            rounds_since_probe_up: 0,
            bw_probe_wait: 0.0,
            cycle_stamp: 0.0,
            prev_probe_too_high: false,
            prev_probe_precautionary: false,
            undo_state: None,
            undo_bw_shortterm: 0.0,
            undo_inflight_shortterm: 0.0,
            undo_inflight_longterm: 0.0,
            min_rtt_stamp: 0.0,
            probe_rtt_min_delay: f64::INFINITY,
            probe_rtt_min_stamp: 0.0,
            probe_rtt_expired: false,
            probe_rtt_done_stamp: None,
            probe_rtt_round_done: false,
            prior_cwnd: 0.0,
            recovery_round: None,
            lost_ranges: 0,
            last_lost_id: 0,
        }
    }
}

impl Rule for Bbr3 {
    const NAME: &'static str = "bbr3";
    const SUMMARY: &'static str =
        "BBRv3 on every path by itself, uncoupled: by delivery rates, within bounds by loss";
    const SOURCE: &'static str = "draft-ietf-ccwg-bbr-06";
    const BY_RATE: bool = true;
    const LEAVES_CAPACITY: Option<&'static str> =
        Some("it paces 1 % below the bandwidth and, every 5 s, empties half of the path for 0.2 s");
    type Memory<S: Scalar> = Bbr3Memory;

    fn with(_values: &[f64]) -> Bbr3 {
        Bbr3
    }

    fn increase<S: Scalar>(&self, _r: usize, _paths: &[Path<S>]) -> S {
        S::of(0)
    }

    fn on_event(
        &self,
        path: &Path<f64>,
        bbr: &mut Bbr3Memory,
        connection: &mut Delivery,
        event: &Event,
    ) -> f64 {
        bbr.cwnd = path.window;
        match *event {
            Event::Restart { now } => bbr.on_transmit(now, connection),
            Event::Acked(rs) => bbr.update_on_ack(path.rtt, connection, rs),
            Event::Lost { now, packet } => bbr.handle_lost_packet(now, connection, packet),
            Event::Recovery => bbr.on_enter_fast_recovery(),
            Event::Recovered => bbr.on_exit_recovery(),
            Event::Timeout => bbr.on_enter_rto(),
            Event::Spurious => bbr.handle_spurious_loss_detection(connection),
        }
        bbr.cwnd
    }

    fn pacing_rate(&self, _path: &Path<f64>, bbr: &Bbr3Memory) -> f64 {
        bbr.pacing_rate
    }
}

impl Bbr3Memory {
    /// `OnTransmit` (section 5.2.2) where nothing is in flight; the first time `OnInit`.
    fn on_transmit(&mut self, now: f64, connection: &Delivery) {
        if !self.is_initialized {
            self.is_initialized = true;
            self.initial_cwnd = self.cwnd;
            self.min_rtt_stamp = now;
            self.probe_rtt_min_stamp = now;
            self.extra_acked_interval_start = now;
            self.init_pacing_rate(NOMINAL_RTT);
        }
        self.handle_restart_from_idle(now, connection);
    }

    /// `UpdateOnACK` (section 5.2.3).
    fn update_on_ack(&mut self, srtt: f64, connection: &mut Delivery, rs: &Sample) {
        if !self.has_seen_rtt && srtt.is_finite() {
            self.has_seen_rtt = true;
            self.init_pacing_rate(srtt);
        }
        self.update_latest_delivery_signals(connection, rs);
        self.update_congestion_signals(connection, rs);
        self.update_ack_aggregation(rs);
        self.check_full_bw_reached(rs);
        self.check_startup_done(rs);
        self.check_drain_done(connection, rs);
        self.update_probe_bw_cycle_phase(connection, rs);
        self.update_min_rtt(rs);
        self.check_probe_rtt(connection, rs);
        self.advance_latest_delivery_signals(rs);
        self.bound_bw_for_model();
        self.set_pacing_rate();
        self.set_send_quantum();
        self.set_cwnd(connection, rs);
    }
}

/// The model of the path: draft-ietf-ccwg-bbr-06, sections 5.5.1 to 5.5.9.
impl Bbr3Memory {
    /// Section 5.5.1.
    fn update_round(&mut self, connection: &Delivery, rs: &Sample) {
        self.round_start = rs.prior_delivered >= self.next_round_delivered;
        if self.round_start {
            self.start_round(connection);
            self.round_count += 1;
            self.rounds_since_probe_up += 1;
        }
    }

    fn start_round(&mut self, connection: &Delivery) {
        self.next_round_delivered = connection.delivered;
    }

    /// Section 5.5.5.
    fn update_max_bw(&mut self, connection: &Delivery, rs: &Sample) {
        self.update_round(connection, rs);
        let counts = rs.delivery_rate >= self.max_bw || !rs.is_app_limited;
        if rs.delivery_rate > 0.0 && counts {
            let filter = &mut self.max_bw_filter;
            self.max_bw = filter.update(self.cycle_count, rs.delivery_rate, MAX_BW_FILTER_LEN);
        }
    }

    /// Section 5.5.9.
    fn update_ack_aggregation(&mut self, rs: &Sample) {
        let interval = rs.now - self.extra_acked_interval_start;
        let mut expected_delivered = self.bw * interval;
        if self.extra_acked_delivered <= expected_delivered {
            self.extra_acked_delivered = 0.0;
            self.extra_acked_interval_start = rs.now;
            expected_delivered = 0.0;
        }
        self.extra_acked_delivered += rs.newly_acked;
        let extra = (self.extra_acked_delivered - expected_delivered).min(self.cwnd);
        let length = if self.full_bw_reached { EXTRA_ACKED_FILTER_LEN } else { 1 };
        self.extra_acked = self.extra_acked_filter.update(self.round_count, extra, length);
    }

    /// Section 5.5.10.3.
    fn bound_bw_for_model(&mut self) {
        self.bw = self.max_bw.min(self.bw_shortterm);
    }
}

/// Pacing rate and window: draft-ietf-ccwg-bbr-06, section 5.6.
impl Bbr3Memory {
    /// Section 5.6.2.
    fn init_pacing_rate(&mut self, srtt: f64) {
        self.pacing_rate = STARTUP_PACING_GAIN * self.initial_cwnd / srtt;
    }

    fn set_pacing_rate_with_gain(&mut self, pacing_gain: f64) {
        let rate = pacing_gain * self.bw * (100.0 - PACING_MARGIN_PERCENT) / 100.0;
        if self.full_bw_reached || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    fn set_pacing_rate(&mut self) {
        self.set_pacing_rate_with_gain(self.state.pacing_gain());
    }

    /// Section 5.6.3.
    fn set_send_quantum(&mut self) {
        let quantum = self.pacing_rate * 1e-3;
        self.send_quantum = quantum.clamp(MIN_SEND_QUANTUM, MAX_SEND_QUANTUM);
    }

    /// `BDPMultiple` (section 5.6.4.2), of a bandwidth.
    fn bdp_multiple(&self, bw: f64, gain: f64) -> f64 {
        if self.min_rtt == f64::INFINITY {
            return self.initial_cwnd;
        }
        gain * bw * self.min_rtt
    }

    fn quantization_budget(&self, inflight_cap: f64) -> f64 {
        let cap = inflight_cap.max(self.send_quantum).max(MIN_PIPE_CWND);
        if self.state == Bbr3State::ProbeBwUp { cap + 2.0 } else { cap }
    }

    /// `Inflight(gain)` (section 5.6.4.2).
    fn inflight(&self, gain: f64) -> f64 {
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
    fn target_inflight(&self) -> f64 {
        self.bdp.min(self.cwnd)
    }

    /// Section 5.6.4.5.
    fn probe_rtt_cwnd(&self) -> f64 {
        self.bdp_multiple(self.bw, PROBE_RTT_CWND_GAIN).max(MIN_PIPE_CWND)
    }

    /// Section 5.6.4.6.
    fn set_cwnd(&mut self, connection: &Delivery, rs: &Sample) {
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
