//! The programs of `anabranch-kernel` on a Linux host: they hold back a path whose data would
//! arrive too late, and limit its unsent data. As `crates/kernel/kernel/bpf/hold.h`, which says
//! why, with its names and constants.
//!
//! A held path has a pacing rate of 0, so that the scheduler leaves it out, and is probed once per
//! second by TCP's keepalive. The program decides anew at the end of each round trip, at a loss,
//! and at each answer. A path that was held is paced from then on.

use std::collections::VecDeque;

use anabranch_control::{AnyController, Delivery, Stamp};
use anabranch_net::Time;
use anabranch_scenario::time::{SECOND, seconds};

use crate::calendar::Event;
use crate::connection::scheduler::linux::LinuxScheduler;
use crate::connection::subflow::Subflow;
use crate::connection::tcp::Tcp;
use crate::connection::timers::{Timer, TimerEvent};
use crate::connection::{Connection, World};
use crate::ecn::Bits;
use crate::network::{Acknowledgement, Packet, PacketNumber};

/// Windows in a send buffer (`BUFFER_WINDOWS`).
pub(crate) const BUFFER_WINDOWS: u32 = 4;
/// Packets that the scheduler assigns as a unit (`FRAGMENT_PACKETS`).
const FRAGMENT_PACKETS: u64 = 22;
/// Less than this that is not acknowledged ends a burst, bytes (`LITTLE`).
const LITTLE: u64 = 1 << 16;
/// The unit of a burst, bytes (`BURST_UNIT`), and its longest (`LONGEST_BURST`).
const BURST_UNIT: u64 = 4096;
const LONGEST_BURST: u64 = 0x8000;
/// The shares of a burst and of the buffers that may be sent before a fragment of a slower path
/// arrives (`BURST_SHARE`, `BUFFER_SHARE`).
const BURST_SHARE: u64 = 8;
const BUFFER_SHARE: u64 = 2;
/// A path that only the buffers hold is tried again after so many times of the lateness.
const RETRY_TIMES: u64 = 64;
/// Rounds of slow start that are looked ahead.
const ROUNDS: usize = 6;
/// Timeouts in a row after which a sibling is not counted (`DEAD_TIMEOUTS`).
const DEAD_TIMEOUTS: u32 = 2;
/// Packets that are sent without pacing at the start of a path (`tcp_update_skb_after_send`).
const UNPACED_PACKETS: u64 = 10;
/// Time between two probes (`TCP_KEEPIDLE`, `TCP_KEEPINTVL`).
const PROBE_INTERVAL: Time = SECOND;
/// Linux measures times in microseconds.
const PS_PER_US: Time = SECOND / 1_000_000;

/// The state of the program of a path.
#[derive(Debug, Default)]
pub(crate) struct Program {
    /// Since when the path is held.
    held_since: Option<Time>,
    /// The window when the last acknowledgement or timeout was over, packets.
    window: u32,
    /// The round trip ends when something from here on is acknowledged.
    round_end: PacketNumber,
    /// Where the connection had little to send last, units of written data.
    burst_start: u64,
    mean_burst: u64,
    /// The most unsent packets (`TCP_NOTSENT_LOWAT`).
    pub unsent: u32,
    /// Linux' `sk_pacing_rate`, packets/s; 0 while the path is held.
    pub pacing_rate: f64,
    /// Whether the path was ever held, so that Linux paces it.
    is_paced: bool,
    next_send: Time,
    pacing: Timer,
    /// The packets since the window was full, as `tcp_cwnd_validate` remembers it.
    limited: bool,
    most_out: u32,
    limited_end: PacketNumber,
    delivery: Delivery,
    /// Notes of the outstanding packets, from `first` on; `None` for one that has arrived.
    stamps: VecDeque<Option<Stamp>>,
    first: PacketNumber,
    /// The last delivery rate: packets, and the time in which they were delivered, us.
    rate: Option<(u64, u64)>,
    /// Whether the siblings' rules leave the path out.
    left_out: bool,
    probing: Timer,
    /// When the answers to probes come, and when the last came.
    answers: VecDeque<Time>,
    answered_at: Time,
    /// When the path may send: its handshake is over.
    opens_at: Time,
}

/// Bytes of the written data, in units of bursts.
fn units(tcp: &Tcp, written: PacketNumber) -> u64 {
    written * tcp.payload() / BURST_UNIT
}

fn srtt_us(path: &Subflow) -> Option<u64> {
    path.rto.smoothed().map(|srtt| srtt / PS_PER_US)
}

/// The rate at which Linux lets a path send, packets/s (`tcp_update_pacing_rate`).
fn pacing_rate(path: &Subflow, ssthresh: f64) -> f64 {
    let ratio = if f64::from(path.window) < ssthresh / 2.0 {
        2.0
    } else {
        1.2
    };
    let packets = path.window.max(path.sender.outstanding());
    let srtt = path.rto.smoothed().map_or(f64::INFINITY, seconds);
    ratio * f64::from(packets) / srtt
}

impl Program {
    /// Whether the handshake of the path is over.
    pub fn is_open(&self, now: Time) -> bool {
        self.opens_at <= now
    }

    pub fn is_held(&self) -> bool {
        self.held_since.is_some()
    }

    /// Called once per round trip: a burst ends where the connection has little left to send
    /// (`note_burst`). `held` is what is not acknowledged, `buffer` the send buffer, bytes.
    fn note_burst(&mut self, written: u64, held: u64, buffer: u64) {
        if written - self.burst_start > LONGEST_BURST {
            self.burst_start = written - LONGEST_BURST;
        }
        let units = written - self.burst_start;
        if held >= LITTLE.min(buffer / 4) || units == 0 {
            return;
        }
        self.mean_burst = (self.mean_burst + units) / 2;
        self.burst_start = written;
    }

    /// Bytes of this burst so far, or of earlier ones.
    fn burst_bytes(&self, written: u64) -> u64 {
        BURST_UNIT * (written - self.burst_start).max(self.mean_burst)
    }

    /// Time until what the scheduler assigns next has arrived, us (`arrival_us`).
    fn arrival_us(&self, path: &Subflow, at: &Arrival) -> u64 {
        let (mut window, threshold) = (u64::from(at.window), at.threshold);
        let mut packets = FRAGMENT_PACKETS + at.unsent;
        if at.is_own && at.recovering {
            packets += u64::from(path.sender.outstanding());
            window = window.min(threshold);
        }
        if at.is_own && window >= threshold {
            window /= 4;
        }
        window = window.max(1);
        let by_rate = self
            .rate
            .map_or(0, |(delivered, us)| packets * us / delivered);
        let mut eighths = 4;
        for _ in 0..ROUNDS {
            if window >= threshold || packets <= window {
                break;
            }
            packets -= window;
            window = threshold.min(2 * window);
            eighths += 8;
        }
        let by_window = srtt_us(path).unwrap_or(0) * (eighths + 8 * packets / window) / 8;
        if self.is_held() {
            by_rate.max(by_window)
        } else {
            by_window
        }
    }

    /// Notes a packet of the path that was just sent, `again` if not for the first time.
    pub fn note_sent(&mut self, now: Time, path: &Subflow, again: bool) {
        if !again {
            let before = f64::from(path.sender.in_flight() - 1);
            let window = f64::from(path.window);
            let stamp = self.delivery.on_sent(seconds(now), 1.0, before, window);
            self.stamps.push_back(Some(stamp));
        }
        if self.is_paced && self.pacing_rate > 0.0 && path.totals.sent_packets > UNPACED_PACKETS {
            let gap = (SECOND as f64 / self.pacing_rate) as Time;
            let start = self.next_send.max(now);
            self.next_send = start + gap - (gap / 2).min(start - self.next_send);
        }
    }

    /// When the path may send, if that is not now.
    pub fn waits_until(&self, now: Time) -> Option<Time> {
        let is_paced = self.is_paced && self.pacing_rate > 0.0;
        (is_paced && now < self.next_send).then_some(self.next_send)
    }

    /// Whether the window limited the sender in this round trip, where pacing keeps it from being
    /// full all the time (`tcp_cwnd_validate`, `tcp_is_cwnd_limited`).
    pub fn is_window_limited(&mut self, path: &Subflow, ssthresh: f64) -> bool {
        let (full, out) = (!path.has_room(), path.sender.outstanding());
        if !self.is_paced {
            return full;
        }
        let ended = path.sender.una() >= self.limited_end;
        if ended || full || (!self.limited && out > self.most_out) {
            (self.limited, self.most_out) = (full, out);
            self.limited_end = path.sender.next();
        }
        let slow_start = f64::from(path.window) < ssthresh;
        self.limited || (slow_start && path.window < 2 * self.most_out)
    }

    /// Takes the delivery rate from an acknowledgement (`tcp_rate_gen`).
    fn note_delivered(&mut self, now: Time, path: &Subflow, ack: &Acknowledgement, min_rtt: f64) {
        let now_s = seconds(now);
        let above = ack.selective.checked_sub(self.first);
        while self.first < path.sender.una() {
            if let Some(Some(stamp)) = self.stamps.pop_front() {
                self.delivery.on_delivered(now_s, &stamp);
            }
            self.first += 1;
        }
        let place = above.and_then(|_| ack.selective.checked_sub(self.first));
        if let Some(place) = place
            && let Some(stamp) = self.stamps.get_mut(place as usize).and_then(Option::take)
        {
            self.delivery.on_delivered(now_s, &stamp);
        }
        let in_flight = path.sender.in_flight().into();
        if let Some(sample) = self.delivery.sample(now_s, None, in_flight, min_rtt)
            && sample.delivery_rate > 0.0
        {
            self.rate = Some((sample.delivered as u64, (sample.interval * 1e6) as u64));
        }
    }
}

/// What the time of arrival of a path's next data depends on.
struct Arrival {
    window: u32,
    threshold: u64,
    unsent: u64,
    is_own: bool,
    recovering: bool,
}

/// What a program decides by.
pub(crate) struct Decision {
    /// How much later data of the path arrives than that of the fastest, us.
    late_us: u64,
    /// What the siblings send meanwhile, bytes.
    early: u64,
    /// What the connection can spare in one burst, and by its buffers, bytes.
    burst: u64,
    buffers: u64,
}

impl LinuxScheduler {
    /// Holds or releases path `r` (`decide_hold`). `window` and `recovering` are Linux' before a
    /// loss event, if there is one.
    fn decide(
        &mut self,
        paths: &[Subflow],
        controller: &mut AnyController,
        tcp: &Tcp,
        room: u64,
        r: usize,
        now: Time,
        (window, recovering): (u32, bool),
    ) {
        if srtt_us(&paths[r]).is_none() {
            return;
        }
        let decision = self.judge(paths, controller, tcp, room, r, (window, recovering));
        let path = &paths[r];
        let program = &mut self.programs[r];
        let is_late = decision.late_us > 0;
        program.unsent = match window {
            _ if is_late => 2,
            window if f64::from(window) < controller.ssthresh(r) => 2 * window,
            window => window,
        };
        if is_late {
            end_slow_start_at_queue(path, controller, r);
        }
        let spare = (decision.burst / BURST_SHARE).min(decision.buffers / BUFFER_SHARE);
        let Some(since) = program.held_since else {
            if decision.early > spare {
                program.held_since = Some(now);
                program.is_paced = true;
                program.pacing_rate = 0.0;
            }
            return;
        };
        let spare = if f64::from(window) < controller.ssthresh(r) {
            spare * 3 / 4
        } else {
            spare / 2
        };
        let held_us = (now - since) / PS_PER_US;
        let retry = decision.early < decision.burst / BURST_SHARE
            && held_us > RETRY_TIMES * decision.late_us;
        if !is_late || (decision.early < spare && program.rate.is_some()) || retry {
            program.held_since = None;
            let srtt = path.rto.smoothed().map_or(f64::INFINITY, seconds);
            program.pacing_rate = f64::from(window) / srtt;
        }
    }

    fn judge(
        &self,
        paths: &[Subflow],
        controller: &AnyController,
        tcp: &Tcp,
        room: u64,
        r: usize,
        (window, recovering): (u32, bool),
    ) -> Decision {
        let written = units(tcp, self.written());
        let mut burst = self.programs[r].burst_bytes(written);
        let (mut rate, mut fastest_rate, mut fastest_us) = (0, 0, 0);
        let at = |r: usize, is_own: bool| Arrival {
            window: if is_own { window } else { paths[r].window },
            threshold: controller.ssthresh(r).min(f64::from(u32::MAX)) as u64,
            unsent: self.unsent(r) as u64,
            is_own,
            recovering,
        };
        for (other, (path, program)) in paths.iter().zip(&self.programs).enumerate() {
            let counts = path.timeouts_in_a_row() < DEAD_TIMEOUTS && !program.is_held();
            let Some(srtt_us) = srtt_us(path).filter(|_| other != r && counts) else {
                continue;
            };
            let bytes = u64::from(path.window) * tcp.payload();
            let other_rate = bytes * 1_000_000 / srtt_us.max(1);
            rate += other_rate;
            if other_rate > fastest_rate {
                fastest_rate = other_rate;
                fastest_us = program.arrival_us(path, &at(other, false));
                burst = program.burst_bytes(written);
            }
        }
        let own_us = self.programs[r].arrival_us(&paths[r], &at(r, true));
        let late_us = if rate > 0 {
            own_us.saturating_sub(fastest_us)
        } else {
            0
        };
        Decision {
            late_us,
            early: (u128::from(rate) * u128::from(late_us) / 1_000_000) as u64,
            burst,
            buffers: self.largest_buffer(tcp).min(room * tcp.payload()),
        }
    }

    /// The most that was outstanding in the last round trip of a path that is paced.
    #[cfg(test)]
    pub fn most_out(&self, r: usize) -> Option<u32> {
        let program = self.programs.get(r)?;
        program.is_paced.then_some(program.most_out)
    }

    /// The programs of paths that have opened begin, before the scheduler uses the paths.
    fn begin_programs(
        &mut self,
        paths: &[Subflow],
        controller: &mut AnyController,
        tcp: &Tcp,
        room: u64,
        (started_at, now): (Time, Time),
    ) {
        while self.programs.len() < paths.len() {
            let r = self.programs.len();
            let path = &paths[r];
            self.programs.push(Program {
                burst_start: units(tcp, self.written()),
                window: path.window,
                round_end: path.sender.next(),
                unsent: u32::MAX,
                pacing_rate: pacing_rate(path, controller.ssthresh(r)),
                answered_at: now,
                opens_at: path.route.opens_at(started_at),
                ..Program::default()
            });
            self.decide(paths, controller, tcp, room, r, now, (path.window, false));
        }
    }
}

/// Slow start ends where a queue begins (`end_slow_start_at_queue`).
fn end_slow_start_at_queue(path: &Subflow, controller: &mut AnyController, r: usize) {
    let base_rtt = controller.path(r).base_rtt;
    let srtt = path.rto.smoothed().map_or(0.0, seconds);
    let window = f64::from(path.window);
    if window < controller.ssthresh(r) && srtt > base_rtt + (base_rtt / 8.0).max(0.004) {
        controller.set_ssthresh(r, window);
    }
}

/// A connection's side of the programs.
impl Connection {
    /// The receive window, packets.
    fn receive_window(&self, tcp: &Tcp) -> u64 {
        tcp.receive_packets.into()
    }

    /// The programs of paths that have just opened decide.
    pub(super) fn begin_programs(&mut self, scheduler: &mut LinuxScheduler, world: &mut World) {
        if !scheduler.has_programs {
            return;
        }
        let room = self.receive_window(world.tcp);
        let (paths, controller) = (&self.paths, &mut self.controller);
        let times = (self.started_at, world.now);
        scheduler.begin_programs(paths, controller, world.tcp, room, times);
        // The acknowledgement that ends the handshake.
        for r in 1..self.paths.len() {
            let program = &scheduler.programs[r];
            if program.opens_at == world.now && program.is_held() {
                let window = self.paths[r].window;
                self.decide(scheduler, world, r, (window, false));
            }
        }
    }

    /// An acknowledgement of path `r` was processed; `loss` if it began a recovery.
    #[inline(never)]
    pub(super) fn run_program(
        &mut self,
        world: &mut World,
        r: usize,
        ack: &Acknowledgement,
        loss: bool,
    ) {
        let Some(mut scheduler) = self.linux_scheduler.take() else {
            return;
        };
        if let Some(program) = scheduler.programs.get_mut(r) {
            let path = &self.paths[r];
            let base_rtt = self.controller.path(r).base_rtt;
            program.note_delivered(world.now, path, ack, base_rtt);
            let mut decides = program.is_held() || loss;
            if path.sender.una() > program.round_end {
                program.round_end = path.sender.next();
                let held = (scheduler.written() - self.data_una) * world.tcp.payload();
                let written = units(world.tcp, scheduler.written());
                let buffer = scheduler.buffer();
                scheduler.programs[r].note_burst(written, held, buffer);
                decides = true;
            }
            if decides {
                let before = if loss {
                    (scheduler.programs[r].window, false)
                } else {
                    (path.window, path.sender.is_recovering())
                };
                self.decide(&mut scheduler, world, r, before);
            }
            let (path, program) = (&self.paths[r], &mut scheduler.programs[r]);
            program.window = path.window;
            if !program.is_held() {
                program.pacing_rate = pacing_rate(path, self.controller.ssthresh(r));
            }
        }
        self.linux_scheduler = Some(scheduler);
    }

    /// A loss event of path `r` without an acknowledgement; `timeout` if that was the retransmission
    /// timer's.
    pub(super) fn tell_program(&mut self, world: &mut World, r: usize, timeout: bool) {
        let Some(mut scheduler) = self.linux_scheduler.take() else {
            return;
        };
        if let Some(program) = scheduler.programs.get_mut(r) {
            let window = self.paths[r].window;
            let before = if timeout { window } else { program.window };
            program.window = window;
            self.decide(&mut scheduler, world, r, (before, false));
        }
        self.linux_scheduler = Some(scheduler);
    }

    fn decide(
        &mut self,
        scheduler: &mut LinuxScheduler,
        world: &mut World,
        r: usize,
        before: (u32, bool),
    ) {
        let room = self.receive_window(world.tcp);
        let (paths, controller) = (&self.paths, &mut self.controller);
        scheduler.decide(paths, controller, world.tcp, room, r, world.now, before);
        self.paths[r].window = self.controller.window(r) as u32;
        self.follow(scheduler, world, r);
    }

    /// Probes a path that is held, and tells the siblings' rules of one that is held and idle.
    pub(super) fn follow(&mut self, scheduler: &mut LinuxScheduler, world: &mut World, r: usize) {
        let Some(program) = scheduler.programs.get_mut(r) else {
            return;
        };
        let path = &self.paths[r];
        let left_out = program.is_held() && path.sender.outstanding() == 0;
        if left_out != program.left_out {
            program.left_out = left_out;
            if left_out {
                self.controller.on_silence(r);
            } else if path.timeouts_in_a_row() < DEAD_TIMEOUTS {
                self.controller.set_silent(r, false);
            }
        }
        if program.is_held() && program.probing.deadline().is_none() {
            let heard = path.last_acked.max(program.answered_at);
            let time = (heard + PROBE_INTERVAL).max(world.now);
            if let Some(time) = program.probing.start(time) {
                self.schedule_probe(world, r, time);
            }
        }
    }

    fn schedule_probe(&self, world: &mut World, r: usize, time: Time) {
        let event = Event::Probe {
            connection: self.number,
            path: r as u16,
        };
        world.network.calendar.push(time, event);
    }

    /// A probe reaches the receiver, which answers it over the path.
    pub fn answer_probe(&mut self, world: &mut World, r: u16) {
        let index = usize::from(r);
        let line = self.paths[index].route.return_line;
        let time = world.now + world.network.return_delay(line);
        if let Some(scheduler) = &mut self.linux_scheduler {
            scheduler.programs[index].answers.push_back(time);
        }
        self.schedule_probe(world, index, time);
    }

    /// A held path may be probed, or the answer to a probe has come.
    pub fn on_probing_timer(&mut self, world: &mut World, r: u16) {
        let index = usize::from(r);
        let Some(program) = self.program(index) else {
            return;
        };
        if program
            .answers
            .pop_front_if(|time| *time == world.now)
            .is_some()
        {
            program.answered_at = world.now;
            self.in_network -= 1;
            return self.on_answer(world, index);
        }
        match program.probing.on_event(world.now) {
            TimerEvent::Stale => {}
            TimerEvent::Later(time) => self.schedule_probe(world, index, time),
            TimerEvent::Expired if program.is_held() && !self.is_over() => {
                self.probe(world, index);
            }
            TimerEvent::Expired => {}
        }
    }

    fn on_answer(&mut self, world: &mut World, r: usize) {
        let Some(mut scheduler) = self.linux_scheduler.take() else {
            return;
        };
        let path = &self.paths[r];
        if scheduler.programs[r].is_held() {
            let before = (path.window, path.sender.is_recovering());
            self.decide(&mut scheduler, world, r, before);
        }
        self.linux_scheduler = Some(scheduler);
        self.fill_windows(world);
    }

    /// Sends a probe, which repeats what is acknowledged, unless the path has data or an acknowledgement was less than a second ago.
    fn probe(&mut self, world: &mut World, r: usize) {
        let Some(scheduler) = &mut self.linux_scheduler else {
            return;
        };
        let path = &self.paths[r];
        let has_data = path.sender.outstanding() > 0 || scheduler.unsent(r) > 0;
        let program = &mut scheduler.programs[r];
        let heard = path.last_acked.max(program.answered_at) + PROBE_INTERVAL;
        let is_due = !has_data && heard <= world.now;
        let next = match heard > world.now {
            true => heard,
            false => world.now + PROBE_INTERVAL,
        };
        if let Some(time) = program.probing.start(next) {
            self.schedule_probe(world, r, time);
        }
        if is_due {
            let path = &mut self.paths[r];
            path.totals.sent_packets += 1;
            path.totals.retransmitted_packets += 1;
            let packet = Packet {
                sent_at: world.now,
                connection: self.number,
                sequence: path.sender.una(),
                data_sequence: 0,
                hop: path.route.first_hop,
                path: r as u16,
                bytes: world.tcp.ack_bytes,
                bits: Bits::PROBE,
            };
            self.in_network += 1;
            self.offer(world, packet);
        }
    }

    /// The program of a path at an event of its timers: by then the connection may be over, or
    /// another.
    fn program(&mut self, r: usize) -> Option<&mut Program> {
        self.paths.get(r)?;
        self.linux_scheduler.as_mut()?.programs.get_mut(r)
    }

    /// The meaning of a pacing event for the program of a path, if it has one.
    pub(super) fn program_paces(&mut self, now: Time, r: usize) -> Option<TimerEvent> {
        Some(self.program(r)?.pacing.on_event(now))
    }

    /// Whether path `r` must wait because it is paced; its timer runs then.
    pub(super) fn waits(
        &self,
        scheduler: &mut LinuxScheduler,
        world: &mut World,
        r: usize,
    ) -> bool {
        let Some(program) = scheduler.programs.get_mut(r) else {
            return false;
        };
        let Some(until) = program.waits_until(world.now) else {
            return false;
        };
        if let Some(time) = program.pacing.start(until) {
            self.schedule_pacing(world, r, time);
        }
        true
    }
}

#[cfg(test)]
mod tests;
