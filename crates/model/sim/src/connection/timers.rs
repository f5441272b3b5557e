//! The timers of a path: a deadline that moves often, while its event in the calendar seldom does,
//! and the retransmission timeout.

use anabranch_net::Time;
use anabranch_scenario::RtoFloor;
use anabranch_scenario::time::{from_seconds, seconds};

use crate::calendar::Event;
use crate::connection::tcp::Tcp;
use crate::connection::{Connection, World};
use crate::network::PacketNumber;

/// The longest timeout (RFC 6298 section 2.5 allows any bound of 60 s or more).
const MAX_RTO: Time = from_seconds(60.0);

/// The timeout before the first RTT sample, s (RFC 6298 section 2.1).
const INITIAL_RTO_S: f64 = 1.0;

/// A deadline and the one timer event that checks it. The deadline of a retransmission timer moves
/// at every acknowledgement; an event is scheduled only when none is pending that early.
#[derive(Debug)]
pub(crate) struct Timer {
    /// `None` while the timer is off.
    deadline: Option<Time>,
    /// Time of the pending event, `Time::MAX` if there is none.
    event_at: Time,
}

/// The meaning of a timer event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerEvent {
    /// Nothing: the timer is off, or an earlier event replaced this one.
    Stale,
    /// The deadline has moved: an event must be scheduled at this time.
    Later(Time),
    /// The timer has expired, and is off.
    Expired,
}

impl Default for Timer {
    fn default() -> Self {
        Timer {
            deadline: None,
            event_at: Time::MAX,
        }
    }
}

impl Timer {
    /// When the timer expires; `None` while it is off.
    #[inline]
    pub fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    #[inline]
    pub fn stop(&mut self) {
        self.deadline = None;
    }

    /// Starts the timer anew; gives the time at which an event must be scheduled, unless one is
    /// pending that early.
    #[inline]
    pub fn start(&mut self, deadline: Time) -> Option<Time> {
        self.deadline = Some(deadline);
        (deadline < self.event_at).then(|| {
            self.event_at = deadline;
            deadline
        })
    }

    /// A timer event at `now`.
    pub fn on_event(&mut self, now: Time) -> TimerEvent {
        if now != self.event_at {
            return TimerEvent::Stale;
        }
        self.event_at = Time::MAX;
        match self.deadline {
            Some(deadline) if deadline <= now => {
                self.stop();
                TimerEvent::Expired
            }
            Some(deadline) => self
                .start(deadline)
                .map_or(TimerEvent::Stale, TimerEvent::Later),
            None => TimerEvent::Stale,
        }
    }
}

/// The estimator of the timeout.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rto {
    /// Smoothed RTT, as the controller has for the rules, s; 0 before the first sample.
    srtt: f64,
    /// Smoothed deviation of the samples from the smoothed RTT, s.
    deviation: f64,
    /// The timeout's excess over the smoothed RTT, s.
    margin: f64,
    /// Linux: the largest `4 deviation` of the present round trip, at least the floor, s.
    largest: f64,
    /// Linux: the round trip ends when all below this is acknowledged.
    round_end: PacketNumber,
}

impl Rto {
    /// The estimator of a path whose handshake took `rtt_s`. Linux takes it as a sample, in
    /// microseconds (`tcp_rcv_synsent_state_process`, `tcp_synack_rtt_meas`). With the floor of RFC
    /// 6298 it would change nothing below an RTT of 333 ms; there the first timeout stays 1 s.
    pub fn after_handshake(tcp: &Tcp, rtt_s: f64) -> Rto {
        let mut rto = Rto::default();
        if tcp.keys.rto_floor == RtoFloor::Variance {
            rto.sample(tcp, (rtt_s * 1e6).round().max(1.0) * 1e-6, 0, 0);
        }
        rto
    }

    /// An RTT sample, s. `una` and `next` are the first packet not acknowledged and the first not
    /// sent.
    #[inline]
    pub fn sample(&mut self, tcp: &Tcp, rtt_s: f64, una: PacketNumber, next: PacketNumber) {
        match tcp.keys.rto_floor {
            RtoFloor::Rto => {
                self.smooth(rtt_s, 1.0);
                self.margin = 4.0 * self.deviation;
            }
            RtoFloor::Variance => self.sample_as_linux(tcp, rtt_s, una, next),
        }
    }

    /// Linux' `tcp_rtt_estimator`: the margin rises at once to `4 deviation`, at least the floor,
    /// and falls by a quarter of the difference per round trip.
    #[inline]
    fn sample_as_linux(&mut self, tcp: &Tcp, rtt_s: f64, una: PacketNumber, next: PacketNumber) {
        let first = self.srtt == 0.0;
        self.smooth(rtt_s, 1.0 / 8.0);
        self.largest = self.largest.max(4.0 * self.deviation);
        if first {
            self.largest = self.largest.max(seconds(tcp.min_rto));
            self.round_end = next;
        }
        self.margin = self.margin.max(self.largest);
        if una > self.round_end {
            self.margin -= (self.margin - self.largest) / 4.0;
            self.round_end = next;
            self.largest = seconds(tcp.min_rto);
        }
    }

    /// RFC 6298 section 2; `falling` scales the growth of the deviation where the RTT falls.
    #[inline]
    fn smooth(&mut self, rtt_s: f64, falling: f64) {
        if self.srtt == 0.0 {
            self.srtt = rtt_s;
            self.deviation = rtt_s / 2.0;
            return;
        }
        let error = rtt_s - self.srtt;
        let change = error.abs() - self.deviation;
        let scale = if error < 0.0 && change > 0.0 {
            falling
        } else {
            1.0
        };
        self.deviation += scale * change / 4.0;
        self.srtt += error / 8.0;
    }

    /// The smoothed RTT, `None` before the first sample.
    pub fn smoothed(&self) -> Option<Time> {
        self.is_measured().then(|| from_seconds(self.srtt))
    }

    /// Smoothed deviation of the samples (RFC 6298's RTTVAR), s; 0 before the first.
    pub fn deviation_s(&self) -> f64 {
        self.deviation
    }

    /// Whether there was a sample.
    pub fn is_measured(&self) -> bool {
        self.srtt > 0.0
    }

    /// The timeout, without backoff.
    #[inline]
    pub fn timeout(&self, tcp: &Tcp) -> Time {
        let rto_s = if self.is_measured() {
            self.srtt + self.margin
        } else {
            INITIAL_RTO_S
        };
        from_seconds(rto_s).clamp(tcp.min_rto, longest(tcp))
    }
}

/// No timeout is longer, with backoff.
#[inline]
pub(crate) fn longest(tcp: &Tcp) -> Time {
    MAX_RTO.max(tcp.min_rto)
}

impl Connection {
    /// An event of a path's retransmission timer.
    pub fn on_timer(&mut self, world: &mut World, r: usize) {
        match self.paths[r].timer.on_event(world.now) {
            TimerEvent::Stale => {}
            TimerEvent::Later(time) => self.schedule(world, Event::Timeout, r, Some(time)),
            TimerEvent::Expired => self.time_out(world, r),
        }
    }

    fn time_out(&mut self, world: &mut World, r: usize) {
        self.controller.on_timeout(r);
        let path = &mut self.paths[r];
        path.time_out(world);
        if let Some(ecn) = &mut path.ecn {
            ecn.on_reduced();
        }
        if path.packets.is_some() {
            self.report_losses(world.now, r);
        }
        self.open_window(world.now, r);
        let path = &mut self.paths[r];
        if self.several && self.linux_scheduler.is_none() && !self.scheduler.copies() {
            let lost = path.take_lost_data();
            self.reinjections.extend(lost.map(|data| (data, r as u16)));
        }
        self.restart_timer(world, r);
        self.tell_program(world, r, true);
        self.fill_windows(world);
    }

    #[inline]
    pub(super) fn restart_timer(&mut self, world: &mut World, r: usize) {
        let time = self.paths[r].restart_timer(world);
        self.schedule(world, Event::Timeout, r, time);
    }

    /// Schedules an event of a path, if there is a time for it.
    #[inline]
    pub(super) fn schedule(
        &self,
        world: &mut World,
        event: impl FnOnce(u32, u16) -> Event,
        r: usize,
        time: Option<Time>,
    ) {
        if let Some(time) = time {
            let event = event(self.number, r as u16);
            world.network.calendar.push(time, event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_that_moves_back_needs_no_event_until_the_old_one() {
        let mut timer = Timer::default();
        assert_eq!(timer.start(10), Some(10));
        assert_eq!(timer.start(15), None);
        assert_eq!(timer.on_event(10), TimerEvent::Later(15));
        assert_eq!(timer.on_event(15), TimerEvent::Expired);
        assert_eq!(timer.deadline(), None);
    }

    #[test]
    fn an_earlier_deadline_replaces_the_event() {
        let mut timer = Timer::default();
        assert_eq!([timer.start(10), timer.start(7)], [Some(10), Some(7)]);
        assert_eq!(timer.on_event(7), TimerEvent::Expired);
        assert_eq!(timer.on_event(10), TimerEvent::Stale);
    }

    #[test]
    fn a_timer_that_is_off_does_not_expire() {
        let mut timer = Timer::default();
        timer.start(10);
        timer.stop();
        assert_eq!(timer.on_event(10), TimerEvent::Stale);
    }

    use anabranch_scenario::{Profile, Tcp as Keys};

    /// An RTT of 20 ms: 4 rttvar are 40 ms, less than the floor of 200 ms. RFC 6298: 1 s.
    #[test]
    fn linux_measures_the_round_trip_of_the_handshake() {
        for (profile, expected) in [(Profile::Linux, 0.22), (Profile::Rfc, 1.0)] {
            let tcp = Tcp::new(&Keys::of(profile));
            let rto = Rto::after_handshake(&tcp, 0.02);
            assert_eq!(rto.timeout(&tcp), from_seconds(expected));
        }
    }

    /// The timeouts, ms, before the first sample and after each of these, ms. Every sample is that
    /// of a round trip of one packet.
    fn timeouts_ms(profile: Profile, samples_ms: &[f64]) -> Vec<f64> {
        let tcp = Tcp::new(&Keys::of(profile));
        let mut rto = Rto::default();
        let mut timeouts = vec![rto.timeout(&tcp)];
        for (number, rtt_ms) in samples_ms.iter().enumerate() {
            let una = number as PacketNumber + 1;
            rto.sample(&tcp, rtt_ms * 1e-3, una, una + 1);
            timeouts.push(rto.timeout(&tcp));
        }
        let ms = |rto: &Time| (seconds(*rto) * 1e6).round() * 1e-3;
        timeouts.iter().map(ms).collect()
    }

    /// 400 ms: rttvar 200. Then 1000 ms: rttvar 0.75 * 200 + 0.25 * 600 = 300, srtt 475. 40 ms
    /// alone would give 40 + 4 * 20 = 120.
    #[test]
    fn rfc_6298_has_a_floor_of_1_s() {
        assert_eq!(
            timeouts_ms(Profile::Rfc, &[400.0, 1000.0]),
            [1000.0, 1200.0, 1675.0]
        );
        assert_eq!(timeouts_ms(Profile::Rfc, &[40.0]), [1000.0, 1000.0]);
    }

    /// A constant RTT of 100 ms: first 4 * 50 ms, which is the floor.
    #[test]
    fn linux_adds_at_least_200_ms_to_the_smoothed_rtt() {
        assert_eq!(timeouts_ms(Profile::Linux, &[100.0; 9])[1..], [300.0; 9]);
    }

    /// 400 ms: mdev 200, margin 800. The same again: mdev 150, but the margin stays 800 in the
    /// first round trip, which ends with the third packet: mdev 112.5, largest of the round 800. In
    /// the next, mdev 84.375 and largest 4 * 84.375 = 337.5, so that it ends with 800 - 462.5 / 4.
    #[test]
    fn linux_forgets_the_variance_once_per_round_trip() {
        let timeouts = timeouts_ms(Profile::Linux, &[400.0; 5]);
        assert_eq!(timeouts, [1000.0, 1200.0, 1200.0, 1200.0, 1200.0, 1084.375]);
    }

    /// Smoothed 744 ms, deviation 313: a sample 400 ms below adds an eighth of (400 - 313) / 4, one
    /// 400 ms above all of it.
    #[test]
    fn linux_raises_the_deviation_less_where_the_rtt_falls() {
        for (rtt_s, expected) in [(0.344, 0.313 + 0.087 / 32.0), (1.144, 0.313 + 0.087 / 4.0)] {
            let mut rto = Rto {
                srtt: 0.744,
                deviation: 0.313,
                ..Rto::default()
            };
            rto.smooth(rtt_s, 1.0 / 8.0);
            assert!((rto.deviation - expected).abs() < 1e-12);
        }
    }
}
