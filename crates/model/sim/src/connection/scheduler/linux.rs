//! State of Linux' scheduler of Multipath TCP (net/mptcp/protocol.c of 6.18): its send buffer, the
//! queues of the paths, and the timer after which it sends data again.
//!
//! The application fills a send buffer, which holds data until it is acknowledged in order. From
//! there the scheduler assigns bursts to the queue of a path, whatever the path's window, as far as
//! the path's own buffer has room; what is assigned stays with the path. So one path can hold what
//! all others wait for, and the buffer fills. Then a path without data sends the oldest data again.

use std::collections::VecDeque;
use std::iter::repeat;

use anabranch_control::AnyController;
use anabranch_net::Time;

use crate::calendar::Event;
use crate::connection::program::{BUFFER_WINDOWS, FIRST_BUFFER, Program};
use crate::connection::subflow::Subflow;
use crate::connection::tcp::Tcp;
use crate::connection::timers::{Timer, TimerEvent};
use crate::connection::{Connection, World};
use crate::network::PacketNumber;

/// The most that is assigned to a path at once, bytes (`MPTCP_SEND_BURST_SIZE`).
const BURST: u64 = 1 << 16;
/// Size of the fragments in which data is kept, bytes (`SKB_FRAG_PAGE_ORDER`): a path's buffer is
/// checked between two of them, and data is sent again one fragment at a time.
const FRAGMENT: u64 = 1 << 15;
/// Smallest window for which a path's buffer is sized, packets (`TCP_INIT_CWND`).
const LEAST_WINDOW: u32 = 10;
/// Bytes that a connection's buffer holds beyond its paths' buffers (`tcp_wmem[0]`).
const OWN: u64 = 4096;

/// Assigns a connection's data to its paths.
#[derive(Debug, Default)]
pub(crate) struct LinuxScheduler {
    /// The application has written the data below this.
    written: PacketNumber,
    queues: Vec<SendQueue>,
    /// Whether the connection runs a program of `anabranch-kernel`.
    pub has_programs: bool,
    /// The programs of the paths, if it does.
    pub programs: Vec<Program>,
    /// Data below this was acknowledged when the timer was last started or stopped.
    una: PacketNumber,
    /// Duration of the timer when it starts next (`timer_ival`).
    interval: Time,
    /// When it expires, an idle path sends the oldest data again.
    pub resend_timer: Timer,
}

/// Data that waits at a path.
#[derive(Debug, Default)]
struct SendQueue {
    /// Data assigned to the path and not sent on it yet, and whether the connection sent it before.
    packets: VecDeque<(PacketNumber, bool)>,
    /// The path's rate, packets/s, averaged whenever the path is chosen (`avg_pacing_rate`); 0
    /// before the first RTT sample.
    rate: f64,
    /// While the path's own timer does not count: when its last acknowledgement before came
    /// (`stale_count`, `stale_rcv_tstamp`).
    disregarded: Option<Time>,
    /// The path's send buffer, bytes. It grows with the window and never shrinks.
    buffer: u64,
}

/// The limit of a path's buffer, bytes: the namespace's (`tcp_wmem[2]`), at most twice the full
/// packets that the receive buffer holds, as the lab sets it.
pub(crate) fn largest_buffer(tcp: &Tcp) -> u64 {
    let taken = 2 * u64::from(tcp.keys.receive_buffer_packets.get()) * u64::from(tcp.packet_bytes);
    taken.min(tcp.keys.wmem_max_bytes.get().into())
}

/// Full packets in `bytes` of payload, at least one.
fn packets(tcp: &Tcp, bytes: u64) -> u32 {
    (bytes / tcp.payload()).max(1) as u32
}

/// Packets in a burst.
pub(crate) fn burst(tcp: &Tcp) -> u32 {
    packets(tcp, BURST)
}

/// Packets in a fragment: no more than may be unsent, because the application's data is copied into
/// the connection's buffer so far only (`mptcp_send_limit`).
pub(crate) fn fragment(tcp: &Tcp) -> u32 {
    packets(tcp, FRAGMENT).min(tcp.notsent)
}

impl SendQueue {
    /// Lets the buffer grow with the window, up to its limit (`tcp_sndbuf_expand`).
    fn expand(&mut self, tcp: &Tcp, windows: u32, window: u32) {
        let window = u64::from(window.max(LEAST_WINDOW));
        let buffer = u64::from(windows) * window * tcp.keys.packet_memory();
        self.buffer = self.buffer.max(buffer.min(largest_buffer(tcp)));
    }
}

impl LinuxScheduler {
    /// The scheduler of a new connection.
    pub fn new(has_programs: bool) -> LinuxScheduler {
        LinuxScheduler {
            has_programs,
            ..LinuxScheduler::default()
        }
    }

    /// Whether every queue is empty. Assigned data is sent even if another path sent it too.
    pub fn is_empty(&self) -> bool {
        self.queues.iter().all(|queue| queue.packets.is_empty())
    }

    /// The application has written the data below this.
    pub fn written(&self) -> PacketNumber {
        self.written
    }

    /// The application writes: it wakes when a third of the buffer is free, and fills the buffer.
    /// `una` is the first data not acknowledged, `end` the end of the application's data.
    pub fn write(&mut self, paths: &[Subflow], tcp: &Tcp, una: PacketNumber, end: PacketNumber) {
        self.queues.resize_with(paths.len(), SendQueue::default);
        let late = self.programs.iter().map(|program| program.began_late);
        let late = late.chain(repeat(!self.has_programs));
        for ((queue, path), is_late) in self.queues.iter_mut().zip(paths).zip(late) {
            let windows = match is_late {
                true => tcp.keys.send_buffer_windows.get(),
                false => BUFFER_WINDOWS.max(FIRST_BUFFER / path.window.max(LEAST_WINDOW)),
            };
            queue.expand(tcp, windows, path.window);
        }
        let buffer = packets(tcp, self.buffer());
        let held = self.written.saturating_sub(una);
        if held * 3 <= u64::from(buffer) * 2 {
            let room_end = una.saturating_add(PacketNumber::from(buffer));
            self.written = self.written.max(room_end.min(end));
        }
    }

    /// The connection's send buffer, bytes.
    pub fn buffer(&self) -> u64 {
        OWN + self.queues.iter().map(|queue| queue.buffer).sum::<u64>()
    }

    /// Packets in a path's queue.
    pub fn unsent(&self, r: usize) -> usize {
        self.queues.get(r).map_or(0, |queue| queue.packets.len())
    }

    /// The application has written this much, and a path has this rate.
    #[cfg(test)]
    pub fn write_at_once(&mut self, paths: &[Subflow], written: PacketNumber) {
        self.queues.resize_with(paths.len(), SendQueue::default);
        self.written = written;
    }

    #[cfg(test)]
    pub fn set_rate(&mut self, r: usize, rate: f64) {
        self.queues[r].rate = rate;
    }

    /// Packets of a path in flight and in its queue.
    fn load(&self, paths: &[Subflow], r: usize) -> u32 {
        paths[r].sender.outstanding() + self.queues[r].packets.len() as u32
    }

    /// Whether a path's buffer has room (`sk_stream_memory_free`).
    pub fn has_room(&self, paths: &[Subflow], tcp: &Tcp, r: usize) -> bool {
        let queue = &self.queues[r];
        let own = self.programs.get(r).map_or(u32::MAX, |it| it.unsent);
        (queue.packets.len() as u32) < tcp.notsent.min(own)
            && self.load(paths, r) < packets(tcp, queue.buffer)
    }

    /// The path that would finish its load first (`mptcp_subflow_get_send`); those without an RTT
    /// come before all others.
    pub fn soonest(
        &mut self,
        paths: &[Subflow],
        controller: &AnyController,
        now: Time,
    ) -> Option<usize> {
        if self.has_programs {
            return self.soonest_of_paced(paths, now);
        }
        for (r, queue) in self.queues.iter_mut().enumerate() {
            let path = controller.path(r);
            if queue.rate == 0.0 && path.rtt.is_finite() {
                queue.rate = path.rate();
            }
        }
        let linger = |r: &usize| {
            let rate = self.queues[*r].rate;
            f64::from(self.load(paths, *r)) / if rate > 0.0 { rate } else { f64::MAX }
        };
        (0..self.queues.len()).min_by(|a, b| linger(a).total_cmp(&linger(b)))
    }

    /// The same by Linux' pacing rates, with which a path that is held has none.
    fn soonest_of_paced(&mut self, paths: &[Subflow], now: Time) -> Option<usize> {
        for (queue, program) in self.queues.iter_mut().zip(&self.programs) {
            if queue.rate == 0.0 {
                queue.rate = program.pacing_rate;
            }
        }
        let linger = |r: &usize| f64::from(self.load(paths, *r)) / self.queues[*r].rate;
        let open = (0..self.queues.len()).filter(|&r| self.programs[r].is_open(now));
        let paced = open.filter(|&r| self.queues[r].rate > 0.0);
        paced.min_by(|a, b| linger(a).total_cmp(&linger(b)))
    }

    /// Averages the rate of a path that is chosen: what waits at it counts with the average so far,
    /// the burst with the `present` rate, packets/s.
    pub fn average_rate(&mut self, paths: &[Subflow], tcp: &Tcp, r: usize, present: f64) {
        let present = self.programs.get(r).map_or(present, |it| it.pacing_rate);
        let (load, burst) = (f64::from(self.load(paths, r)), f64::from(burst(tcp)));
        let queue = &mut self.queues[r];
        if queue.rate > 0.0 {
            queue.rate = (queue.rate * load + present * burst) / (load + burst);
        }
    }

    /// Assigns new data to a path.
    pub fn assign(&mut self, r: usize, data: PacketNumber) {
        self.queues[r].packets.push_back((data, false));
    }

    /// Takes the next data of a path's queue, and whether the connection sent it before.
    pub fn take(&mut self, r: usize) -> Option<(PacketNumber, bool)> {
        self.queues[r].packets.pop_front()
    }

    /// Sets how long the timer lasts when it starts next, as long as the longest of the paths' own
    /// (`__mptcp_set_timeout`). Linux does so only where it looks for a path for data: in a stall,
    /// in which there is nothing to assign, the length stays.
    pub fn set_interval(&mut self, paths: &[Subflow], now: Time, min_rto: Time) {
        let counted = paths.iter().zip(&self.queues);
        let counted = counted.filter(|(_, queue)| queue.disregarded.is_none());
        let longest = counted.filter_map(|(path, _)| path.first_timer()).max();
        let interval = longest.map_or(0, |end| end.saturating_sub(now));
        self.interval = if interval > 0 { interval } else { min_rto };
    }

    /// Starts the timer anew whenever data was acknowledged (`mptcp_reset_rtx_timer`). `una` and
    /// `next` are the first data not acknowledged and the first not sent. Gives the time at which a
    /// timer event must be scheduled.
    pub fn restart_timer(
        &mut self,
        una: PacketNumber,
        next: PacketNumber,
        now: Time,
    ) -> Option<Time> {
        if una > self.una || una == next {
            self.una = una;
            self.resend_timer.stop();
        }
        if self.resend_timer.deadline().is_some() || self.una >= next {
            return None;
        }
        self.resend_timer.start(now + self.interval)
    }

    /// The timer has expired (`mptcp_pm_subflow_chk_stale`). The timers of paths with data do not
    /// count from now on. They count again if it expires once more, and something was acknowledged
    /// on the path in between.
    pub fn on_expired(&mut self, paths: &[Subflow]) {
        for (r, path) in paths.iter().enumerate() {
            if self.load(paths, r) > 0 {
                let disregarded = &mut self.queues[r].disregarded;
                *disregarded = match *disregarded {
                    Some(before) if before < path.last_acked => None,
                    _ => Some(path.last_acked),
                };
            }
        }
    }

    /// Assigns the oldest data to a path without data (`__mptcp_retrans`).
    pub fn resend(
        &mut self,
        paths: &[Subflow],
        tcp: &Tcp,
        (una, next): (PacketNumber, PacketNumber),
        now: Time,
    ) {
        let open = |r: usize| self.programs.get(r).is_none_or(|it| it.is_open(now));
        let idle = (0..self.queues.len()).find(|&r| self.load(paths, r) == 0 && open(r));
        if let Some(r) = idle {
            let fragment = PacketNumber::from(fragment(tcp));
            let end = (una / fragment + 1) * fragment;
            let oldest = (una..end.min(next)).map(|data| (data, true));
            self.queues[r].packets.extend(oldest);
        }
    }
}

/// The sending side where this scheduler assigns data to paths.
impl Connection {
    /// Fills every path's window.
    pub(crate) fn send_as_linux(&mut self, world: &mut World) {
        let Some(mut scheduler) = self.linux_scheduler.take() else {
            return;
        };
        self.begin_programs(&mut scheduler, world);
        scheduler.write(&self.paths, world.tcp, self.data_una, self.data_end);
        self.assign(&mut scheduler, world);
        for r in 0..self.paths.len() {
            self.send_queued(&mut scheduler, world, r);
            self.follow(&mut scheduler, world, r);
        }
        let event_at = scheduler.restart_timer(self.data_una, self.data_next, world.now);
        if let Some(time) = event_at {
            let event = Event::Resend(self.number);
            world.network.calendar.push(time, event);
        }
        self.linux_scheduler = Some(scheduler);
    }

    /// Assigns data in bursts, while the path that would finish first has room. A path sends once
    /// the next one is chosen, so that its timer starts after that (`mptcp_push_release`).
    fn assign(&mut self, scheduler: &mut LinuxScheduler, world: &mut World) {
        let min_rto = world.tcp.min_rto;
        let mut chosen = None;
        while self.data_next < scheduler.written() {
            scheduler.set_interval(&self.paths, world.now, min_rto);
            let soonest = scheduler.soonest(&self.paths, &self.controller, world.now);
            let Some(r) = soonest.filter(|&r| scheduler.has_room(&self.paths, world.tcp, r)) else {
                return;
            };
            if let Some(before) = chosen.replace(r).filter(|&before| before != r) {
                self.send_queued(scheduler, world, before);
            }
            let rate = self.controller.path(r).rate();
            scheduler.average_rate(&self.paths, world.tcp, r, rate);
            let mut left = burst(world.tcp);
            while left > 0 && scheduler.has_room(&self.paths, world.tcp, r) {
                scheduler.set_interval(&self.paths, world.now, min_rto);
                for _ in 0..left.min(fragment(world.tcp)) {
                    let Some(data) = self.next_new(world.tcp, scheduler.written()) else {
                        return;
                    };
                    scheduler.assign(r, data);
                }
                left -= left.min(fragment(world.tcp));
            }
        }
    }

    /// Sends what waits at a path as far as its window has room.
    fn send_queued(&mut self, scheduler: &mut LinuxScheduler, world: &mut World, r: usize) {
        while self.paths[r].has_room() && !self.waits(scheduler, world, r) {
            let again = self.retransmit(world, r);
            if !again {
                let Some((data, again)) = scheduler.take(r) else {
                    break;
                };
                self.paths[r].totals.retransmitted_packets += u64::from(again);
                self.transmit::<true>(world, r, data, None);
            }
            if let Some(program) = scheduler.programs.get_mut(r) {
                program.note_sent(world.now, &self.paths[r], again);
            }
        }
        let path = &mut self.paths[r];
        path.window_limited = match scheduler.programs.get_mut(r) {
            Some(program) => program.is_window_limited(path, self.controller.ssthresh(r)),
            None => !path.has_room(),
        };
    }

    /// The event of the timer after which an idle path sends the oldest data again.
    pub fn on_resend_timer(&mut self, world: &mut World) {
        // As for the other timers: this may be another connection by now.
        let Some(scheduler) = &mut self.linux_scheduler else {
            return;
        };
        match scheduler.resend_timer.on_event(world.now) {
            TimerEvent::Stale => {}
            TimerEvent::Later(time) => {
                let event = Event::Resend(self.number);
                world.network.calendar.push(time, event);
            }
            TimerEvent::Expired => {
                scheduler.on_expired(&self.paths);
                let data = (self.data_una, self.data_next);
                scheduler.resend(&self.paths, world.tcp, data, world.now);
                self.send_as_linux(world);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_scenario::Count;
    use anabranch_scenario::time::from_seconds;

    use super::*;
    use crate::connection::subflow::Route;

    /// Linux' floor of a timeout above the RTT.
    const MIN_RTO: Time = from_seconds(0.2);

    /// A path whose own timer expires at this time, s.
    fn path(timeout_s: f64) -> Subflow {
        let tcp = Tcp::new(&anabranch_scenario::Tcp::default());
        let mut path = Subflow::new(Route::default(), &tcp, 10, 0);
        path.timer.start(from_seconds(timeout_s));
        path
    }

    /// A scheduler of two paths that each have a packet in their queues.
    fn busy() -> LinuxScheduler {
        let mut scheduler = LinuxScheduler::default();
        scheduler.queues.resize_with(2, SendQueue::default);
        for r in 0..2 {
            scheduler.assign(r, r as PacketNumber);
        }
        scheduler
    }

    /// The time at which an idle path sends the oldest data again, ms, if data up to `una`, of ten
    /// packets, is acknowledged at `now_s`.
    fn resends_at_ms(scheduler: &mut LinuxScheduler, una: PacketNumber, now_s: f64) -> Option<f64> {
        scheduler.restart_timer(una, 10, from_seconds(now_s));
        let deadline = scheduler.resend_timer.deadline()?;
        Some((anabranch_scenario::time::seconds(deadline) * 1e3).round())
    }

    fn count(number: f64) -> Count {
        Count::try_from(number).expect("a whole number")
    }

    /// `ss -m` on Linux 6.18 shows for paths with an MSS of 1448 bytes `tb46080` at first,
    /// `tb87552` once the window was 19, and no less after that.
    #[test]
    fn a_path_has_the_buffer_that_linux_gives_it() {
        let tcp = Tcp::new(&anabranch_scenario::Tcp::default());
        let mut queue = SendQueue::default();
        let buffers = [1, 19, 3].map(|window| {
            queue.expand(&tcp, 2, window);
            queue.buffer
        });
        assert_eq!(buffers, [46080, 87552, 87552]);
    }

    /// 16 windows of 10 packets of 2304 bytes, as `ss -m` shows for the kernel's programs;
    /// no more than twice 100 packets of 1500 bytes where the receive buffer has 100, and no more
    /// than the namespace allows.
    #[test]
    fn a_path_has_a_buffer_of_as_many_windows_as_the_scenario_says() {
        let mut tcp = Tcp::new(&anabranch_scenario::Tcp::default());
        let mut queue = SendQueue::default();
        queue.expand(&tcp, 16, 10);
        assert_eq!(queue.buffer, 368_640);
        tcp.keys.receive_buffer_packets = count(100.0);
        let mut queue = SendQueue::default();
        queue.expand(&tcp, 16, 10);
        assert_eq!(queue.buffer, 300_000);
        tcp.keys.wmem_max_bytes = count(200_000.0);
        let mut queue = SendQueue::default();
        queue.expand(&tcp, 16, 10);
        assert_eq!(queue.buffer, 200_000);
    }

    /// 32 kB are 22 payloads of 1448 bytes, and 16 384 bytes 11.3: the path gets a twelfth packet
    /// as long as less than the limit is unsent, as in Linux.
    #[test]
    fn a_fragment_is_no_longer_than_what_may_be_unsent() {
        let mut tcp = Tcp::new(&anabranch_scenario::Tcp::default());
        assert_eq!(fragment(&tcp), 22);
        tcp.notsent = 12;
        assert_eq!(fragment(&tcp), 12);
    }

    /// When data is assigned, at 100 ms, the longest timer has 300 ms left. Then there is nothing
    /// to assign, and packets of the slow path arrive at 250 and 440 ms, each of which starts that
    /// path's timer of 600 ms anew. The scheduler's lasts 300 ms, as when data was last assigned.
    #[test]
    fn in_a_stall_the_timer_restarts_with_the_interval_it_had() {
        let mut scheduler = busy();
        let mut paths = [path(0.3), path(0.4)];
        scheduler.set_interval(&paths, from_seconds(0.1), MIN_RTO);
        assert_eq!(resends_at_ms(&mut scheduler, 0, 0.1), Some(400.0));
        for (una, now_s, expected) in [(1, 0.25, 550.0), (2, 0.44, 740.0)] {
            paths[1].timer.start(from_seconds(now_s + 0.6));
            assert_eq!(resends_at_ms(&mut scheduler, una, now_s), Some(expected));
        }
        // Nothing new acknowledged: the timer runs on. Once data is assigned again, at 500 ms, the
        // slow path's timer has 540 ms left.
        assert_eq!(resends_at_ms(&mut scheduler, 2, 0.48), Some(740.0));
        scheduler.set_interval(&paths, from_seconds(0.5), MIN_RTO);
        assert_eq!(resends_at_ms(&mut scheduler, 3, 0.5), Some(1040.0));
        assert_eq!(resends_at_ms(&mut scheduler, 10, 0.51), None);
    }

    /// The floor of 200 ms, where every path's timer is over or off.
    #[test]
    fn without_a_timer_of_a_path_the_interval_is_the_floor() {
        let mut scheduler = busy();
        let mut off = path(0.9);
        off.timer.stop();
        scheduler.set_interval(&[path(0.05), off], from_seconds(0.1), MIN_RTO);
        assert_eq!(resends_at_ms(&mut scheduler, 0, 0.1), Some(300.0));
    }

    /// Path 1's timer would expire at 900 ms. It does not count after the timer has expired while
    /// the path has data, and counts again when it expires after an acknowledgement.
    #[test]
    fn a_path_does_not_count_after_the_timer_has_expired() {
        let mut scheduler = busy();
        let mut paths = [path(0.3), path(0.9)];
        scheduler.take(0);
        let interval_ms = |scheduler: &mut LinuxScheduler, paths: &[Subflow]| {
            scheduler.set_interval(paths, 0, MIN_RTO);
            scheduler.interval / from_seconds(1e-3)
        };
        assert_eq!(interval_ms(&mut scheduler, &paths), 900);
        scheduler.on_expired(&paths);
        assert_eq!(interval_ms(&mut scheduler, &paths), 300);
        scheduler.on_expired(&paths);
        assert_eq!(interval_ms(&mut scheduler, &paths), 300);
        paths[1].last_acked = 1;
        assert_eq!(interval_ms(&mut scheduler, &paths), 300);
        scheduler.on_expired(&paths);
        assert_eq!(interval_ms(&mut scheduler, &paths), 900);
    }

    /// One packet waits, a burst is 45 (65 536 bytes of 1448): of 100 and 192 packets/s the average
    /// is (100 * 1 + 192 * 45) / 46 = 190.
    #[test]
    fn the_rate_of_a_path_is_averaged_when_it_is_chosen() {
        let tcp = Tcp::new(&anabranch_scenario::Tcp::default());
        let paths = [path(0.3), path(0.4)];
        let mut scheduler = busy();
        scheduler.queues[0].rate = 100.0;
        scheduler.average_rate(&paths, &tcp, 0, 192.0);
        assert_eq!(scheduler.queues[0].rate, 190.0);
        scheduler.average_rate(&paths, &tcp, 1, 192.0);
        assert_eq!(scheduler.queues[1].rate, 0.0, "no RTT sample yet");
    }
}
