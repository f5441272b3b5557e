//! The library's controller of one path: the rule's window, or the library's own.

use std::any::Any;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use anabranch_control::{Ack, PACING_GAIN};
use noq_proto::RttEstimator;
use noq_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

use super::{SharedController, State};
use crate::controller::Packets;

impl ControllerFactory for SharedController {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        let mut state = self.lock();
        let opening = state.opening.take();
        let r = opening.unwrap_or_else(|| state.free_path());
        let report = &mut state.paths[r];
        report.opened += 1;
        report.is_registered = true;
        let library = state.library.map(|library| library.build(now, mtu));
        let report = &state.paths[r];
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
            packets: Packets::default(),
            library,
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
#[derive(Debug)]
pub struct PathController {
    registration: Arc<Registration>,
    mtu: u64,
    acked: Acked,
    recovery_began: Option<Instant>,
    packets: Packets,
    library: Option<Box<dyn Controller>>,
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

    /// An acknowledgement counts more marks than the one before: the window is reduced as at a
    /// loss, at most once per round trip (RFC 9002, section 7.1), or the mark is counted.
    fn on_mark(&mut self, now: Instant, sent: Instant) {
        let is_new = self.is_after_recovery(sent);
        let r = self.index();
        let Some(mut state) = self.registration.lock() else {
            return;
        };
        if state.counts_marks {
            state.paths[r].marked += 1;
        } else if is_new {
            state.paths[r].mark_events += 1;
            state.controller.on_mark(r);
            drop(state);
            self.recovery_began = Some(now);
        }
    }

    /// The window without the allowance, bytes.
    fn congestion_window(&self, state: &State) -> u64 {
        match &self.library {
            Some(library) => library.window(),
            // Whole packets, as the simulator's.
            None => state.controller.window(self.index()) as u64 * self.mtu,
        }
    }
}

impl Controller for PathController {
    fn on_packet_sent(&mut self, now: Instant, bytes: u16, number: u64) {
        if let Some(library) = &mut self.library {
            library.on_packet_sent(now, bytes, number);
        }
        let r = self.index();
        if let Some(mut state) = self.registration.lock() {
            if state.controller.is_by_rate() {
                let packets = |bytes: u64| bytes as f64 / self.mtu as f64;
                let in_flight = packets(state.paths[r].in_flight_bytes);
                let (at, size) = (state.clock.seconds(now), packets(bytes.into()));
                let stamp = state.controller.on_packet_sent(r, at, size, in_flight);
                self.packets.on_sent(number, stamp);
            }
            let report = &mut state.paths[r];
            report.in_flight_bytes += u64::from(bytes);
            report.silent_since.get_or_insert(now);
            report.allowance.on_sent(bytes.into());
        }
    }

    fn on_cwnd_limited(&mut self) {
        if let Some(library) = &mut self.library {
            library.on_cwnd_limited();
        }
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        number: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        if let Some(library) = &mut self.library {
            library.on_ack(now, sent, bytes, number, app_limited, rtt);
        }
        self.packets.on_acknowledged(number);
        self.acked.packets += 1;
        self.acked.bytes += bytes;
        self.acked.newest = self.acked.newest.max(Some(sent));
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest: Option<u64>,
    ) {
        if let Some(library) = &mut self.library {
            library.on_end_acks(now, in_flight, app_limited, largest);
        }
        let library_window = self.library.as_ref().map(|library| library.window());
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
        let now = state.clock.arrival(now);
        state.leave_out_silent(r, now);
        let State {
            clock,
            controller,
            paths,
            acknowledged,
            app_limited: limited,
            counts_marks,
            ..
        } = &mut *state;
        *acknowledged += bytes;
        *limited = app_limited;
        let window = controller.window(r) as u64 * self.mtu;
        paths[r].note_used(now, newest);
        let grows_fast = controller.window(r) < controller.ssthresh(r);
        let window_limited = paths[r].is_window_limited(app_limited, window, self.mtu, grows_fast);
        paths[r].in_flight_bytes = in_flight;
        paths[r].library_window = library_window.map(|bytes| bytes as f64 / self.mtu as f64);
        paths[r].silent_since = (in_flight > 0).then_some(now);
        let Some(sent) = newest else {
            return;
        };
        paths[r].acknowledged_sent = paths[r].acknowledged_sent.max(newest);
        if ends {
            controller.on_recovered(r);
        }
        let rtt = clock.seconds(now) - clock.seconds(sent);
        paths[r].sample_rtt(rtt, controller.path(r).rtt);
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
        if *counts_marks && let Some(share) = paths[r].share_of_round(now, packets, newest) {
            controller.on_marked_share(r, share);
            let reduces = share > 0.0 && self.recovery_began.is_none();
            paths[r].mark_events += u64::from(reduces);
        }
        if controller.is_by_rate() {
            let in_flight = in_flight as f64 / self.mtu as f64;
            if app_limited {
                controller.on_app_limited(r, in_flight);
            }
            let now = clock.seconds(now);
            self.packets.report(controller, r, now, rtt, in_flight);
        }
    }

    fn on_packet_lost(&mut self, bytes: u16, number: u64, now: Instant) {
        if let Some(library) = &mut self.library {
            library.on_packet_lost(bytes, number, now);
        }
        self.packets.on_lost(number);
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
        is_ecn: bool,
        lost_bytes: u64,
        largest_lost: u64,
    ) {
        if let Some(library) = &mut self.library {
            library.on_congestion_event(now, sent, is_persistent, is_ecn, lost_bytes, largest_lost);
        }
        if is_ecn {
            return self.on_mark(now, sent);
        }
        let is_new = self.is_after_recovery(sent);
        let r = self.index();
        let Some(mut state) = self.registration.lock() else {
            return;
        };
        if is_persistent {
            state.paths[r].timeouts += 1;
            state.controller.on_timeout(r);
        } else if is_new {
            state.leave_out_silent(r, now);
            state.paths[r].loss_events += 1;
            state.controller.keep_for_undo(r);
            state.controller.on_loss(r);
        }
        let at = state.clock.seconds(now);
        self.packets.report_losses(&mut state.controller, r, at);
        drop(state);
        if is_persistent {
            self.recovery_began = None;
        } else if is_new {
            self.recovery_began = Some(now);
        }
    }

    /// Everything declared lost lately has arrived, out of order.
    fn on_spurious_congestion_event(&mut self) {
        if let Some(library) = &mut self.library {
            library.on_spurious_congestion_event();
        }
        let r = self.index();
        if let Some(mut state) = self.registration.lock() {
            state.controller.on_spurious(r);
            self.recovery_began = None;
        }
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.mtu = mtu.into();
        if let Some(library) = &mut self.library {
            library.on_mtu_update(mtu);
        }
    }

    fn on_ack_frequency_update(&mut self, threshold: u64, max_ack_delay: Duration) {
        if let Some(library) = &mut self.library {
            library.on_ack_frequency_update(threshold, max_ack_delay);
        }
    }

    fn window(&self) -> u64 {
        let state = self.registration.shared.lock();
        let report = &state.paths[self.index()];
        let window = self.congestion_window(&state);
        report
            .allowance
            .window(window, report.in_flight_bytes, self.mtu)
    }

    /// The rate at which the rule paces, and that of the allowance. The latter takes the place of
    /// the library's pacing, by the window, and so does not exceed it.
    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = match &self.library {
            Some(library) => library.metrics(),
            None => ControllerMetrics::default(),
        };
        metrics.congestion_window = self.window();
        let state = self.registration.shared.lock();
        let rule = state.controller.pacing_rate(self.index()) * self.mtu as f64;
        if self.library.is_none() && rule.is_finite() {
            metrics.pacing_rate = Some(rule.max(1.0) as u64);
        }
        if let Some(rate) = state.paths[self.index()].allowance.rate {
            let path = state.controller.path(self.index());
            let window = self.congestion_window(&state) as f64;
            let pacing = metrics
                .pacing_rate
                .map_or(PACING_GAIN * window / path.rtt, |it| it as f64);
            metrics.pacing_rate = Some(rate.min(pacing).max(1.0) as u64);
        }
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(PathController {
            registration: self.registration.clone(),
            packets: self.packets.clone(),
            library: self.library.as_ref().map(|library| library.clone_box()),
            ..*self
        })
    }

    fn initial_window(&self) -> u64 {
        self.window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::super::{Clock, Library};
    use super::*;

    /// A controller that keeps what it is told of the receiver's acknowledgements.
    #[derive(Debug)]
    struct Told(Arc<Mutex<Option<(u64, Duration)>>>);

    impl Controller for Told {
        fn on_ack_frequency_update(&mut self, threshold: u64, max_ack_delay: Duration) {
            *self.0.lock().unwrap() = Some((threshold, max_ack_delay));
        }

        fn on_congestion_event(
            &mut self,
            _: Instant,
            _: Instant,
            _: bool,
            _: bool,
            _: u64,
            _: u64,
        ) {
        }

        fn on_mtu_update(&mut self, _: u16) {}

        fn window(&self) -> u64 {
            1
        }

        fn clone_box(&self) -> Box<dyn Controller> {
            Box::new(Told(self.0.clone()))
        }

        fn initial_window(&self) -> u64 {
            1
        }

        fn into_any(self: Box<Self>) -> Box<dyn Any> {
            self
        }
    }

    #[test]
    fn a_controller_of_the_library_is_told_how_often_the_receiver_acknowledges() {
        let shared = SharedController::library(Clock::start(), Library::Bbr3);
        shared.open(0);
        let built = Arc::new(shared).build(Instant::now(), 1472).into_any();
        let mut path = built.downcast::<PathController>().unwrap();
        let told = Arc::new(Mutex::new(None));
        path.library = Some(Box::new(Told(told.clone())));
        let delay = Duration::from_millis(7);
        path.on_ack_frequency_update(3, delay);
        assert_eq!(*told.lock().unwrap(), Some((3, delay)));
    }
}
