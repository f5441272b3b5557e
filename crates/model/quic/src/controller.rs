//! One [`AnyController`] for all paths of a connection, as the library's controller of each path,
//! in virtual and in real time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use anabranch_control::{Algorithm, AnyController, Stamp};
use anabranch_net::Time;
use noq_proto::congestion::{
    Bbr3Config, Controller, ControllerFactory, CubicConfig, NewRenoConfig,
};

mod path;

pub use path::PathController;

/// Report of the library about a path.
#[derive(Clone, Copy, Debug, Default)]
pub struct PathReport {
    /// Packets declared lost; their data is sent again.
    pub declared_lost: u64,
    /// Reductions of the window after losses.
    pub loss_events: u64,
    /// Reductions of the window after marks (ECN).
    pub mark_events: u64,
    /// Times of persistent congestion (RFC 9002, section 7.6), and abandoned paths.
    pub timeouts: u64,
    /// Sum of the RTT samples, s.
    pub rtt_sum_s: f64,
    /// Number of the RTT samples.
    pub rtt_samples: u64,
    /// Bytes sent and neither acknowledged nor declared lost.
    pub in_flight_bytes: u64,
    /// Since when nothing that was sent has been acknowledged.
    pub silent_since: Option<Instant>,
    /// Smoothed deviation of the RTT samples (RFC 9002, section 5.3: rttvar), s.
    rtt_deviation_s: f64,
    /// When the newest packet was sent that has been acknowledged.
    acknowledged_sent: Option<Instant>,
    /// How often the path was opened. Only the controller of the last time is registered.
    opened: u32,
    /// Largest volume in flight in this round trip and in the one before, and when this one began.
    used_bytes: [u64; 2],
    round_began: Option<Instant>,
    /// Packets acknowledged in this round trip and acknowledgements of marks among them, if a rule
    /// reduces by their share, and when the round trip began.
    acknowledged: u32,
    marked: u32,
    share_began: Option<Instant>,
    /// Whether a controller is registered.
    is_registered: bool,
    allowance: Allowance,
    /// The window that a controller of the library sets, packets.
    library_window: Option<f64>,
}

impl PathReport {
    /// Limits of the path beside its window.
    pub fn allowance(&self) -> &Allowance {
        &self.allowance
    }

    /// The window that a controller of the library sets, packets.
    pub fn library_window(&self) -> Option<f64> {
        self.library_window
    }

    /// Whether the congestion window limits what is sent (RFC 9002, section 7.8). The library knows
    /// only of the application: it takes an allowance for the window, and does not count a peer
    /// that gives no credit. So the window must have been full within the last two round trips, or
    /// half full in slow start, which may double it (Linux' `tcp_is_cwnd_limited`).
    fn is_window_limited(
        &self,
        app_limited: bool,
        window: u64,
        mtu: u64,
        grows_fast: bool,
    ) -> bool {
        let used = self.used_bytes[0].max(self.used_bytes[1]);
        let used = if grows_fast { 2 * used } else { used };
        !app_limited && used + 2 * mtu >= window
    }

    /// Counts packets that are acknowledged; the share of marks in the round trip that is over, if
    /// one is. Every marked packet is acknowledged at once (RFC 9000, section 13.2.1), so its
    /// acknowledgement stands for it, as long as that is not lost.
    fn share_of_round(
        &mut self,
        now: Instant,
        packets: u32,
        acknowledged_sent: Option<Instant>,
    ) -> Option<f64> {
        self.acknowledged += packets;
        if acknowledged_sent < self.share_began {
            return None;
        }
        self.share_began = Some(now);
        let (packets, marked) = (self.acknowledged, self.marked);
        (self.acknowledged, self.marked) = (0, 0);
        Some((f64::from(marked) / f64::from(packets)).min(1.0))
    }

    /// Takes an RTT sample, s; `smoothed_s` is the mean of those before, which is infinite without.
    fn sample_rtt(&mut self, rtt_s: f64, smoothed_s: f64) {
        self.rtt_sum_s += rtt_s;
        self.rtt_samples += 1;
        if smoothed_s.is_finite() {
            let error = (smoothed_s - rtt_s).abs();
            self.rtt_deviation_s += (error - self.rtt_deviation_s) / 4.0;
        } else {
            self.rtt_deviation_s = rtt_s / 2.0;
        }
    }

    /// Whether two probe timeouts have passed without an acknowledgement. The library does not tell
    /// of them: the first comes after a PTO (RFC 9002, section 6.2.1), the second after two more.
    fn is_silent(&self, now: Instant, smoothed_s: f64) -> bool {
        let pto_s = smoothed_s + (4.0 * self.rtt_deviation_s).max(GRANULARITY_S) + MAX_ACK_DELAY_S;
        let silent = self
            .silent_since
            .map(|since| now.saturating_duration_since(since));
        silent.is_some_and(|silent| silent.as_secs_f64() >= 3.0 * pto_s)
    }

    /// Notes what is in flight, and that a round trip is over once a packet of it is acknowledged.
    fn note_used(&mut self, now: Instant, acknowledged_sent: Option<Instant>) {
        let in_flight = self.in_flight_bytes;
        if acknowledged_sent >= self.round_began {
            self.round_began = Some(now);
            self.used_bytes = [in_flight, self.used_bytes[0]];
        }
        self.used_bytes[0] = self.used_bytes[0].max(in_flight);
    }
}

/// `kGranularity` of RFC 9002, s.
const GRANULARITY_S: f64 = 1e-3;
/// The longest delay of an acknowledgement, s: the default of RFC 9000, section 18.2.
const MAX_ACK_DELAY_S: f64 = 0.025;

/// The controller of a connection, shared by its paths. The library builds one [`PathController`]
/// per path and does not say for which: either [`open`](Self::open) comes before each, or the path
/// takes the lowest index that is free and [`PathController::index`] says afterwards which it is.
#[derive(Clone, Debug)]
pub struct SharedController(Arc<Mutex<State>>);

/// A controller of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// BBR (draft-ietf-ccwg-bbr).
    Bbr3,
    /// CUBIC (RFC 9438).
    Cubic,
    /// NewReno (RFC 9002, section 7).
    NewReno,
}

impl Library {
    /// Each by its name among the algorithms of the backend.
    pub const NAMED: [(&str, Library); 3] = [
        ("noq-bbr3", Library::Bbr3),
        ("noq-cubic", Library::Cubic),
        ("noq-newreno", Library::NewReno),
    ];

    fn build(self, now: Instant, mtu: u16) -> Box<dyn Controller> {
        match self {
            Library::Bbr3 => Arc::new(Bbr3Config::default()).build(now, mtu),
            Library::Cubic => Arc::new(CubicConfig::default()).build(now, mtu),
            Library::NewReno => Arc::new(NewRenoConfig::default()).build(now, mtu),
        }
    }
}

/// The controller of a connection that begins.
#[derive(Clone, Debug)]
pub enum Choice {
    /// A rule, without paths.
    Rule(Box<AnyController>),
    /// A controller of the library.
    Library(Library),
}

impl Choice {
    /// A rule's.
    pub fn rule(controller: AnyController) -> Choice {
        Choice::Rule(Box::new(controller))
    }
}

#[derive(Debug)]
struct State {
    clock: Clock,
    controller: AnyController,
    initial_ssthresh: f64,
    paths: Vec<PathReport>,
    /// Bytes acknowledged on all paths.
    acknowledged: u64,
    /// Whether the connection had nothing more to send at the last acknowledgement.
    app_limited: bool,
    /// Whether the rule reduces windows by the share of packets that are marked.
    counts_marks: bool,
    /// The path whose controller is built next, if that is known.
    opening: Option<usize>,
    /// A controller of the library sets the windows; the rule's measures.
    library: Option<Library>,
}

impl State {
    fn add_path(&mut self) -> usize {
        let r = self.paths.len();
        self.paths.push(PathReport::default());
        self.controller.add_path();
        self.controller.set_ssthresh(r, self.initial_ssthresh);
        r
    }

    /// The lowest index that no path uses, with nothing left of the path that used it.
    fn free_path(&mut self) -> usize {
        let Some(r) = self.paths.iter().position(|path| !path.is_registered) else {
            return self.add_path();
        };
        self.paths[r] = PathReport {
            opened: self.paths[r].opened,
            ..PathReport::default()
        };
        self.controller.reset_path(r);
        self.controller.set_ssthresh(r, self.initial_ssthresh);
        r
    }

    /// Path `r` is about to change its window: its silent siblings do not count.
    fn leave_out_silent(&mut self, r: usize, now: Instant) {
        for (sibling, report) in self.paths.iter().enumerate() {
            let smoothed_s = self.controller.path(sibling).rtt;
            if sibling != r && report.is_silent(now, smoothed_s) {
                self.controller.on_silence(sibling);
            }
        }
    }

    /// See [`SharedController::abandon`].
    fn abandon(&mut self, r: usize) {
        let was_used = self.controller.window(r) > 1.0;
        self.controller.on_timeout(r);
        self.controller.on_silence(r);
        let report = &mut self.paths[r];
        report.timeouts += u64::from(was_used);
        report.opened += 1;
        report.is_registered = false;
        (report.in_flight_bytes, report.silent_since) = (0, None);
    }
}

impl SharedController {
    /// Shares a controller without paths. A new path's slow start ends at `initial_ssthresh`
    /// packets.
    pub fn new(clock: Clock, controller: AnyController, initial_ssthresh: f64) -> Self {
        SharedController(Arc::new(Mutex::new(State {
            clock,
            controller,
            initial_ssthresh,
            paths: Vec::new(),
            acknowledged: 0,
            app_limited: true,
            counts_marks: false,
            opening: None,
            library: None,
        })))
    }

    /// A controller of the library on each path by itself, instead of a rule.
    pub fn library(clock: Clock, library: Library) -> Self {
        let observer = Algorithm::parse("reno").expect("the table has it");
        let shared = SharedController::new(clock, observer.controller(0, 1.0), f64::INFINITY);
        shared.lock().library = Some(library);
        shared
    }

    /// Path `r` opens, for the first time or again. Paths open in their order.
    pub fn open(&self, r: usize) {
        let mut state = self.lock();
        state.opening = Some(r);
        if r == state.paths.len() {
            state.add_path();
        }
    }

    /// Path `r` is abandoned: its controller is deregistered, its window is 1, and its siblings do
    /// not count it until something is acknowledged on it again.
    pub fn abandon(&self, r: usize) {
        self.lock().abandon(r);
    }

    /// Sets what path `r` may send at most.
    pub fn allow(&self, r: usize, allowance: Allowance) {
        self.lock().paths[r].allowance = allowance;
    }

    /// Sets the weight of the rule; without effect on a rule that has none.
    pub fn set_weight(&self, weight: f64) {
        self.lock().controller.set_weight(weight);
    }

    /// Bytes that were acknowledged and that are in flight, on all paths, in packets with their
    /// headers.
    pub fn carried(&self) -> (u64, u64) {
        let state = self.lock();
        let in_flight = state.paths.iter().map(|path| path.in_flight_bytes).sum();
        (state.acknowledged, in_flight)
    }

    /// Whether nothing waited for a window or the pacer at the last acknowledgement on any path, or
    /// no further one is expected.
    pub fn is_app_limited(&self) -> bool {
        let state = self.lock();
        state.app_limited || state.paths.iter().all(|path| path.in_flight_bytes == 0)
    }

    /// Whether a packet was acknowledged that path `r` has sent at `start` or later.
    pub fn has_acknowledged(&self, r: usize, start: Instant) -> bool {
        let newest = self.lock().paths[r].acknowledged_sent;
        newest.is_some_and(|sent| sent >= start)
    }

    /// The congestion window of path `r`, packets.
    pub fn window(&self, r: usize) -> f64 {
        let state = self.lock();
        let by_rule = || state.controller.window(r);
        state.paths[r].library_window.unwrap_or_else(by_rule)
    }

    /// Since when nothing that path `r` sent has been acknowledged, and its smoothed RTT: what a
    /// [`PathWatch`](crate::watch::PathWatch) is told. `None` for a path that was never open.
    pub fn heard(&self, r: usize) -> (Option<Instant>, Option<Duration>) {
        let state = self.lock();
        let Some(report) = state.paths.get(r) else {
            return (None, None);
        };
        let rtt = Duration::try_from_secs_f64(state.controller.path(r).rtt);
        (report.silent_since, rtt.ok())
    }

    /// A scalable rule reduces the window by the share of marks from now on, not as at a loss.
    pub fn count_marks(&self) {
        self.lock().counts_marks = true;
    }

    /// Calls `read` with the controller and the reports of its paths.
    pub fn read<T>(&self, read: impl FnOnce(&AnyController, &[PathReport]) -> T) -> T {
        let state = self.lock();
        read(&state.controller, &state.paths)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no holder of the lock panics")
    }
}

// Limits of a path beside its congestion window.

/// Most that a path may send, beside its congestion window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowance {
    /// Bytes per second.
    pub rate: Option<f64>,
    /// Bytes in flight, two packets at least.
    pub in_flight: u64,
    /// Bytes from now on.
    pub credit: u64,
    /// Two packets whatever is in flight: the library sends no PING while the window is full and
    /// data waits, also if that data goes over other paths.
    pub pings: bool,
}

impl Allowance {
    /// No limit.
    pub const NONE: Allowance = Allowance {
        rate: None,
        in_flight: u64::MAX,
        credit: u64::MAX,
        pings: false,
    };

    /// How much may be in flight, bytes, with this congestion window. The library does not allow 0.
    pub(super) fn window(&self, window: u64, in_flight: u64, mtu: u64) -> u64 {
        window
            .min(self.in_flight.max(2 * mtu))
            .min(in_flight.saturating_add(self.credit))
            .max(if self.pings { in_flight + 2 * mtu } else { 1 })
    }

    /// A packet was sent.
    pub(super) fn on_sent(&mut self, bytes: u64) {
        if self.credit < u64::MAX {
            self.credit = self.credit.saturating_sub(bytes);
        }
    }
}

impl Default for Allowance {
    fn default() -> Self {
        Allowance::NONE
    }
}

// Time as the library's `Instant`: of a run, or of a clock that runs by itself.

/// Converts between the time of a run and `Instant`, whose origin is arbitrary: the library uses
/// differences only. An `Instant` has whole nanoseconds, so a datagram may seem to arrive up to
/// 1 ns early; a timer never fires early.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
    /// Reads a clock that runs by itself; `None` in the virtual time of a run.
    read: Option<fn() -> Instant>,
}

/// Picoseconds of a nanosecond.
const NANOSECOND: Time = 1000;

impl Clock {
    /// A clock of virtual time, whose time 0 is now.
    pub fn start() -> Clock {
        Clock {
            origin: Instant::now(),
            read: None,
        }
    }

    /// A clock that runs by itself and is read so, for endpoints over sockets.
    pub fn running(read: fn() -> Instant) -> Clock {
        Clock {
            origin: read(),
            read: Some(read),
        }
    }

    /// The latest time at which a datagram that the library handles at `now` can have arrived. Over
    /// sockets the library reads the time before it receives. If the process is preempted in
    /// between and a datagram arrives, its RTT, and the base RTT from then on, would be too small.
    pub fn arrival(self, now: Instant) -> Instant {
        self.read.map_or(now, |read| now.max(read()))
    }

    /// The instant of a time of the run.
    pub fn instant(self, time: Time) -> Instant {
        self.origin + Duration::from_nanos(time / NANOSECOND)
    }

    /// The time of the run at an instant.
    pub fn time(self, instant: Instant) -> Time {
        instant.duration_since(self.origin).as_nanos() as Time * NANOSECOND
    }

    /// The time of the run at an instant, s.
    pub fn seconds(self, instant: Instant) -> f64 {
        anabranch_net::time::seconds(self.time(instant))
    }
}

// The packets of a path, as a rule by delivery rates is told of them.

/// The packets that are in flight, by number, and those that are to be reported.
#[derive(Clone, Debug, Default)]
pub(super) struct Packets {
    in_flight: BTreeMap<u64, Stamp>,
    acknowledged: Vec<Stamp>,
    lost: Vec<Stamp>,
}

impl Packets {
    pub fn on_sent(&mut self, number: u64, stamp: Stamp) {
        self.in_flight.insert(number, stamp);
    }

    pub fn on_acknowledged(&mut self, number: u64) {
        self.acknowledged.extend(self.in_flight.remove(&number));
    }

    pub fn on_lost(&mut self, number: u64) {
        self.lost.extend(self.in_flight.remove(&number));
    }

    /// Reports the losses, once a recovery has begun: the library declares them before.
    pub fn report_losses(&mut self, controller: &mut AnyController, r: usize, now: f64) {
        for stamp in self.lost.drain(..) {
            controller.on_packet_lost(r, now, &stamp);
        }
    }

    /// Reports the packets of an ACK frame, after which `in_flight` packets are left. The library
    /// detects the losses that the frame shows only then.
    pub fn report(
        &mut self,
        controller: &mut AnyController,
        r: usize,
        now: f64,
        rtt: f64,
        in_flight: f64,
    ) {
        self.report_losses(controller, r, now);
        self.acknowledged.sort_by_key(|stamp| stamp.packet_id);
        for stamp in self.acknowledged.drain(..) {
            controller.on_packet_delivered(r, now, &stamp);
        }
        controller.on_packets_processed(r, now, Some(rtt), in_flight);
    }
}

#[cfg(test)]
mod tests {
    use anabranch_control::Ack;

    use super::*;

    /// Growth of the window of path 1, of 10 packets, by an acknowledged packet. Semicoupled
    /// divides 1 by the windows of all paths that count, of 10 packets each.
    fn growth(state: &State) -> f64 {
        let mut controller = state.controller.clone();
        let ack = Ack {
            now: 0.2,
            sent_at: 0.1,
            packets: 1,
            rtt: None,
            queue_delay: None,
            window_limited: true,
        };
        controller.on_ack(1, &ack);
        controller.window(1) - 10.0
    }

    /// One sample of 100 ms: the deviation is 50 ms and a PTO 100 + 4 * 50 + 25 = 325 ms. The
    /// second one in a row is over after 325 + 2 * 325 = 975 ms.
    #[test]
    fn a_path_counts_until_two_probe_timeouts_have_passed_and_when_it_opens_again() {
        let rule = Algorithm::parse("semicoupled").expect("in the table");
        let controller = rule.controller(0, 10.0);
        let shared = SharedController::new(Clock::start(), controller, 10.0);
        let mut state = shared.lock();
        let start = Instant::now();
        let heard = Ack {
            now: 0.1,
            sent_at: 0.0,
            packets: 1,
            rtt: Some(0.1),
            queue_delay: None,
            window_limited: false,
        };
        for r in 0..2 {
            state.add_path();
            state.paths[r].is_registered = true;
            state.controller.on_ack(r, &heard);
            state.paths[r].sample_rtt(0.1, f64::INFINITY);
        }
        state.paths[0].silent_since = Some(start);
        for (silent_ms, expected) in [(974, 0.05), (976, 0.1)] {
            state.leave_out_silent(1, start + Duration::from_millis(silent_ms));
            assert!((growth(&state) - expected).abs() < 1e-12, "{silent_ms} ms");
        }
        state.controller.on_ack(0, &heard);
        assert!((growth(&state) - 0.05).abs() < 1e-12, "heard");
        state.abandon(0);
        assert!((growth(&state) - 0.1).abs() < 1e-12, "abandoned");
        assert_eq!(state.free_path(), 0);
        state.controller.on_ack(0, &heard);
        assert!((growth(&state) - 0.05).abs() < 1e-12, "open again");
    }

    #[test]
    fn a_window_is_bounded_by_what_is_allowed() {
        assert_eq!(Allowance::NONE.window(10_000, 9_000, 1_000), 10_000);
        let mut allowance = Allowance {
            credit: 2_500,
            ..Allowance::NONE
        };
        assert_eq!(allowance.window(10_000, 3_000, 1_000), 5_500);
        (0..3).for_each(|_| allowance.on_sent(1_000));
        assert_eq!(allowance.window(10_000, 6_000, 1_000), 6_000);
        assert_eq!(allowance.window(10_000, 0, 1_000), 1);
        let allowance = Allowance {
            in_flight: 0,
            ..Allowance::NONE
        };
        assert_eq!(allowance.window(10_000, 9_000, 1_000), 2_000);
        let allowance = Allowance {
            pings: true,
            ..Allowance::NONE
        };
        assert_eq!(allowance.window(10_000, 9_500, 1_000), 11_500);
    }

    #[test]
    fn a_datagram_of_a_socket_arrives_when_it_is_handled_or_later_one_of_a_run_exactly_then() {
        let read = Instant::now();
        std::thread::sleep(Duration::from_millis(2)); // preempted
        let arrival = Clock::running(Instant::now).arrival(read);
        assert!(arrival >= read + Duration::from_millis(2));
        assert_eq!(Clock::start().arrival(read), read);
        let ahead = Instant::now() + Duration::from_secs(1);
        assert_eq!(Clock::running(Instant::now).arrival(ahead), ahead);
    }
}
