//! One [`AnyController`] for all paths of a connection, as the library's controller of each path.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use anabranch_control::{Ack, AnyController};
use noq_proto::RttEstimator;
use noq_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

use super::allowance::Allowance;
use super::clock::Clock;

/// The library's pacing without an allowance, windows per round trip.
const PACING_GAIN: f64 = 1.25;

/// What the library reported about a path.
#[derive(Clone, Copy, Debug, Default)]
pub struct PathReport {
    /// Packets declared lost; their data is sent again.
    pub declared_lost: u64,
    /// Reductions of the window after losses.
    pub loss_events: u64,
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
    /// When the newest packet was sent that has been acknowledged.
    acknowledged_sent: Option<Instant>,
    /// How often the path was opened. Only the controller of the last time is registered.
    opened: u32,
    /// Whether a controller is registered.
    is_registered: bool,
    allowance: Allowance,
}

impl PathReport {
    /// What the path may send now beside its window.
    pub fn allowance(&self) -> &Allowance {
        &self.allowance
    }

    /// Whether the congestion window limits what is sent, as far as the library knows. It takes an
    /// allowance for the window.
    fn is_window_limited(&self, app_limited: bool, window: u64, mtu: u64) -> bool {
        !app_limited
            && (self.allowance == Allowance::NONE || self.in_flight_bytes + 2 * mtu >= window)
    }
}

/// The controller of a connection, shared by its paths. The library builds one [`PathController`]
/// per path and does not say for which: either [`open`](Self::open) comes before each, or the path
/// takes the lowest index that is free and [`PathController::index`] says afterwards which it is.
#[derive(Clone, Debug)]
pub struct SharedController(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    clock: Clock,
    controller: AnyController,
    initial_ssthresh: f64,
    paths: Vec<PathReport>,
    /// Bytes acknowledged on all paths.
    acknowledged: u64,
    /// The path whose controller is built next, if that is known.
    opening: Option<usize>,
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

    /// See [`SharedController::abandon`].
    fn abandon(&mut self, r: usize) {
        let was_used = self.controller.window(r) > 1.0;
        self.controller.on_timeout(r);
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
            opening: None,
        })))
    }

    /// Path `r` opens, for the first time or again. Paths open in their order.
    pub fn open(&self, r: usize) {
        let mut state = self.lock();
        state.opening = Some(r);
        if r == state.paths.len() {
            state.add_path();
        }
    }

    /// Path `r` is abandoned: its controller is deregistered. The rules couple it as one that had a
    /// timeout, with a window of 1.
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

    /// Whether a packet was acknowledged that path `r` has sent at `start` or later.
    pub fn has_acknowledged(&self, r: usize, start: Instant) -> bool {
        let newest = self.lock().paths[r].acknowledged_sent;
        newest.is_some_and(|sent| sent >= start)
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

impl ControllerFactory for SharedController {
    fn build(self: Arc<Self>, _: Instant, mtu: u16) -> Box<dyn Controller> {
        let mut state = self.lock();
        let opening = state.opening.take();
        let r = opening.unwrap_or_else(|| state.free_path());
        let report = &mut state.paths[r];
        report.opened += 1;
        report.is_registered = true;
        let registration = Registration {
            opened: report.opened,
            shared: (*self).clone(),
            r,
        };
        Box::new(PathController {
            registration: Arc::new(registration),
            mtu: mtu.into(),
            acked: Acked::default(),
            recovery_began: None,
        })
    }
}

/// A path's place in the controller of its connection, which the clones of its controller share.
#[derive(Debug)]
struct Registration {
    shared: SharedController,
    r: usize,
    opened: u32,
}

impl Registration {
    /// The state, while this is the registered controller of its path.
    fn lock(&self) -> Option<MutexGuard<'_, State>> {
        let state = self.shared.lock();
        (state.paths[self.r].opened == self.opened).then_some(state)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(mut state) = self.lock() {
            state.abandon(self.r);
        }
    }
}

/// The library's controller of one path. A clone, which the library makes where a peer's address
/// changes, is the same path's.
#[derive(Clone, Debug)]
pub struct PathController {
    registration: Arc<Registration>,
    mtu: u64,
    acked: Acked,
    recovery_began: Option<Instant>,
}

/// Packets that one ACK frame acknowledges.
#[derive(Clone, Copy, Debug, Default)]
struct Acked {
    packets: u32,
    bytes: u64,
    newest: Option<Instant>,
}

impl PathController {
    /// Recovery ends with the first acknowledgement of a packet sent since it began (RFC 9002,
    /// section 7.3.2).
    fn is_after_recovery(&self, sent: Instant) -> bool {
        self.recovery_began.is_none_or(|began| sent > began)
    }

    /// The index of the path in the controller of its connection.
    pub fn index(&self) -> usize {
        self.registration.r
    }

    /// Largest datagram of the path without IP and UDP headers, bytes.
    pub fn mtu(&self) -> u64 {
        self.mtu
    }
}

impl Controller for PathController {
    fn on_packet_sent(&mut self, now: Instant, bytes: u16, _: u64) {
        if let Some(mut state) = self.registration.lock() {
            let report = &mut state.paths[self.index()];
            report.in_flight_bytes += u64::from(bytes);
            report.silent_since.get_or_insert(now);
            report.allowance.on_sent(bytes.into());
        }
    }

    fn on_ack(&mut self, _: Instant, sent: Instant, bytes: u64, _: u64, _: bool, _: &RttEstimator) {
        self.acked.packets += 1;
        self.acked.bytes += bytes;
        self.acked.newest = self.acked.newest.max(Some(sent));
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, _: Option<u64>) {
        let Acked {
            packets,
            bytes,
            newest,
        } = std::mem::take(&mut self.acked);
        let ends = newest.is_some_and(|sent| self.is_after_recovery(sent))
            && self.recovery_began.take().is_some();
        let r = self.index();
        let Some(mut state) = self.registration.lock() else {
            return;
        };
        let State {
            clock,
            controller,
            paths,
            acknowledged,
            ..
        } = &mut *state;
        *acknowledged += bytes;
        let now = clock.arrival(now);
        let window = controller.window(r) as u64 * self.mtu;
        let window_limited = paths[r].is_window_limited(app_limited, window, self.mtu);
        paths[r].in_flight_bytes = in_flight;
        paths[r].silent_since = (in_flight > 0).then_some(now);
        let Some(sent) = newest else {
            return;
        };
        paths[r].acknowledged_sent = paths[r].acknowledged_sent.max(newest);
        if ends {
            controller.on_recovered(r);
        }
        let rtt = clock.seconds(now) - clock.seconds(sent);
        paths[r].rtt_sum_s += rtt;
        paths[r].rtt_samples += 1;
        controller.on_ack(
            r,
            &Ack {
                now: clock.seconds(now),
                sent_at: clock.seconds(sent),
                packets,
                rtt: Some(rtt),
                queue_delay: None,
                window_limited,
            },
        );
    }

    fn on_packet_lost(&mut self, bytes: u16, _: u64, _: Instant) {
        let r = self.index();
        let Some(mut state) = self.registration.lock() else {
            return;
        };
        state.controller.on_lost(r, 1);
        let report = &mut state.paths[r];
        report.declared_lost += 1;
        report.in_flight_bytes = report.in_flight_bytes.saturating_sub(bytes.into());
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent: bool,
        _: bool,
        _: u64,
        _: u64,
    ) {
        let is_new = self.is_after_recovery(sent);
        let r = self.index();
        let Some(mut state) = self.registration.lock() else {
            return;
        };
        if is_persistent {
            state.paths[r].timeouts += 1;
            state.controller.on_timeout(r);
        } else if is_new {
            state.paths[r].loss_events += 1;
            state.controller.keep_for_undo(r);
            state.controller.on_loss(r);
        }
        drop(state);
        if is_persistent {
            self.recovery_began = None;
        } else if is_new {
            self.recovery_began = Some(now);
        }
    }

    /// Everything declared lost lately has arrived, out of order.
    fn on_spurious_congestion_event(&mut self) {
        let r = self.index();
        if let Some(mut state) = self.registration.lock() {
            state.controller.on_spurious(r);
            self.recovery_began = None;
        }
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.mtu = mtu.into();
    }

    /// Whole packets, as the simulator's.
    fn window(&self) -> u64 {
        let r = self.index();
        self.registration.shared.read(|controller, reports| {
            let window = controller.window(r) as u64 * self.mtu;
            let report = &reports[r];
            report
                .allowance
                .window(window, report.in_flight_bytes, self.mtu)
        })
    }

    /// The rate of the allowance. It takes the place of the library's pacing, by the window, and
    /// so does not exceed it.
    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        metrics.pacing_rate = self.registration.shared.read(|controller, reports| {
            let path = controller.path(self.index());
            let rate = reports[self.index()].allowance.rate?;
            let by_window = PACING_GAIN * path.window * self.mtu as f64 / path.rtt;
            Some(rate.min(by_window).max(1.0) as u64)
        });
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
