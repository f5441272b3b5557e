//! Hold-back: the programs of `anabranch-kernel` on a Linux host hold back a path whose data would
//! arrive too late, and limit its unsent data. `crates/kernel/kernel/bpf/hold.h` says why, and has
//! the names and constants.
//!
//! A held path has a pacing rate of 0, so that the scheduler leaves it out, and is probed once
//! per second by TCP's keepalive. The program decides anew at the end of each round trip, at a
//! loss, and at each answer. Paths of 1 ms and more are paced, shorter ones left to Linux.

use anabranch_control::AnyController;
use anabranch_net::Time;
use anabranch_scenario::time::{SECOND, seconds};

use crate::calendar::Event;
use crate::connection::program::{Arrival, PS_PER_US, Program, pacing_rate, srtt_us, units};
use crate::connection::scheduler::linux::{LinuxScheduler, largest_buffer};
use crate::connection::subflow::Subflow;
use crate::connection::tcp::Tcp;
use crate::connection::timers::TimerEvent;
use crate::connection::{Connection, World};
use crate::ecn::Bits;
use crate::network::{Acknowledgement, Packet};

/// The shares of a burst and of the buffers that may be sent before a fragment of a slower path
/// arrives (`BURST_SHARE`, `BUFFER_SHARE`).
const BURST_SHARE: u64 = 8;
const BUFFER_SHARE: u64 = 2;
/// A path that only the buffers hold is tried again after this multiple of the lateness.
const RETRY_TIMES: u64 = 64;
/// A path with a shorter RTT is left to Linux, us (`SHORTEST_RTT_US`).
const SHORTEST_RTT_US: u64 = 1000;
/// Timeouts in a row after which a sibling is not counted (`DEAD_TIMEOUTS`).
const DEAD_TIMEOUTS: u32 = 2;
/// Time between two probes (`TCP_KEEPIDLE`, `TCP_KEEPINTVL`).
const PROBE_INTERVAL: Time = SECOND;

/// The surroundings of a program: the connection's paths, the endpoints' keys, the time.
#[derive(Clone, Copy)]
struct Around<'a> {
    paths: &'a [Subflow],
    tcp: &'a Tcp,
    now: Time,
}

impl<'a> Around<'a> {
    fn new(paths: &'a [Subflow], world: &World<'a>) -> Around<'a> {
        Around {
            paths,
            tcp: world.tcp,
            now: world.now,
        }
    }
}

/// The quantities by which a program decides.
struct Decision {
    /// Lateness of the path's data beside that of the fastest, us.
    late_us: u64,
    /// Data that the siblings send meanwhile, bytes.
    early: u64,
    /// Data of one burst, and of the buffers, bytes.
    burst: u64,
    buffers: u64,
}

impl LinuxScheduler {
    /// Holds or releases path `r` (`decide_hold`). `window` and `recovering` are Linux' before a
    /// loss event, if there is one.
    fn decide(
        &mut self,
        around: &Around,
        controller: &mut AnyController,
        r: usize,
        (window, recovering): (u32, bool),
    ) {
        let (path, now) = (&around.paths[r], around.now);
        let Some(srtt) = srtt_us(path) else {
            return;
        };
        let base_us = (controller.path(r).base_rtt * 1e6) as u64;
        if !self.programs[r].is_held() && srtt.min(base_us) < SHORTEST_RTT_US {
            return;
        }
        let decision = self.judge(around, controller, r, (window, recovering));
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
        around: &Around,
        controller: &AnyController,
        r: usize,
        (window, recovering): (u32, bool),
    ) -> Decision {
        let Around { paths, tcp, .. } = *around;
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
            let counts = path.backoff < DEAD_TIMEOUTS && !program.is_held();
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
            buffers: largest_buffer(tcp).min(u64::from(tcp.receive_packets) * tcp.payload()),
        }
    }

    /// The most that was outstanding in the last round trip of a path that is paced.
    #[cfg(test)]
    pub fn most_out(&self, r: usize) -> Option<u32> {
        Some(self.programs.get(r)?.most_out)
    }

    /// The programs of paths that have opened begin, before the scheduler uses the paths.
    fn begin_programs(
        &mut self,
        around: &Around,
        controller: &mut AnyController,
        started_at: Time,
    ) {
        let Around { paths, tcp, .. } = *around;
        while self.programs.len() < paths.len() {
            let r = self.programs.len();
            let path = &paths[r];
            self.programs.push(Program {
                burst_start: units(tcp, self.written()),
                window: path.window,
                round_end: path.sender.next(),
                unsent: u32::MAX,
                is_paced: srtt_us(path).is_some_and(|srtt| srtt >= SHORTEST_RTT_US),
                pacing_rate: pacing_rate(path, controller.ssthresh(r)),
                answered_at: around.now,
                opens_at: path.route.opens_at(started_at),
                ..Program::default()
            });
            let now = (path.window, false);
            self.programs[r].began_late =
                srtt_us(path).is_some() && self.judge(around, controller, r, now).late_us > 0;
            self.decide(around, controller, r, now);
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
    /// The programs of paths that have just opened decide.
    pub(super) fn begin_programs(&mut self, scheduler: &mut LinuxScheduler, world: &mut World) {
        if !scheduler.has_programs {
            return;
        }
        let around = Around::new(&self.paths, world);
        scheduler.begin_programs(&around, &mut self.controller, self.started_at);
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

    /// A loss event of path `r` without an acknowledgement; `timeout` if it was the retransmission
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
        let around = Around::new(&self.paths, world);
        scheduler.decide(&around, &mut self.controller, r, before);
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
            } else if path.backoff < DEAD_TIMEOUTS {
                self.controller.set_silent(r, false);
            }
        }
        if program.is_held() && program.probing.deadline().is_none() {
            let heard = path.last_acked.max(program.answered_at);
            let time = (heard + PROBE_INTERVAL).max(world.now);
            let time = program.probing.start(time);
            self.schedule(world, Event::Probe, r, time);
        }
    }

    /// A probe reaches the receiver, which answers it over the path.
    pub fn answer_probe(&mut self, world: &mut World, r: usize) {
        let line = self.paths[r].route.return_line;
        let time = world.now + world.network.return_delay(line);
        if let Some(scheduler) = &mut self.linux_scheduler {
            scheduler.programs[r].answers.push_back(time);
        }
        self.schedule(world, Event::Probe, r, Some(time));
    }

    /// A held path may be probed, or the answer to a probe has come.
    pub fn on_probing_timer(&mut self, world: &mut World, r: usize) {
        let Some(program) = self.program(r) else {
            return;
        };
        if program.answers.front() == Some(&world.now) {
            program.answers.pop_front();
            program.answered_at = world.now;
            self.in_network -= 1;
            return self.on_answer(world, r);
        }
        match program.probing.on_event(world.now) {
            TimerEvent::Stale => {}
            TimerEvent::Later(time) => self.schedule(world, Event::Probe, r, Some(time)),
            TimerEvent::Expired if program.is_held() && !self.is_over() => self.probe(world, r),
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

    /// Sends a probe, which repeats what is acknowledged, unless the path has data or an
    /// acknowledgement was less than a second ago.
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
        let time = program.probing.start(next);
        self.schedule(world, Event::Probe, r, time);
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

    /// The program of a path at an event of its timers: by then the connection may be another.
    fn program(&mut self, r: usize) -> Option<&mut Program> {
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
        let time = program.pacing.start(until);
        self.schedule(world, Event::Pace, r, time);
        true
    }
}

#[cfg(test)]
mod tests;
