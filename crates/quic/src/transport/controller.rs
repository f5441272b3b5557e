//! One [`AnyController`] for all paths of a connection, as the library's controller of each path.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use anabranch_control::{Ack, AnyController};
use noq_proto::RttEstimator;
use noq_proto::congestion::{Controller, ControllerFactory};

use super::clock::Clock;

/// What a path's controller was told.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PathReport {
    /// Packets declared lost; their data is sent again.
    pub declared_lost: u64,
    /// Reductions of the window after losses.
    pub loss_events: u64,
    /// Times of persistent congestion (RFC 9002, section 7.6), and abandoned paths.
    pub timeouts: u64,
    /// Sum of the RTT samples, s, and their number.
    pub rtt_sum_s: f64,
    pub rtt_samples: u64,
    /// Bytes sent and neither acknowledged nor declared lost.
    pub in_flight_bytes: u64,
    /// Since when nothing that was sent has been acknowledged.
    pub silent_since: Option<Instant>,
    /// How often the path was opened. Only the controller of the last time is registered.
    opened: u32,
}

/// The controller of a connection, shared by its paths. The library builds one [`PathController`]
/// per path and does not say for which, so that [`open`](Self::open) comes before each.
#[derive(Clone, Debug)]
pub(crate) struct SharedController(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    clock: Clock,
    controller: AnyController,
    initial_ssthresh: f64,
    paths: Vec<PathReport>,
    /// The path whose controller is built next.
    opening: usize,
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
            opening: 0,
        })))
    }

    /// Path `r` opens, for the first time or again. Paths open in their order.
    pub fn open(&self, r: usize) {
        let mut state = self.lock();
        state.opening = r;
        if r == state.paths.len() {
            let initial_ssthresh = state.initial_ssthresh;
            state.paths.push(PathReport::default());
            state.controller.add_path();
            state.controller.set_ssthresh(r, initial_ssthresh);
        }
    }

    /// The library has opened path `r`: its controller is registered.
    fn register(&self, r: usize) -> u32 {
        let report = &mut self.lock().paths[r];
        report.opened += 1;
        report.opened
    }

    /// Path `r` is abandoned: its controller is deregistered. The rules couple it as one that had a
    /// timeout, with a window of 1.
    pub fn abandon(&self, r: usize) {
        let mut state = self.lock();
        let was_used = state.controller.window(r) > 1.0;
        state.controller.on_timeout(r);
        let report = &mut state.paths[r];
        report.timeouts += u64::from(was_used);
        report.opened += 1;
        (report.in_flight_bytes, report.silent_since) = (0, None);
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
        let r = self.lock().opening;
        Box::new(PathController {
            opened: self.register(r),
            shared: (*self).clone(),
            r,
            mtu: mtu.into(),
            acked: Acked::default(),
            recovery_began: None,
        })
    }
}

/// The library's controller of one path. A clone, which the library makes where a peer's address
/// changes, is the same path's.
#[derive(Clone, Debug)]
struct PathController {
    shared: SharedController,
    r: usize,
    opened: u32,
    mtu: u64,
    acked: Acked,
    recovery_began: Option<Instant>,
}

/// Packets that one ACK frame acknowledges.
#[derive(Clone, Copy, Debug, Default)]
struct Acked {
    packets: u32,
    newest: Option<Instant>,
}

impl PathController {
    /// Recovery ends with the first acknowledgement of a packet sent since it began (RFC 9002,
    /// section 7.3.2).
    fn is_after_recovery(&self, sent: Instant) -> bool {
        self.recovery_began.is_none_or(|began| sent > began)
    }

    /// The state, while this controller is registered.
    fn lock(&self) -> Option<MutexGuard<'_, State>> {
        let state = self.shared.lock();
        (state.paths[self.r].opened == self.opened).then_some(state)
    }
}

impl Controller for PathController {
    fn on_packet_sent(&mut self, now: Instant, bytes: u16, _: u64) {
        if let Some(mut state) = self.lock() {
            let report = &mut state.paths[self.r];
            report.in_flight_bytes += u64::from(bytes);
            report.silent_since.get_or_insert(now);
        }
    }

    fn on_ack(&mut self, _: Instant, sent: Instant, _: u64, _: u64, _: bool, _: &RttEstimator) {
        self.acked.packets += 1;
        self.acked.newest = self.acked.newest.max(Some(sent));
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, _: Option<u64>) {
        let Acked { packets, newest } = std::mem::take(&mut self.acked);
        let ends = newest.is_some_and(|sent| self.is_after_recovery(sent))
            && self.recovery_began.take().is_some();
        let Some(mut state) = self.lock() else {
            return;
        };
        let State {
            clock,
            controller,
            paths,
            ..
        } = &mut *state;
        paths[self.r].in_flight_bytes = in_flight;
        paths[self.r].silent_since = (in_flight > 0).then_some(now);
        let Some(sent) = newest else {
            return;
        };
        if ends {
            controller.on_recovered(self.r);
        }
        let rtt = clock.seconds(now) - clock.seconds(sent);
        paths[self.r].rtt_sum_s += rtt;
        paths[self.r].rtt_samples += 1;
        controller.on_ack(
            self.r,
            &Ack {
                now: clock.seconds(now),
                sent_at: clock.seconds(sent),
                packets,
                rtt: Some(rtt),
                queue_delay: None,
                window_limited: !app_limited,
            },
        );
    }

    fn on_packet_lost(&mut self, bytes: u16, _: u64, _: Instant) {
        let Some(mut state) = self.lock() else {
            return;
        };
        state.controller.on_lost(self.r, 1);
        let report = &mut state.paths[self.r];
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
        let Some(mut state) = self.lock() else {
            return;
        };
        if is_persistent {
            state.paths[self.r].timeouts += 1;
            state.controller.on_timeout(self.r);
        } else if is_new {
            state.paths[self.r].loss_events += 1;
            state.controller.on_loss(self.r);
        }
        drop(state);
        if is_persistent {
            self.recovery_began = None;
        } else if is_new {
            self.recovery_began = Some(now);
        }
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.mtu = mtu.into();
    }

    /// Whole packets, as the simulator's.
    fn window(&self) -> u64 {
        self.shared
            .read(|controller, _| controller.window(self.r) as u64)
            * self.mtu
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
