//! A TCP connection, or a Multipath TCP connection over several subflows (RFC 8684): one data
//! sequence space, one receive buffer, one controller.

use std::collections::VecDeque;

use anabranch_control::{Ack as ControlAck, AnyController};
use anabranch_net::Time;

use crate::bits::Reassembly;
use crate::calendar::Event;
use crate::network::{Ack, Network, Packet};
use crate::scheduler::Scheduler;
use crate::subflow::{Alarm, Route, Subflow};
use crate::time::{SECOND, seconds};

/// How long an acknowledgement may be delayed: Linux's shortest (RFC 5681 allows 500 ms).
const ACK_DELAY: Time = SECOND / 25;

/// What all endpoints of a scenario have in common.
#[derive(Clone, Debug)]
pub(crate) struct Tcp {
    pub packet_bytes: u16,
    pub header_bytes: u16,
    pub min_rto: Time,
    pub delayed_acks: bool,
    pub selective: bool,
    /// The receive buffer in packets.
    pub receive_buffer: u32,
    pub scheduler: Scheduler,
}

impl Tcp {
    /// Payload of a full packet.
    pub fn payload(&self) -> u64 {
        u64::from(self.packet_bytes - self.header_bytes)
    }
}

/// What a connection acts upon.
pub(crate) struct World<'a> {
    pub now: Time,
    pub network: &'a mut Network,
    pub tcp: &'a Tcp,
}

/// Data without end.
pub(crate) const ENDLESS: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Connection {
    /// Its own place among the simulation's connections.
    pub number: u32,
    /// The user it belongs to, as a row of the record.
    pub user: u32,
    pub started_at: Time,
    pub controller: AnyController,
    pub subflows: Vec<Subflow>,
    /// The data sequence number of the next new packet, of the first not acknowledged, and of the
    /// first that the application does not have.
    data_next: u32,
    data_una: u32,
    data_end: u32,
    /// Payload of a file, 0 for a workload without end.
    file_bytes: u64,
    /// Data to be sent again over another path than the one, by number, where it timed out.
    reinjections: VecDeque<(u32, u16)>,
    /// Data as the receiver has it, where subflows' own order does not tell.
    data_receiver: Reassembly,
    /// Some path had room, and there was nothing to send on it.
    starved: bool,
    /// The path that sent last.
    turn: usize,
    /// Packets and acknowledgements under way.
    in_network: u32,
}

impl Connection {
    /// A silent connection: it sends when [`resume`](Self::resume) or
    /// [`send_file`](Self::send_file) gives it something.
    pub fn new(
        number: u32,
        user: u32,
        controller: AnyController,
        routes: &[Route],
        tcp: &Tcp,
    ) -> Connection {
        let subflows = routes.iter().enumerate().map(|(r, route)| {
            Subflow::new(route.clone(), tcp.selective, controller.window(r) as u32)
        });
        Connection {
            number,
            user,
            started_at: 0,
            subflows: subflows.collect(),
            controller,
            data_next: 0,
            data_una: 0,
            data_end: 0,
            file_bytes: 0,
            reinjections: VecDeque::new(),
            data_receiver: Reassembly::default(),
            starved: true,
            turn: 0,
            in_network: 0,
        }
    }

    /// Begins or resumes a bulk transfer.
    pub fn resume(&mut self, world: &mut World) {
        for r in 0..self.subflows.len() {
            let rto_s = self.controller.rto_s(r);
            if self.subflows[r].is_stale(world.now, self.controller.path(r), rto_s) {
                self.controller.on_idle(r, seconds(world.now));
                self.subflows[r].window = self.controller.window(r) as u32;
            }
        }
        self.data_end = ENDLESS;
        self.pump_all(world);
    }

    /// Sends no new data from now on.
    pub fn pause(&mut self) {
        self.data_end = self.data_next;
    }

    /// Sends a file of so many bytes of payload.
    pub fn send_file(&mut self, world: &mut World, bytes: u64) {
        self.started_at = world.now;
        self.file_bytes = bytes;
        self.data_end = bytes.div_ceil(world.tcp.payload()) as u32;
        self.pump_all(world);
    }

    /// Whether the receiver has the whole file.
    pub fn is_complete(&self) -> bool {
        self.file_bytes > 0 && self.data_received() == self.data_end
    }

    /// Whether nothing of this connection is under way and nothing will be.
    pub fn is_over(&self) -> bool {
        self.in_network == 0 && self.is_complete() && self.data_una == self.data_end
    }

    /// Payload of the file, 0 for a workload without end.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Payload the application has received in order.
    pub fn received_bytes(&self, tcp: &Tcp) -> u64 {
        let bytes = u64::from(self.data_received()) * tcp.payload();
        if self.file_bytes > 0 { bytes.min(self.file_bytes) } else { bytes }
    }

    #[inline]
    fn data_received(&self) -> u32 {
        match self.subflows.as_slice() {
            [only] => only.receiver.next(),
            _ => self.data_receiver.next(),
        }
    }

    /// A packet was dropped on its way.
    pub fn on_drop(&mut self, subflow: u16, cause: anabranch_net::Cause) {
        self.in_network -= 1;
        self.subflows[usize::from(subflow)].totals.lost[cause as usize] += 1;
    }

    /// A packet reaches the receiver; true if it completes a file.
    #[inline]
    pub fn on_packet(&mut self, world: &mut World, packet: &Packet) -> bool {
        let was_complete = self.is_complete();
        let several = self.subflows.len() > 1;
        let subflow = &mut self.subflows[usize::from(packet.subflow)];
        let had_hole = subflow.receiver.has_hole();
        let expected = packet.sequence == subflow.receiver.next();
        if subflow.receiver.receive(packet.sequence) {
            let totals = &mut subflow.totals;
            totals.delivered_packets += 1;
            totals.delivered_bytes += u64::from(packet.bytes - world.tcp.header_bytes);
            totals.one_way_sum_s += seconds(world.now - packet.sent_at);
            if several {
                self.data_receiver.receive(packet.data_sequence);
            }
        }
        let may_wait = world.tcp.delayed_acks && expected && !had_hole;
        if may_wait && subflow.held.is_none() && !self.is_complete() {
            self.delay_ack(world, packet);
        } else {
            let first = self.subflows[usize::from(packet.subflow)].held.take();
            self.acknowledge(world, packet.subflow, packet.sequence, first.unwrap_or(packet.sent_at));
        }
        !was_complete && self.is_complete()
    }

    fn delay_ack(&mut self, world: &mut World, packet: &Packet) {
        let subflow = &mut self.subflows[usize::from(packet.subflow)];
        subflow.held = Some(packet.sent_at);
        subflow.held_until = world.now + ACK_DELAY;
        self.in_network -= 1;
        let event = Event::DelayedAck { connection: self.number, subflow: packet.subflow };
        world.network.calendar.push(world.now + ACK_DELAY, event);
    }

    /// The delayed-acknowledgement timer runs out.
    pub fn on_ack_delay(&mut self, world: &mut World, r: u16) {
        let subflow = &mut self.subflows[usize::from(r)];
        if subflow.held_until != world.now {
            return;
        }
        if let Some(sent_at) = subflow.held.take() {
            let last = subflow.receiver.next() - 1;
            self.in_network += 1;
            self.acknowledge(world, r, last, sent_at);
        }
    }

    #[inline]
    fn acknowledge(&mut self, world: &mut World, r: u16, selective: u32, sent_at: Time) {
        let data_cumulative = self.data_received();
        let subflow = &self.subflows[usize::from(r)];
        let ack = Ack {
            sent_at,
            connection: self.number,
            cumulative: subflow.receiver.next(),
            selective,
            data_cumulative,
            subflow: r,
        };
        world.network.answer(world.now, subflow.route.return_line, ack);
    }

    /// An acknowledgement reaches the sender.
    #[inline]
    pub fn on_ack(&mut self, world: &mut World, ack: &Ack) {
        self.in_network -= 1;
        let r = usize::from(ack.subflow);
        let subflow = &mut self.subflows[r];
        let news = subflow.sender.on_ack(ack);
        let rtt_s = seconds(world.now - ack.sent_at);
        subflow.totals.rtt_sum_s += rtt_s;
        subflow.totals.rtt_samples += 1;
        let now = seconds(world.now);
        self.controller.on_ack(
            r,
            &ControlAck {
                now,
                sent_at: seconds(ack.sent_at),
                packets: news.delivered,
                rtt: rtt_s,
                queue_delay: (rtt_s - subflow.route.propagation_s).max(0.0),
                window_limited: subflow.window_limited,
            },
        );
        if news.recovered {
            self.controller.on_recovered(r);
        }
        if news.loss {
            self.controller.on_loss(r);
            subflow.totals.loss_events += 1;
        }
        subflow.window = self.controller.window(r) as u32;
        if news.advanced {
            subflow.forget_backoff();
            subflow.forget_acknowledged();
            self.restart_timer(world, r);
        }
        if news.loss {
            // RFC 6675 section 5, step 4.3: the first lost packet goes at once.
            self.retransmit(world, r);
        }
        let opened = ack.data_cumulative > self.data_una;
        self.data_una = self.data_una.max(ack.data_cumulative);
        if self.starved && opened || !self.reinjections.is_empty() {
            self.pump_all(world);
        } else {
            self.pump(world, r);
        }
    }

    /// The calendar asks whether the retransmission timer has run out.
    pub fn on_timer(&mut self, world: &mut World, r: u16) {
        let path = usize::from(r);
        match self.subflows[path].timer_asks(world.now) {
            Alarm::Stale => {}
            Alarm::Again(time) => self.schedule_timer(world, path, time),
            Alarm::RunOut => self.time_out(world, path),
        }
    }

    fn time_out(&mut self, world: &mut World, r: usize) {
        self.controller.on_timeout(r);
        let several = self.subflows.len() > 1;
        let subflow = &mut self.subflows[r];
        subflow.totals.timeouts += 1;
        subflow.sender.on_timeout();
        subflow.back_off();
        subflow.window = self.controller.window(r) as u32;
        if several {
            self.reinjections.retain(|&(_, origin)| usize::from(origin) != r);
            self.reinjections.extend(subflow.outstanding_data().map(|data| (data, r as u16)));
        }
        self.restart_timer(world, r);
        self.pump_all(world);
    }

    #[inline]
    fn restart_timer(&mut self, world: &mut World, r: usize) {
        let rto_s = self.controller.rto_s(r);
        if let Some(time) = self.subflows[r].restart_timer(world.now, rto_s, world.tcp.min_rto) {
            self.schedule_timer(world, r, time);
        }
    }

    fn schedule_timer(&self, world: &mut World, r: usize, time: Time) {
        let event = Event::Timeout { connection: self.number, subflow: r as u16 };
        world.network.calendar.push(time, event);
    }

    /// Fills every path's window, new data where the scheduler says.
    fn pump_all(&mut self, world: &mut World) {
        for r in 0..self.subflows.len() {
            while self.subflows[r].has_room() && self.retransmit(world, r) {}
        }
        let scheduler = world.tcp.scheduler;
        self.starved = false;
        while let Some(r) = scheduler.pick(&self.subflows, &self.controller, self.turn) {
            // What is to be reinjected may not go over every path.
            let sent = self.send_next(world, r)
                || (0..self.subflows.len())
                    .any(|other| self.subflows[other].has_room() && self.send_next(world, other));
            if !sent {
                self.starved = true;
                break;
            }
            self.turn = r;
        }
        for subflow in &mut self.subflows {
            subflow.window_limited = !subflow.has_room();
        }
    }

    /// Fills one path's window: all others are full, or have nothing to send.
    #[inline]
    fn pump(&mut self, world: &mut World, r: usize) {
        while self.subflows[r].has_room() {
            if !self.retransmit(world, r) && !self.send_next(world, r) {
                self.starved = true;
                self.subflows[r].window_limited = false;
                return;
            }
        }
        self.subflows[r].window_limited = true;
    }

    /// Sends the first lost packet of a path again, if there is one.
    #[inline]
    fn retransmit(&mut self, world: &mut World, r: usize) -> bool {
        let subflow = &mut self.subflows[r];
        if !subflow.sender.has_lost() {
            return false;
        }
        let Some(sequence) = subflow.sender.send_lost() else { return false };
        subflow.totals.retransmitted_packets += 1;
        let data = subflow.data_of(sequence);
        let is_first = sequence == subflow.sender.una();
        self.transmit(world, r, sequence, data);
        if is_first {
            // It has a whole timeout from here (RFC 6675 section 6 leaves this open; Linux and ns-2
            // do so), or at small RTTs every other fast retransmission ends in a timeout.
            self.restart_timer(world, r);
        }
        true
    }

    /// Sends data that is to be reinjected, or new data, over a path.
    #[inline]
    fn send_next(&mut self, world: &mut World, r: usize) -> bool {
        let data = match self.next_reinjection(r) {
            Some(data) => {
                self.subflows[r].totals.retransmitted_packets += 1;
                data
            }
            None => {
                let window_end = self.data_una.saturating_add(world.tcp.receive_buffer);
                if self.data_next >= self.data_end.min(window_end) {
                    return false;
                }
                self.data_next += 1;
                self.data_next - 1
            }
        };
        let subflow = &mut self.subflows[r];
        let sequence = subflow.sender.send_new();
        if self.subflows.len() > 1 {
            self.subflows[r].carry(data);
        }
        self.transmit(world, r, sequence, data);
        true
    }

    /// The next data to be sent again over `r`: not yet acknowledged, and lost on another path.
    fn next_reinjection(&mut self, r: usize) -> Option<u32> {
        while let Some(&(data, origin)) = self.reinjections.front() {
            if data >= self.data_una {
                if usize::from(origin) == r {
                    return None;
                }
                self.reinjections.pop_front();
                return Some(data);
            }
            self.reinjections.pop_front();
        }
        None
    }

    #[inline]
    fn transmit(&mut self, world: &mut World, r: usize, sequence: u32, data_sequence: u32) {
        let bytes = self.packet_bytes(world.tcp, data_sequence);
        let subflow = &mut self.subflows[r];
        subflow.totals.sent_packets += 1;
        subflow.last_sent = world.now;
        let packet = Packet {
            sent_at: world.now,
            connection: self.number,
            sequence,
            data_sequence,
            hop: subflow.route.first_hop,
            subflow: r as u16,
            bytes,
        };
        self.in_network += 1;
        if let Err(cause) = world.network.send(world.now, packet) {
            self.on_drop(r as u16, cause);
        }
        if !self.subflows[r].timer_runs() {
            self.restart_timer(world, r);
        }
    }

    /// Full packets, but for the end of a file.
    #[inline]
    fn packet_bytes(&self, tcp: &Tcp, data_sequence: u32) -> u16 {
        if self.file_bytes == 0 || data_sequence + 1 < self.data_end {
            return tcp.packet_bytes;
        }
        let rest = self.file_bytes - u64::from(data_sequence) * tcp.payload();
        tcp.header_bytes + rest as u16
    }
}
