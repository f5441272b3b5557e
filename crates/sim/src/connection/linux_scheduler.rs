//! Linux' scheduler of Multipath TCP (net/mptcp/protocol.c of 6.18), its send buffer and what it
//! sends again.
//!
//! The application fills a send buffer, which holds data until it is acknowledged in order. From there
//! bursts go to a path's queue, whatever its window, as far as the path's own buffer takes them; a path
//! keeps what it was dealt. So one path can hold what all others wait for, and the buffer fills. Then
//! a path that has nothing left to do sends the oldest data again.

use std::collections::VecDeque;

use anabranch_net::Time;

use crate::calendar::Event;
use crate::connection::path_state::PathState;
use crate::connection::tcp::Tcp;
use crate::connection::{Connection, World};

/// The most that a path is dealt at once, bytes (`MPTCP_SEND_BURST_SIZE`).
const BURST: u64 = 1 << 16;
/// Data is kept in fragments of so many bytes (`SKB_FRAG_PAGE_ORDER`): a path's buffer is looked at
/// between two of them, and one is what is sent again at a time.
const FRAGMENT: u64 = 1 << 15;
/// Smallest window that a path's buffer is made for, packets (`TCP_INIT_CWND`).
const LEAST_WINDOW: u32 = 10;
/// What a connection's buffer holds beyond those of its paths, bytes (`tcp_wmem[0]`).
const OWN: u64 = 4096;

/// Deals a connection's data out to its paths.
#[derive(Debug, Default)]
pub(crate) struct LinuxScheduler {
    /// Data below this the application has written.
    written: u32,
    queues: Vec<SendQueue>,
    /// Data below this was acknowledged when the timer was last looked at.
    una: u32,
    /// When an idle path sends the oldest data again.
    resend_at: Option<Time>,
    /// When the calendar will next ask.
    asked_at: Option<Time>,
}

/// What waits at a path.
#[derive(Debug, Default)]
struct SendQueue {
    /// Data dealt to the path and not sent on it yet, and whether the connection sent it before.
    packets: VecDeque<(u32, bool)>,
    /// The path's send buffer, bytes. It grows with the window and never shrinks.
    buffer: u64,
}

/// Memory that Linux reckons with for a full packet in flight, bytes: `tcp_sndbuf_expand` with
/// `MAX_TCP_HEADER` of a kernel without wireless networks; 2304 for 1500.
fn packet_memory(packet_bytes: u16) -> u64 {
    (u64::from(packet_bytes) + 536).next_power_of_two() + 256
}

/// Full packets in so many bytes of payload, at least one.
fn packets(tcp: &Tcp, bytes: u64) -> u32 {
    (bytes / tcp.payload()).max(1) as u32
}

impl SendQueue {
    /// Lets the buffer grow to twice the window (`tcp_sndbuf_expand`).
    fn expand(&mut self, packet_bytes: u16, window: u32) {
        let window = u64::from(window.max(LEAST_WINDOW));
        self.buffer = self.buffer.max(2 * window * packet_memory(packet_bytes));
    }
}

impl LinuxScheduler {
    /// Whether nothing waits at a path. What was dealt is sent, though another path sent it too.
    pub fn is_empty(&self) -> bool {
        self.queues.iter().all(|queue| queue.packets.is_empty())
    }

    /// The application writes: it wakes when a third of the buffer is free, and fills it.
    fn write(&mut self, connection: &Connection, tcp: &Tcp) {
        self.queues
            .resize_with(connection.paths.len(), SendQueue::default);
        for (queue, path) in self.queues.iter_mut().zip(&connection.paths) {
            queue.expand(tcp.packet_bytes, path.window);
        }
        let buffer: u64 = self.queues.iter().map(|queue| queue.buffer).sum();
        let buffer = packets(tcp, OWN + buffer);
        let held = self.written.saturating_sub(connection.data_una);
        if u64::from(held) * 3 <= u64::from(buffer) * 2 {
            let end = connection.data_una.saturating_add(buffer);
            self.written = self.written.max(end.min(connection.data_end));
        }
    }

    /// Packets a path has in flight and in its queue.
    fn load(&self, connection: &Connection, r: usize) -> u32 {
        connection.paths[r].sender.outstanding() + self.queues[r].packets.len() as u32
    }

    /// Whether a path's buffer has room.
    fn has_room(&self, connection: &Connection, tcp: &Tcp, r: usize) -> bool {
        self.load(connection, r) < packets(tcp, self.queues[r].buffer)
    }

    /// Deals data out, while the path that would be done first has room (`mptcp_subflow_get_send`).
    fn deal(&mut self, connection: &mut Connection, tcp: &Tcp) {
        let (burst, fragment) = (packets(tcp, BURST), packets(tcp, FRAGMENT));
        while let Some(r) = self.soonest(connection)
            && self.has_room(connection, tcp, r)
        {
            for place in 0..burst {
                if place % fragment == 0 && !self.has_room(connection, tcp, r) {
                    break;
                }
                let Some(data) = connection.next_new(tcp, self.written) else {
                    return;
                };
                self.queues[r].packets.push_back((data, false));
            }
        }
    }

    /// The path that would be done first with what it has; those without an RTT before all others.
    fn soonest(&self, connection: &Connection) -> Option<usize> {
        let linger = |r: &usize| {
            let path = connection.controller.path(*r);
            let measured = path.rtt.is_finite();
            let rate = if measured { path.rate() } else { f64::MAX };
            f64::from(self.load(connection, *r)) / rate
        };
        (0..self.queues.len()).min_by(|a, b| linger(a).total_cmp(&linger(b)))
    }

    /// Sends what a path has as far as its window has room.
    fn drain(&mut self, connection: &mut Connection, world: &mut World, r: usize) {
        while connection.paths[r].has_room() {
            if connection.retransmit(world, r) {
                continue;
            }
            let Some((data, again)) = self.queues[r].packets.pop_front() else {
                break;
            };
            connection.paths[r].totals.retransmitted_packets += u64::from(again);
            connection.send_first(world, r, data);
        }
        let path = &mut connection.paths[r];
        path.window_limited = !path.has_room();
    }

    /// Starts the timer anew whenever data was acknowledged: it takes as long as the longest of the
    /// paths' own, without those that ran out already (`mptcp_timeout_from_subflow`).
    fn watch(&mut self, connection: &Connection, world: &mut World) {
        if connection.data_una > self.una || connection.data_una == connection.data_next {
            self.una = connection.data_una;
            self.resend_at = None;
        }
        if self.resend_at.is_none() && self.una < connection.data_next {
            let ends = connection.paths.iter().filter_map(PathState::first_timeout);
            let shortest = world.now + world.tcp.min_rto;
            let time = ends
                .max()
                .filter(|&end| end > world.now)
                .unwrap_or(shortest);
            self.resend_at = Some(time);
            self.ask_at(connection, world, time);
        }
    }

    fn ask_at(&mut self, connection: &Connection, world: &mut World, time: Time) {
        if self.asked_at.is_none_or(|asked_at| time < asked_at) {
            self.asked_at = Some(time);
            let event = Event::Resend(connection.number);
            world.network.calendar.push(time, event);
        }
    }

    /// The calendar asks: has the timer run out?
    fn is_due(&mut self, connection: &Connection, world: &mut World) -> bool {
        if self.asked_at != Some(world.now) {
            return false;
        }
        self.asked_at = None;
        let Some(time) = self.resend_at else {
            return false;
        };
        if time > world.now {
            self.ask_at(connection, world, time);
            return false;
        }
        self.resend_at = None;
        true
    }

    /// Gives the oldest data to a path that has nothing to do (`__mptcp_retrans`).
    fn resend(&mut self, connection: &Connection, tcp: &Tcp) {
        let idle = (0..self.queues.len()).find(|&r| self.load(connection, r) == 0);
        if let Some(r) = idle {
            let fragment = packets(tcp, FRAGMENT);
            let first = connection.data_una;
            let end = (first / fragment + 1) * fragment;
            let oldest = (first..end.min(connection.data_next)).map(|data| (data, true));
            self.queues[r].packets.extend(oldest);
        }
    }
}

impl Connection {
    /// Fills every path's window where Linux' scheduler deals.
    pub(crate) fn deal(&mut self, world: &mut World) {
        let Some(mut scheduler) = self.linux.take() else {
            return;
        };
        scheduler.write(self, world.tcp);
        scheduler.deal(self, world.tcp);
        for r in 0..self.paths.len() {
            scheduler.drain(self, world, r);
        }
        scheduler.watch(self, world);
        self.linux = Some(scheduler);
    }

    /// The calendar asks whether an idle path is to send the oldest data again.
    pub fn on_resend_timer(&mut self, world: &mut World) {
        // As for the other timers: this may be another connection by now.
        let Some(mut scheduler) = self.linux.take() else {
            return;
        };
        let due = scheduler.is_due(self, world);
        if due {
            scheduler.resend(self, world.tcp);
        }
        self.linux = Some(scheduler);
        if due {
            self.deal(world);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `ss -m` shows on Linux 6.18 for paths with an MSS of 1448 bytes: `tb46080` at first,
    /// `tb87552` once the window was 19, and no less after that.
    #[test]
    fn a_path_has_the_buffer_that_linux_gives_it() {
        let mut queue = SendQueue::default();
        let buffers = [1, 19, 3].map(|window| {
            queue.expand(1500, window);
            queue.buffer
        });
        assert_eq!(buffers, [46080, 87552, 87552]);
    }
}
