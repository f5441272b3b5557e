//! The window machinery that all rules share.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::delivery::{Delivery, Event, Stamp};
use crate::path::Path;
use crate::rule::Rule;
pub use foreign::{Answer, Foreign, ForeignController, Happening, Kind, Listener, Start};
use grouping::Grouping;
use recovery::BeforeLoss;

mod foreign;
mod grouping;
mod recovery;

/// No window grows beyond this, packets.
pub const MAX_WINDOW: f64 = (1 << 24) as f64;

/// The smallest slow start threshold of a connection with several paths, packets: Balia, section V.
pub const SMALLEST_SSTHRESH: f64 = 1.0;

/// The smallest slow start threshold of a connection with one path, packets: RFC 5681, equation 4.
pub const SMALLEST_SSTHRESH_ONE_PATH: f64 = 2.0;

/// Weight of the newest interval in [`Path::loss_interval`]. The average spans about
/// `(2 - g) / g = 7` intervals, near the eight of TFRC (RFC 5348, section 5.4).
pub const LOSS_INTERVAL_GAIN: f64 = 1.0 / 4.0;

/// An acknowledgement.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// When it arrived, s.
    pub now: f64,
    /// When the packet that caused it was sent, s.
    pub sent_at: f64,
    /// Packets newly known to be delivered.
    pub packets: u32,
    /// RTT sample, s; `None` without one. A sample that is not positive and finite is ignored.
    pub rtt: Option<f64>,
    /// Queueing and service delay of that packet on the forward path, s, not negative; `None` if
    /// not known.
    pub queue_delay: Option<f64>,
    /// Whether the window, not the application or the receiver, limited the sender. If not, no
    /// window grows.
    pub window_limited: bool,
}

/// The phase of congestion control that a path is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The window grows by one per acknowledged packet, up to ssthresh.
    SlowStart,
    /// The window changes as the rule says.
    Avoidance,
    /// From a loss until its repair is complete; the window does not change.
    Recovery,
}

/// The state of a path that is not visible to rules.
#[derive(Clone, Copy, Debug)]
struct PathState {
    phase: Phase,
    timed_out: bool, // no packet has been acknowledged since
    holds: bool,     // a round of slow start without growth
    round_samples: u32,
    ssthresh: f64,
    last_ack: f64,
    round_start: f64,
    round_sum: f64,
    increase: f64, // the rule's last one per packet; NaN: to be computed
}

impl PathState {
    const NEW: PathState = PathState {
        phase: Phase::SlowStart,
        timed_out: false,
        holds: false,
        round_samples: 0,
        ssthresh: f64::INFINITY,
        last_ack: f64::INFINITY,
        round_start: f64::NEG_INFINITY,
        round_sum: 0.0,
        increase: f64::NAN,
    };
}

/// Congestion control of one connection: a rule, and for each path its window.
///
/// The endpoint reports events ([`on_ack`](Controller::on_ack), [`on_loss`](Controller::on_loss),
/// ...) and reads [`window`](Controller::window). Whatever it reports, and whatever the rule
/// returns, every window stays within `[1, MAX_WINDOW]`; a result that is NaN changes nothing.
#[derive(Clone, Debug)]
pub struct Controller<R: Rule> {
    rule: R,
    initial_window: f64,
    smallest_ssthresh: f64,
    increase_per_round: bool,
    increase_per_ack: bool,
    beta_ecn: Option<f64>,
    paths: Vec<Path<f64>>,
    memory: Vec<R::Memory<f64>>,
    state: Vec<PathState>,
    /// For each path what its last timeout or kept loss changed, if that may be undone. Empty until
    /// there is one.
    before_loss: Vec<BeforeLoss<R>>,
    /// The deliveries of each path; empty unless the rule acts by delivery rates.
    deliveries: Vec<Delivery>,
    /// The groups that are coupled, without silent paths; `None` if all paths are.
    grouping: Option<Box<Grouping<R::Memory<f64>>>>,
}

impl<R: Rule> Controller<R> {
    /// A controller of `paths` paths, each in slow start with a window of `initial_window` packets
    /// and no ssthresh.
    pub fn new(rule: R, paths: usize, initial_window: f64) -> Controller<R> {
        let mut controller = Controller {
            rule,
            initial_window: within_bounds(initial_window),
            smallest_ssthresh: if paths > 1 {
                SMALLEST_SSTHRESH
            } else {
                SMALLEST_SSTHRESH_ONE_PATH
            },
            increase_per_round: false,
            increase_per_ack: false,
            beta_ecn: None,
            paths: Vec::with_capacity(paths),
            memory: Vec::with_capacity(paths),
            state: Vec::with_capacity(paths),
            before_loss: Vec::new(),
            deliveries: Vec::new(),
            grouping: None,
        };
        (0..paths).for_each(|_| controller.add_path());
        controller
    }

    /// Appends a path in the initial state of [`new`](Controller::new). The smallest ssthresh does
    /// not change.
    pub fn add_path(&mut self) {
        // Paths are few and rarely added: no spare capacity.
        self.paths.reserve_exact(1);
        self.memory.reserve_exact(1);
        self.state.reserve_exact(1);
        self.paths.push(self.new_path());
        self.memory.push(R::Memory::default());
        self.state.push(PathState::NEW);
        if let Some(grouping) = &mut self.grouping {
            grouping.add_path();
        }
    }

    /// Puts path `r` into the state of a new one: another path takes its place. A coupling that is
    /// detected keeps its group until delays and losses show another.
    pub fn reset_path(&mut self, r: usize) {
        self.paths[r] = self.new_path();
        self.memory[r] = R::Memory::default();
        self.state[r] = PathState::NEW;
        if let Some(before) = self.before_loss.get_mut(r) {
            *before = None;
        }
        if let Some(delivery) = self.deliveries.get_mut(r) {
            *delivery = Delivery::default();
        }
        self.set_silent(r, false);
    }

    fn new_path(&self) -> Path<f64> {
        Path {
            window: self.initial_window,
            rtt: f64::INFINITY,
            base_rtt: f64::INFINITY,
            ..Path::default()
        }
    }

    /// The congestion window of path `r`, packets: not rounded.
    #[inline]
    pub fn window(&self, r: usize) -> f64 {
        self.paths[r].window
    }

    /// The slow start threshold of path `r`, packets; infinite before the first loss.
    #[inline]
    pub fn ssthresh(&self, r: usize) -> f64 {
        self.state[r].ssthresh
    }

    /// Sets the slow start threshold of path `r`, packets, such as a scenario's initial value. A
    /// path whose window has reached it is in congestion avoidance.
    pub fn set_ssthresh(&mut self, r: usize, packets: f64) {
        self.state[r].ssthresh = packets.max(self.smallest_ssthresh(r));
        if self.state[r].phase != Phase::Recovery {
            self.resume(r);
        }
    }

    /// Sets the smallest slow start threshold of every path, packets, at least 1. The default is
    /// [`SMALLEST_SSTHRESH`] if the controller was made with several paths, and else
    /// [`SMALLEST_SSTHRESH_ONE_PATH`], which a path that is coupled with no other has at least.
    pub fn set_smallest_ssthresh(&mut self, packets: f64) {
        self.smallest_ssthresh = packets.max(1.0);
    }

    /// Sets whether a loss-based rule's increase is computed once per round trip of a path and
    /// added for every packet acknowledged in it, instead of computed for every packet. It is
    /// computed anew after each loss and timeout of the path and when congestion avoidance begins.
    /// RFC 6356, section 4, allows it for LIA; `docs/reference/kernel.md` bounds the
    /// difference.
    pub fn set_increase_per_round(&mut self, per_round: bool) {
        self.increase_per_round = per_round;
    }

    /// Sets whether a loss-based rule's increase is added once per acknowledgement in congestion
    /// avoidance, however many packets it acknowledges, instead of for each of them.
    pub fn set_increase_per_ack(&mut self, per_ack: bool) {
        self.increase_per_ack = per_ack;
    }

    /// Sets the share of the window that is left at a mark ([`BETA_ECN`](crate::BETA_ECN)); `None`,
    /// the default, for what is left at a loss.
    pub fn set_beta_ecn(&mut self, beta_ecn: Option<f64>) {
        self.beta_ecn = beta_ecn;
    }

    /// The state of path `r` that the rule uses.
    #[inline]
    pub fn path(&self, r: usize) -> &Path<f64> {
        &self.paths[r]
    }

    /// The states of all paths that the rule uses.
    #[inline]
    pub fn paths(&self) -> &[Path<f64>] {
        &self.paths
    }

    /// The phase of path `r`.
    #[inline]
    pub fn phase(&self, r: usize) -> Phase {
        self.state[r].phase
    }

    /// The rule.
    pub fn rule(&self) -> &R {
        &self.rule
    }

    /// [`Rule::weight`].
    pub fn weight(&self) -> Option<f64> {
        self.rule.weight()
    }

    /// [`Rule::set_weight`].
    pub fn set_weight(&mut self, weight: f64) {
        self.rule.set_weight(weight);
    }

    /// Packets of path `r` were acknowledged: RTT and loss counters, the end of a round trip, and
    /// growth by one increment per packet.
    #[inline]
    pub fn on_ack(&mut self, r: usize, ack: &Ack) {
        if let Some(grouping) = &mut self.grouping {
            grouping.on_ack(r, ack);
            if grouping.is_trivial() {
                self.grouping = None;
            }
        }
        let (path, state) = (&mut self.paths[r], &mut self.state[r]);
        measure(path, state, ack);
        if round_ends(path, state, ack) {
            self.end_round(r, ack.window_limited);
        }
        if ack.window_limited && !R::BY_RATE {
            self.grow(r, ack.packets);
        }
    }

    /// Path `r` sends again at `now` (s) after it was idle for longer than its timeout: the window
    /// falls back to the initial one, in slow start (RFC 5681, section 4.1). A rule by delivery
    /// rates decides for itself, when the first packet is sent.
    pub fn on_idle(&mut self, r: usize, now: f64) {
        self.state[r].last_ack = now;
        if R::BY_RATE {
            return;
        }
        let path = &mut self.paths[r];
        if path.window > self.initial_window {
            path.window = self.initial_window;
            self.resume(r);
        }
    }

    fn end_round(&mut self, r: usize, window_limited: bool) {
        self.state[r].increase = f64::NAN;
        match self.state[r].phase {
            Phase::SlowStart => self.end_slow_start_round(r),
            Phase::Avoidance if R::DELAY_BASED => {
                let change =
                    self.apply(r, |rule, r, paths, memory| rule.on_round(r, paths, memory));
                if window_limited || change < 0.0 {
                    self.change_window(r, change);
                }
            }
            _ => {}
        }
    }

    fn end_slow_start_round(&mut self, r: usize) {
        self.state[r].holds ^= self.rule.pauses_in_slow_start();
        if !self.state[r].holds
            && let Some(window) = self.rule.leaves_slow_start(&self.paths[r])
        {
            self.change_window(r, window - self.paths[r].window);
            self.state[r].ssthresh = self.paths[r].window.max(self.smallest_ssthresh(r));
            self.enter_avoidance(r);
        }
    }

    /// Inlined always: every acknowledgement passes here.
    #[inline(always)]
    fn grow(&mut self, r: usize, packets: u32) {
        for _ in 0..packets {
            match self.state[r].phase {
                Phase::Avoidance if !R::DELAY_BASED => {
                    if R::COUNTS_ROUNDS {
                        self.paths[r].rounds += 1.0 / self.paths[r].window;
                    }
                    let increase = self.increase(r);
                    self.change_window(r, increase);
                    if self.increase_per_ack {
                        return;
                    }
                }
                Phase::SlowStart if !self.state[r].holds => self.grow_in_slow_start(r),
                _ => return,
            }
        }
    }

    fn grow_in_slow_start(&mut self, r: usize) {
        self.change_window(r, 1.0);
        self.paths[r].window = self.paths[r].window.min(self.state[r].ssthresh);
        if self.paths[r].window >= self.state[r].ssthresh {
            self.enter_avoidance(r);
        }
    }

    /// The rule's increase per packet.
    #[inline(always)]
    fn increase(&mut self, r: usize) -> f64 {
        if !self.increase_per_round {
            return self.increase_now(r);
        }
        if self.state[r].increase.is_nan() {
            self.state[r].increase = self.increase_now(r);
        }
        self.state[r].increase
    }

    #[inline]
    fn change_window(&mut self, r: usize, change: f64) {
        if !change.is_nan() {
            self.paths[r].window = within_bounds(self.paths[r].window + change);
        }
    }

    /// Slow start below ssthresh, congestion avoidance from there on.
    fn resume(&mut self, r: usize) {
        if self.paths[r].window < self.state[r].ssthresh {
            self.state[r].phase = Phase::SlowStart;
        } else {
            self.enter_avoidance(r);
        }
    }

    fn enter_avoidance(&mut self, r: usize) {
        self.state[r].phase = Phase::Avoidance;
        self.state[r].increase = f64::NAN;
        self.paths[r].epoch_window = self.paths[r].window;
        (self.paths[r].age, self.paths[r].rounds) = (0.0, 0.0);
    }
}

/// Rules that act by samples of the delivery rate: what the endpoint reports of each packet.
impl<R: Rule> Controller<R> {
    /// Whether the rule acts by delivery rates ([`Rule::BY_RATE`]), so that the endpoint reports
    /// each packet with the methods below and paces.
    pub fn is_by_rate(&self) -> bool {
        R::BY_RATE
    }

    /// Whether Linux can run the rule ([`Rule::HAS_PROGRAM`]).
    pub fn has_program(&self) -> bool {
        R::HAS_PROGRAM
    }

    /// The rate at which path `r` sends at most, packets/s; infinite if it is not paced.
    pub fn pacing_rate(&self, r: usize) -> f64 {
        self.rule.pacing_rate(&self.paths[r], &self.memory[r])
    }

    /// The rule's state of path `r`.
    pub fn memory(&self, r: usize) -> &R::Memory<f64> {
        &self.memory[r]
    }

    /// Path `r` sends a packet of `size` packets where `in_flight` are in the network without it.
    /// The endpoint keeps the result until the packet is acknowledged or sent again.
    pub fn on_packet_sent(&mut self, r: usize, now: f64, size: f64, in_flight: f64) -> Stamp {
        self.account_deliveries();
        if in_flight <= 0.0 {
            self.tell(r, &Event::Restart { now });
        }
        self.deliveries[r].on_sent(now, size, in_flight, self.paths[r].window)
    }

    /// A packet of path `r` is acknowledged for the first time since it was last sent.
    pub fn on_packet_delivered(&mut self, r: usize, now: f64, packet: &Stamp) {
        self.deliveries[r].on_delivered(now, packet);
    }

    /// A packet of path `r` is declared lost.
    pub fn on_packet_lost(&mut self, r: usize, now: f64, packet: &Stamp) {
        self.deliveries[r].on_lost(packet);
        self.tell(r, &Event::Lost { now, packet });
    }

    /// The acknowledgement is processed, with all packets that it reports or shows to be lost;
    /// `in_flight` packets are left in the network, and `rtt` is its sample, s.
    pub fn on_packets_processed(&mut self, r: usize, now: f64, rtt: Option<f64>, in_flight: f64) {
        let min_rtt = self.paths[r].base_rtt;
        if let Some(sample) = self.deliveries[r].sample(now, rtt, in_flight, min_rtt) {
            self.tell(r, &Event::Acked(&sample));
        }
    }

    /// Path `r` has room for more than `in_flight` packets, and the application has no data.
    pub fn on_app_limited(&mut self, r: usize, in_flight: f64) {
        self.account_deliveries();
        self.deliveries[r].mark_app_limited(in_flight);
    }

    /// Tells the rule of an event; its window takes effect.
    #[inline(never)]
    pub(super) fn tell(&mut self, r: usize, event: &Event) {
        self.account_deliveries();
        let delivery = &mut self.deliveries[r];
        let window = self
            .rule
            .on_event(&self.paths[r], &mut self.memory[r], delivery, event);
        if !window.is_nan() {
            self.paths[r].window = within_bounds(window);
        }
    }

    /// Makes the accounts of paths that have none yet. Other rules never have any.
    fn account_deliveries(&mut self) {
        self.deliveries
            .resize(self.paths.len(), Delivery::default());
    }
}

/// The smoothed RTT (RFC 6298, section 2), the queueing delay and the counters.
#[inline(always)]
fn measure(path: &mut Path<f64>, state: &mut PathState, ack: &Ack) {
    if let Some(rtt) = ack.rtt.filter(|&rtt| rtt > 0.0 && rtt < f64::INFINITY) {
        let first = path.base_rtt == f64::INFINITY;
        if first {
            path.rtt = rtt;
        } else {
            path.rtt += (rtt - path.rtt) / 8.0;
        }
        path.base_rtt = path.base_rtt.min(rtt);
        if let Some(queue_delay) = ack.queue_delay {
            let gain = if first { 1.0 } else { 1.0 / 8.0 };
            path.queue_delay += gain * (queue_delay - path.queue_delay);
        } else {
            path.queue_delay = (path.rtt - path.base_rtt).max(0.0);
        }
        state.round_sum += rtt;
        state.round_samples += 1;
    }
    if ack.packets > 0 {
        path.since_loss += f64::from(ack.packets);
        state.timed_out = false;
    }
    if ack.window_limited && state.phase == Phase::Avoidance {
        path.age += (ack.now - state.last_ack).max(0.0);
    }
    state.last_ack = ack.now;
}

/// A round trip ends with the first acknowledgement of a packet sent since it began.
#[inline(always)]
fn round_ends(path: &mut Path<f64>, state: &mut PathState, ack: &Ack) -> bool {
    if ack.sent_at < state.round_start || state.round_samples == 0 {
        return false;
    }
    path.round_rtt = state.round_sum / f64::from(state.round_samples);
    state.round_start = ack.now;
    state.round_sum = 0.0;
    state.round_samples = 0;
    true
}

#[inline]
#[allow(clippy::manual_clamp, reason = "NaN becomes 1")]
fn within_bounds(window: f64) -> f64 {
    window.max(1.0).min(MAX_WINDOW)
}
