//! BBRv1.

use crate::delivery::{Delivery, Event, Sample, WindowedMax};
use crate::path::Path;
use crate::rule::Rule;
use crate::scalar::Scalar;

mod model;
mod policer;
mod window;

use model::Mode::{Drain, ProbeBw, ProbeRtt, Startup};
pub use model::Mode as BbrMode;
use policer::Policer;

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
    /// Losses or a timeout are being repaired, now and at the last acknowledgement
    /// (`prev_ca_state`).
    in_recovery: bool,
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
