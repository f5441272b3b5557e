//! The sending side of a connection: acknowledgements, and which packet is sent when.

use anabranch_control::Ack;
use anabranch_scenario::time::seconds;

use crate::calendar::Event;
use crate::connection::scheduler::{Scheduler, View};
use crate::connection::sender::AckOutcome;
use crate::connection::tcp::Tcp;
use crate::connection::{Connection, World};
use crate::ecn::Bits;
use crate::network::{Acknowledgement, Packet, PacketNumber};

impl Connection {
    /// An acknowledgement reaches the sender. Inlined always: the event loop calls it once per
    /// packet.
    #[inline(always)]
    pub fn on_ack(&mut self, world: &mut World, ack: &Acknowledgement) {
        match self.is_plain {
            true => self.process_ack::<false>(world, ack),
            false => self.process_any_ack(world, ack),
        }
    }

    #[inline(never)]
    fn process_any_ack(&mut self, world: &mut World, ack: &Acknowledgement) {
        self.process_ack::<true>(world, ack);
    }

    /// Processes an acknowledgement. Without `EXTRAS` no path has any
    /// ([`Subflow::has_extras`](super::subflow::Subflow::has_extras)), and none is asked for.
    #[inline(always)]
    fn process_ack<const EXTRAS: bool>(&mut self, world: &mut World, ack: &Acknowledgement) {
        self.in_network -= 1;
        let r = usize::from(ack.path);
        let path = &mut self.paths[r];
        let outcome = path.sender.on_ack(ack);
        let rtt_s = seconds(world.now - ack.sent_at);
        path.totals.rtt_sum_s += rtt_s;
        path.totals.rtt_samples += 1;
        path.last_acked = world.now;
        let (una, next) = (path.sender.una(), path.sender.next());
        path.rto.sample(world.tcp, rtt_s, una, next);
        if outcome.advanced && path.has_timed_out() && path.undo_timeout(ack) {
            self.controller.on_spurious(r);
        }
        self.controller.on_ack(
            r,
            &Ack {
                now: seconds(world.now),
                sent_at: seconds(ack.sent_at),
                packets: outcome.delivered,
                rtt: Some(rtt_s),
                queue_delay: Some((rtt_s - path.route.propagation_s).max(0.0)),
                // Duplicates do not open the window (RFC 5681, section 3.2, step 1).
                window_limited: path.window_limited && outcome.advanced,
            },
        );
        path.window = self.controller.window(r) as u32;
        let mut loss = outcome.loss;
        if EXTRAS || outcome.recovered || loss || path.sender.has_newly_lost() {
            loss = self.repair(world, r, ack, &outcome);
        }
        let path = &mut self.paths[r];
        if outcome.advanced {
            path.backoff = 0;
            path.forget_acknowledged();
            let time = path.restart_timer(world);
            self.schedule(world, Event::Timeout, r, time);
            if EXTRAS && self.paths[r].rack.is_some() {
                self.restart_probing(world, r);
            }
        }
        if loss {
            // RFC 6675 section 5, step 4.3: the first lost packet goes at once.
            self.retransmit(world, r);
        }
        let opened = ack.data_cumulative > self.data_una;
        self.data_una = self.data_una.max(ack.data_cumulative);
        if self.starved && opened || !self.reinjections.is_empty() || self.fills_all {
            self.fill_every_window(world, r, ack, loss);
        } else {
            self.fill_window::<EXTRAS>(world, r);
        }
    }

    /// Reacts to the end of a recovery, to losses and to marks; true if a loss is to be repaired.
    #[inline(never)]
    fn repair(
        &mut self,
        world: &mut World,
        r: usize,
        ack: &Acknowledgement,
        outcome: &AckOutcome,
    ) -> bool {
        let mut loss = outcome.loss;
        let path = &mut self.paths[r];
        if outcome.recovered {
            self.controller.on_recovered(r);
        }
        if loss {
            self.controller.on_loss(r);
            path.totals.loss_events += 1;
            if let Some(ecn) = &mut path.ecn {
                ecn.on_reduced();
            }
        }
        if let Some(rack) = &mut path.rack {
            let detected = rack.on_ack(&mut path.sender, ack, world.now, path.rto.smoothed());
            loss |= self.on_detected(world, r, &detected);
        }
        if self.paths[r].ecn.is_some() {
            self.on_echo(r, ack.ecn, outcome.delivered);
        }
        let path = &mut self.paths[r];
        let lost = path.sender.take_newly_lost();
        if lost > 0 {
            self.controller.on_lost(r, lost);
        }
        path.window = self.controller.window(r) as u32;
        if path.packets.is_some() {
            self.report_deliveries(world, r, ack);
        }
        loss
    }

    #[inline(never)]
    fn fill_every_window(
        &mut self,
        world: &mut World,
        r: usize,
        ack: &Acknowledgement,
        loss: bool,
    ) {
        if self.linux_scheduler.is_some() {
            self.run_program(world, r, ack, loss);
        }
        self.fill_windows(world);
    }

    /// Reduces the window once per round trip while marks are echoed: as for a loss, but nothing is
    /// sent again (RFC 3168, section 6.1.2). A scalable rule reduces it by the share of marks.
    #[cold]
    fn on_echo(&mut self, r: usize, bits: Bits, delivered: u32) {
        let path = &mut self.paths[r];
        let Some(ecn) = &mut path.ecn else { return };
        let (una, next) = (path.sender.una(), path.sender.next());
        let echo = ecn.hear(bits, delivered);
        if let Some(share) = ecn.share_of_round(una, next) {
            self.controller.on_marked_share(r, share);
            let reduced = ecn.is_scalable() && share > 0.0 && !path.sender.is_recovering();
            path.totals.mark_events += u64::from(reduced);
        }
        if ecn.is_scalable() || path.sender.is_recovering() {
            return;
        }
        // The packet with the number `end` says that the window was reduced: acknowledgements of
        // those before it still echo the mark.
        if ecn.reduced_until.is_some_and(|end| una > end) {
            ecn.reduced_until = None;
            self.controller.on_recovered(r);
        }
        if echo && ecn.reduced_until.is_none() {
            ecn.reduced_until = Some(next);
            ecn.on_reduced();
            path.totals.mark_events += 1;
            self.controller.on_mark(r);
        }
    }

    /// Fills every path's window; the scheduler chooses the path for new data.
    pub(crate) fn fill_windows(&mut self, world: &mut World) {
        if self.linux_scheduler.is_some() {
            return self.send_as_linux(world);
        }
        for r in 0..self.paths.len() {
            while self.paths[r].has_room() && self.retransmit(world, r) {}
        }
        self.starved = false;
        while let (scheduler, view) = self.scheduler_and_view(world)
            && let Some(r) = scheduler.pick(&view)
        {
            // Data must not be reinjected over the path on which it timed out.
            let sent = self.send_scheduled(world, r)
                || (0..self.paths.len())
                    .any(|other| self.paths[other].has_room() && self.send_scheduled(world, other));
            if !sent {
                self.starved = true;
                break;
            }
            self.turn = r;
        }
        if self.starved {
            self.note_app_limited();
            if self.data_next < self.data_end {
                // Only the receive window stops some path.
                let (scheduler, view) = self.scheduler_and_view(world);
                scheduler.on_blocked(&view);
            }
        }
        for path in &mut self.paths {
            path.window_limited = !path.has_room();
        }
    }

    /// The scheduler, and what it decides by.
    fn scheduler_and_view(&mut self, world: &World) -> (&mut Scheduler, View<'_>) {
        let end = self.data_end.min(self.window_end(world.tcp));
        let view = View {
            now: world.now,
            paths: &self.paths,
            controller: &self.controller,
            last: self.turn,
            unsent: end.saturating_sub(self.data_next) + self.reinjections.len() as u64,
            receive_buffer: world.tcp.receive_packets.into(),
        };
        (&mut self.scheduler, view)
    }

    /// The receive window ends before this data.
    fn window_end(&self, tcp: &Tcp) -> PacketNumber {
        self.data_una.saturating_add(tcp.receive_packets.into())
    }

    /// Fills one path's window: all others are full, or there is no data to send. Inlined always,
    /// as `process_ack`, whose end it is.
    #[inline(always)]
    fn fill_window<const EXTRAS: bool>(&mut self, world: &mut World, r: usize) {
        while self.paths[r].has_room() {
            if !self.retransmit(world, r) && !self.send_next::<EXTRAS>(world, r) {
                self.starved = true;
                self.note_app_limited();
                self.paths[r].window_limited = false;
                return;
            }
        }
        self.paths[r].window_limited = true;
    }

    /// Sends the first lost packet of a path again, if there is one.
    #[inline(always)]
    pub(crate) fn retransmit(&mut self, world: &mut World, r: usize) -> bool {
        self.paths[r].sender.has_lost() && self.retransmit_lost(world, r)
    }

    #[inline(never)]
    fn retransmit_lost(&mut self, world: &mut World, r: usize) -> bool {
        let path = &mut self.paths[r];
        let Some(sequence) = path.sender.send_lost() else {
            return false;
        };
        path.totals.retransmitted_packets += 1;
        let data = path.data_of(sequence);
        let is_first = sequence == path.sender.una();
        self.transmit::<true>(world, r, data, Some(sequence));
        if is_first {
            // The timer starts anew (RFC 6675 section 6 leaves this open; Linux and ns-2 do so):
            // otherwise, at small RTTs, every other fast retransmission ends in a timeout.
            self.restart_timer(world, r);
        }
        true
    }

    /// Sends what the scheduler sends next over a path.
    pub(super) fn send_scheduled(&mut self, world: &mut World, r: usize) -> bool {
        match self.scheduler {
            Scheduler::Redundant(_) => self.send_redundantly(world, r),
            _ => self.send_next::<true>(world, r),
        }
    }

    /// Reinjects data over a path, or sends new data.
    #[inline(always)]
    fn send_next<const EXTRAS: bool>(&mut self, world: &mut World, r: usize) -> bool {
        let again = match self.reinjections.is_empty() {
            true => None,
            false => self.next_reinjection(r),
        };
        let Some(data) = again.or_else(|| self.next_new(world.tcp, self.data_end)) else {
            return false;
        };
        if again.is_some() {
            self.paths[r].totals.retransmitted_packets += 1;
        }
        self.transmit::<EXTRAS>(world, r, data, None);
        true
    }

    /// Takes the next new data below `end`, if the receiver has room for it.
    #[inline]
    pub(crate) fn next_new(&mut self, tcp: &Tcp, end: PacketNumber) -> Option<PacketNumber> {
        if self.data_next >= end.min(self.window_end(tcp)) {
            return None;
        }
        let data = self.data_next;
        self.data_next += 1;
        if let Some(files) = &mut self.files {
            files.take(data);
        }
        Some(data)
    }

    /// The next data to be reinjected over `r`: not acknowledged, and lost on another path.
    fn next_reinjection(&mut self, r: usize) -> Option<PacketNumber> {
        let una = self.data_una;
        while self
            .reinjections
            .front()
            .is_some_and(|&(data, _)| data < una)
        {
            self.reinjections.pop_front();
        }
        let mut waiting = self.reinjections.iter();
        let place = waiting.position(|&(data, origin)| data >= una && usize::from(origin) != r)?;
        self.reinjections.remove(place).map(|(data, _)| data)
    }

    /// Sends data over a path in a new packet, or in the packet `again`, which was sent before.
    /// `EXTRAS` as in [`process_ack`](Self::process_ack).
    #[inline(always)]
    pub(crate) fn transmit<const EXTRAS: bool>(
        &mut self,
        world: &mut World,
        r: usize,
        data_sequence: PacketNumber,
        again: Option<PacketNumber>,
    ) {
        let bytes = self.bytes_of(world.tcp, data_sequence);
        let path = &mut self.paths[r];
        let sequence = again.unwrap_or_else(|| path.sender.send_new());
        if self.several && again.is_none() {
            path.carry(data_sequence);
        }
        let bits = match &mut path.ecn {
            Some(ecn) if EXTRAS && again.is_none() => ecn.of_new(),
            _ => Bits::default(),
        };
        path.totals.sent_packets += 1;
        path.last_sent = world.now;
        let packet = Packet {
            sent_at: world.now,
            connection: self.number,
            sequence,
            data_sequence,
            hop: path.route.first_hop,
            path: r as u16,
            bytes,
            bits,
        };
        self.in_network += 1;
        if EXTRAS {
            return self.emit(world, packet, again.is_none());
        }
        if let Err(cause) = world.network.send(world.now, packet) {
            self.in_network -= 1;
            path.totals.lost[cause as usize] += 1;
        }
        if path.timer.deadline().is_none() {
            self.restart_timer(world, r);
        }
    }

    /// The size of a packet: full, except for the end of a file.
    #[inline]
    fn bytes_of(&self, tcp: &Tcp, data_sequence: PacketNumber) -> u16 {
        if let Some(files) = &self.files {
            return self.packet_bytes - files.lacking(self.payload(tcp), data_sequence);
        }
        if self.file_bytes == 0 || data_sequence + 1 < self.data_end {
            return self.packet_bytes;
        }
        let rest = self.file_bytes - data_sequence * self.payload(tcp);
        tcp.header_bytes + rest as u16
    }
}

/// Packets wait in the sender's host, or leave it for the network.
impl Connection {
    /// Hands a packet to the host, or to the network if the host delays nothing. Inlined always: it
    /// is on the path of every packet that has extras.
    #[inline(always)]
    fn emit(&mut self, world: &mut World, packet: Packet, is_new: bool) {
        let r = usize::from(packet.path);
        if let Some(rack) = &mut self.paths[r].rack {
            rack.on_sent(world.now, packet.sequence);
        }
        if self.paths[r].host.is_some() {
            self.delay(world, packet);
        } else {
            self.offer(world, packet);
        }
        if self.paths[r].packets.is_some() {
            self.note_sent(world, r, packet.sequence, packet.bytes);
        }
        if self.paths[r].timer.deadline().is_none() {
            self.restart_timer(world, r);
        }
        if is_new && self.paths[r].rack.is_some() {
            self.restart_probing(world, r);
        }
    }

    #[cold]
    fn delay(&mut self, world: &mut World, packet: Packet) {
        let r = usize::from(packet.path);
        if let Some(host) = &mut self.paths[r].host {
            let time = host.take(world.now, packet);
            self.schedule(world, Event::Leave, r, time);
        }
    }

    /// The first packet of path `r` leaves the host.
    pub fn on_leave(&mut self, world: &mut World, r: usize) {
        let Some(host) = &mut self.paths[r].host else {
            return;
        };
        let (head, next) = host.release();
        self.schedule(world, Event::Leave, r, next);
        if let Some(packet) = head {
            self.offer(world, packet);
        }
    }

    #[inline(always)]
    pub(super) fn offer(&mut self, world: &mut World, packet: Packet) {
        if let Err(cause) = world.network.send(world.now, packet) {
            self.on_drop(packet.path, cause);
        }
    }
}
