//! BBRv1.

use BbrMode::{Drain, ProbeBw, ProbeRtt, Startup};
use crate::delivery::{Delivery, Event, Sample, WindowedMax, chance};
use crate::path::Path;
use crate::rule::Rule;
use crate::scalar::Scalar;
use policer::Policer;

mod policer;

// The constants of Linux, in its order.
const CYCLE_LEN: usize = 8;
const BW_ROUNDS: usize = CYCLE_LEN + 2;
const MIN_RTT_WINDOW: f64 = 10.0;
const PROBE_RTT_MODE: f64 = 0.2;
const PACING_MARGIN_PERCENT: f64 = 1.0;
/// 2/ln(2), the smallest gain with which the rate doubles every round trip.
const HIGH_GAIN: f64 = 2.885;
const CWND_GAIN: f64 = 2.0;
const PACING_GAINS: [f64; CYCLE_LEN] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Number of phases among which the first one of the cycle is chosen.
const CYCLE_RANDOM: f64 = 7.0;
const CWND_MIN_TARGET: f64 = 4.0;
const FULL_BW_THRESH: f64 = 1.25;
const FULL_BW_COUNT: u32 = 3;
const EXTRA_ACKED_WINDOW_ROUNDS: u32 = 5;
const EXTRA_ACKED_MAX: f64 = 0.1;
const NOMINAL_RTT: f64 = 0.001;
/// `TCP_INIT_CWND`: the window without a valid RTT, and the volume up to which Startup may grow
/// whatever its model says.
const INITIAL_CWND: f64 = 10.0;

/// BBRv1 on every path by itself, uncoupled: each path is paced at a multiple of the largest
/// delivery rate of the last ten round trips, with a window of twice that rate times the smallest
/// RTT of 10 s. Losses matter only where they look like a policer's.
///
/// `net/ipv4/tcp_bbr.c` of Linux 6.18, the version that `sysctl net.ipv4.tcp_congestion_control`
/// calls `bbr`; Cardwell et al., "BBR: Congestion-Based Congestion Control", ACM Queue 14 (5).
///
/// # What differs from Linux
///
/// - Numbers are not rounded to 2^-24 packets/us and 2^-8; times are not rounded to jiffies.
/// - Segments are not aggregated for the network card: `tso_segs_goal` is 1, so a window has 3
///   packets beside what the model asks for, not 3 aggregates.
/// - Packets are sent when the pacing timer expires, not handed to a queue with departure times.
///   None waits there, so that none is subtracted from those in flight (`packets_in_net_at_edt`).
/// - The random first phase of the gain cycle follows from the time and the volume delivered, so
///   that a run can be repeated.
/// - Losses that a timer finds between two acknowledgements count at the next one; in Linux they
///   count for the policer's detection only (`tp->lost`, not `rs->losses`).
/// - After a timeout packets that were sent less than an RTT before are lost, too, which
///   `tcp_timeout_mark_lost` spares: the window begins at 1.
/// - An interval of delivery begins anew where nothing is in flight, also after a timeout; in Linux
///   only where nothing is outstanding (`packets_out`).
/// - `is_ack_delayed` is not known: a delayed acknowledgement may give the smallest RTT once the
///   old one has expired.
#[derive(Clone, Debug)]
pub struct Bbr;

/// The state of a path in BBRv1, with Linux' names; in packets and s.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "Linux' source explains them, by these names")]
pub struct BbrMemory {
    is_initialized: bool,
    has_seen_rtt: bool,
    cwnd: f64,
    pub pacing_rate: f64,
    pub mode: BbrMode,
    pub max_bw: f64,
    pub min_rtt: f64,
    min_rtt_stamp: f64,
    bw_filter: WindowedMax<{ BW_ROUNDS + 1 }>,
    round_count: u64,
    round_start: bool,
    next_round_delivered: f64,
    idle_restart: bool,
    probe_rtt_done_stamp: Option<f64>,
    probe_rtt_round_done: bool,
    pub cycle_index: usize,
    cycle_stamp: f64,
    pub full_bw_reached: bool,
    full_bw: f64,
    full_bw_count: u32,
    prior_cwnd: f64,
    /// Losses or a timeout are being repaired.
    in_recovery: bool,
    /// `in_recovery` at the last acknowledgement (`prev_ca_state`).
    was_in_recovery: bool,
    packet_conservation: bool,
    policer: Policer,
    ack_epoch_stamp: f64,
    ack_epoch_acked: f64,
    extra_acked: [f64; 2],
    extra_acked_rounds: u32,
    extra_acked_index: usize,
}

impl Default for BbrMemory {
    fn default() -> Self {
        BbrMemory {
            is_initialized: false,
            has_seen_rtt: false,
            cwnd: 0.0,
            pacing_rate: f64::INFINITY,
            mode: Startup,
            max_bw: 0.0,
            min_rtt: f64::INFINITY,
            min_rtt_stamp: 0.0,
            bw_filter: WindowedMax::default(),
            round_count: 0,
            round_start: false,
            next_round_delivered: 0.0,
            idle_restart: false,
            probe_rtt_done_stamp: None,
            probe_rtt_round_done: false,
            cycle_index: 0,
            cycle_stamp: 0.0,
            full_bw_reached: false,
            full_bw: 0.0,
            full_bw_count: 0,
            prior_cwnd: 0.0,
            in_recovery: false,
            was_in_recovery: false,
            packet_conservation: false,
            policer: Policer::default(),
            ack_epoch_stamp: 0.0,
            ack_epoch_acked: 0.0,
            extra_acked: [0.0; 2],
            extra_acked_rounds: 0,
            extra_acked_index: 0,
        }
    }
}

impl Rule for Bbr {
    const NAME: &'static str = "bbr";
    const SUMMARY: &'static str =
        "BBRv1 on every path by itself, uncoupled: by delivery rates, as Linux has it";
    const SOURCE: &'static str = "Linux 6.18, net/ipv4/tcp_bbr.c";
    const BY_RATE: bool = true;
    type Memory<S: Scalar> = BbrMemory;

    fn with(_values: &[f64]) -> Bbr {
        Bbr
    }

    fn increase<S: Scalar>(&self, _r: usize, _paths: &[Path<S>]) -> S {
        S::of(0)
    }

    fn on_event(
        &self,
        path: &Path<f64>,
        bbr: &mut BbrMemory,
        connection: &mut Delivery,
        event: &Event,
    ) -> f64 {
        bbr.cwnd = path.window;
        match *event {
            Event::Restart { now } => bbr.on_transmit(now, connection),
            Event::Acked(rs) => bbr.on_ack(path.rtt, connection, rs),
            Event::Lost { .. } => {}
            Event::Recovery => bbr.enter_recovery(),
            Event::Recovered => bbr.exit_recovery(),
            Event::Timeout => bbr.on_timeout(connection),
            Event::Spurious => bbr.undo(connection),
        }
        bbr.cwnd
    }

    fn pacing_rate(&self, _path: &Path<f64>, bbr: &BbrMemory) -> f64 {
        bbr.pacing_rate
    }
}

/// `enum bbr_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "Linux' source explains them, by these names")]
pub enum BbrMode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

impl BbrMemory {
    /// A packet is sent where nothing is in flight (`bbr_cwnd_event`); the first time `bbr_init`.
    fn on_transmit(&mut self, now: f64, connection: &Delivery) {
        if !self.is_initialized {
            self.is_initialized = true;
            self.min_rtt_stamp = now;
            self.ack_epoch_stamp = now;
            self.init_pacing_rate(NOMINAL_RTT);
        }
        if !connection.is_app_limited() {
            return;
        }
        self.idle_restart = true;
        self.ack_epoch_stamp = now;
        self.ack_epoch_acked = 0.0;
        match self.mode {
            ProbeBw => self.set_pacing_rate(1.0),
            ProbeRtt => self.check_probe_rtt_done(now, connection),
            Startup | Drain => {}
        }
    }

    /// `bbr_main`.
    fn on_ack(&mut self, srtt: f64, connection: &mut Delivery, rs: &Sample) {
        if !self.has_seen_rtt && srtt.is_finite() {
            self.has_seen_rtt = true;
            self.init_pacing_rate(srtt);
        }
        self.update_bw(connection, rs);
        self.update_ack_aggregation(rs);
        self.update_cycle_phase(rs);
        self.check_full_bw_reached(rs);
        self.check_drain(connection, rs);
        self.update_min_rtt(connection, rs);
        self.set_pacing_rate(self.pacing_gain());
        self.set_cwnd(connection, rs);
    }
}

/// The model of the path and the modes.
impl BbrMemory {
    /// The pacing gain of the mode (`bbr_update_gains`).
    fn pacing_gain(&self) -> f64 {
        match self.mode {
            Startup => HIGH_GAIN,
            Drain => 1.0 / HIGH_GAIN,
            ProbeBw if self.policer.rate().is_none() => PACING_GAINS[self.cycle_index],
            ProbeBw | ProbeRtt => 1.0,
        }
    }

    /// The estimate of the bandwidth: a policer's rate if there seems to be one (`bbr_bw`).
    fn bw(&self) -> f64 {
        self.policer.rate().unwrap_or(self.max_bw)
    }

    /// `bbr_update_bw`, with `bbr_lt_bw_sampling`.
    fn update_bw(&mut self, connection: &Delivery, rs: &Sample) {
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
    fn update_ack_aggregation(&mut self, rs: &Sample) {
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
    fn update_cycle_phase(&mut self, rs: &Sample) {
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
    fn check_full_bw_reached(&mut self, rs: &Sample) {
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
    fn check_drain(&mut self, connection: &Delivery, rs: &Sample) {
        if self.mode == Startup && self.full_bw_reached {
            self.mode = Drain;
        }
        if self.mode == Drain && rs.in_flight <= self.inflight(self.max_bw, 1.0) {
            self.start_probe_bw(rs.now, connection);
        }
    }

    /// `bbr_update_min_rtt`.
    fn update_min_rtt(&mut self, connection: &mut Delivery, rs: &Sample) {
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
    fn check_probe_rtt_done(&mut self, now: f64, connection: &Delivery) {
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

/// Pacing rate and window, in recovery, too.
impl BbrMemory {
    /// `bbr_init_pacing_rate_from_rtt`.
    fn init_pacing_rate(&mut self, rtt: f64) {
        self.pacing_rate = paced(self.cwnd / rtt, HIGH_GAIN);
    }

    /// `bbr_set_pacing_rate`.
    fn set_pacing_rate(&mut self, gain: f64) {
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
    fn inflight(&self, bw: f64, gain: f64) -> f64 {
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
    fn set_cwnd(&mut self, connection: &Delivery, rs: &Sample) {
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
    fn save_cwnd(&mut self) {
        self.prior_cwnd = if self.was_in_recovery || self.mode == ProbeRtt {
            self.prior_cwnd.max(self.cwnd)
        } else {
            self.cwnd
        };
    }

    /// Recovery begins: `bbr_ssthresh`. If another one has ended at the same acknowledgement, they
    /// are one.
    fn enter_recovery(&mut self) {
        self.save_cwnd();
        self.in_recovery = true;
    }

    /// Recovery, or the repair after a timeout, is over.
    fn exit_recovery(&mut self) {
        self.in_recovery = false;
    }

    /// `bbr_ssthresh` and `bbr_set_state`. Linux enters the state with what is in flight and one
    /// packet more; all is declared lost, so nothing is in flight.
    fn on_timeout(&mut self, connection: &Delivery) {
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
    fn undo(&mut self, connection: &Delivery) {
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
