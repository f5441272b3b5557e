//! A path of a connection: its sender, its receiver, its timers, and the sender's host, which is
//! not a clock: it delays each packet of a path by a random time.

use std::collections::VecDeque;

use anabranch_net::{Dice, Time};
use anabranch_scenario::Recovery;
use anabranch_scenario::recorder::PathTotals;
use anabranch_scenario::time::from_seconds;

use crate::connection::World;
use crate::connection::numbers::Reassembly;
use crate::connection::pacing::Packets;
use crate::connection::rack::Rack;
use crate::connection::receiving::{QUICK_ACKS, WayBack};
use crate::connection::sender::Sender;
use crate::connection::tcp::Tcp;
use crate::connection::timers::{Rto, Timer, longest};
use crate::ecn::{Bits, Ecn};
use crate::network::{Acknowledgement, Packet, PacketNumber};

/// The route of a path's packets and its delay.
#[derive(Clone, Debug, Default)]
pub(crate) struct Route {
    /// Index of the first hop in the network's table.
    pub first_hop: u32,
    /// The line that brings acknowledgements back over a pure delay.
    pub return_line: u32,
    /// The first hop of the links that bring acknowledgements back instead, if the path names any.
    pub first_hop_back: Option<u32>,
    /// Propagation delay there and back, s.
    pub propagation_s: f64,
    /// The time before which the path does not open.
    pub opens_at: Time,
    /// Time after the start of the connection before which the path does not open.
    pub join_delay: Time,
}

impl Route {
    /// When the path of a connection started at this time opens.
    pub fn opens_at(&self, started_at: Time) -> Time {
        self.opens_at.max(started_at + self.join_delay)
    }

    /// When the sender knows the path: its fourth packet of the handshake of MP_JOIN (RFC 8684,
    /// section 3.2) comes a round trip before it may send.
    pub fn is_known_at(&self, started_at: Time) -> Time {
        let round_trip = from_seconds(self.propagation_s).min(self.join_delay);
        self.opens_at(started_at) - round_trip
    }
}

/// The state of both ends of a path.
#[derive(Debug, Default)]
pub(crate) struct Subflow {
    pub route: Route,
    pub sender: Sender,
    pub receiver: Reassembly,
    /// The data sequence number of each outstanding packet. Empty if the connection has one path:
    /// then both numbers are equal.
    data: VecDeque<PacketNumber>,
    /// The lost data of all packets below this has been reinjected.
    reinjected: PacketNumber,
    /// The controller's window in whole packets.
    pub window: u32,
    /// Whether the window limited the sender when it last tried to send.
    pub window_limited: bool,
    /// The retransmission timer: off while nothing is outstanding.
    pub timer: Timer,
    pub rto: Rto,
    /// Timeouts since something new was acknowledged. Each doubles the next (RFC 6298 section 5.5).
    pub backoff: u32,
    /// When the first of these timeouts was, if it can be undone.
    timed_out_at: Option<Time>,
    /// Send time of the packet whose acknowledgement is delayed.
    pub held: Option<Time>,
    /// When the delayed acknowledgement must be sent.
    pub held_until: Time,
    /// Packets to be acknowledged without delay.
    pub quick_acks: u32,
    /// When the last packet arrived, in a scenario with quick acknowledgements.
    pub last_arrived: Time,
    pub last_sent: Time,
    pub last_acked: Time,
    /// Loss detection by send times, if the scenario has it.
    pub rack: Option<Box<Rack>>,
    /// The sender's host, if it delays packets.
    pub host: Option<Box<Host>>,
    /// The links that bring acknowledgements back, if the path names any.
    pub way_back: Option<Box<WayBack>>,
    /// The marks as both ends know them, if the scenario has ECN.
    pub ecn: Option<Box<Ecn>>,
    /// The bits of the acknowledgements.
    pub echo: Bits,
    /// Notes of the outstanding packets, if the rule acts by delivery rates.
    pub packets: Option<Box<Packets>>,
    pub totals: PathTotals,
}

impl Subflow {
    pub fn new(route: Route, tcp: &Tcp, window: u32, host_seed: u64) -> Subflow {
        let way_back = route.first_hop_back.map(WayBack::new);
        let rto = Rto::after_handshake(tcp, route.propagation_s);
        Subflow {
            way_back: way_back.map(Box::new),
            route,
            sender: Sender::new(tcp.keys.recovery != Recovery::NewReno),
            window,
            rto,
            quick_acks: QUICK_ACKS,
            ecn: Ecn::new(tcp.keys.ecn).map(Box::new),
            rack: (tcp.keys.recovery == Recovery::Rack).then(Box::default),
            host: Host::new(tcp.host_jitter, host_seed),
            ..Subflow::default()
        }
    }

    /// Whether it has state that few paths have, and that most events need not ask for: RACK, ECN,
    /// notes of deliveries, a host that delays packets, links on the way back.
    pub fn has_extras(&self) -> bool {
        self.rack.is_some()
            || self.ecn.is_some()
            || self.packets.is_some()
            || self.host.is_some()
            || self.way_back.is_some()
    }

    /// The acknowledgement of a packet on the only path of a connection; `sent_at` is echoed.
    #[inline(always)]
    pub fn acknowledgement(
        &self,
        connection: u32,
        r: usize,
        selective: PacketNumber,
        sent_at: Time,
    ) -> Acknowledgement {
        let cumulative = self.receiver.next();
        Acknowledgement {
            sent_at,
            connection,
            cumulative,
            selective,
            data_cumulative: cumulative,
            path: r as u16,
            ecn: self.echo,
        }
    }

    /// Whether the window has room for one more packet.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.sender.in_flight() < self.window
    }

    /// Stores which data the packet just numbered carries.
    #[inline]
    pub fn carry(&mut self, data_sequence: PacketNumber) {
        self.data.push_back(data_sequence);
    }

    /// Drops the data numbers of acknowledged packets.
    #[inline]
    pub fn forget_acknowledged(&mut self) {
        while self.data.len() > self.sender.outstanding() as usize {
            self.data.pop_front();
        }
    }

    /// The data that an outstanding packet carries.
    pub fn data_of(&self, sequence: PacketNumber) -> PacketNumber {
        let place = (sequence - self.sender.una()) as usize;
        self.data.get(place).copied().unwrap_or(sequence)
    }

    /// The data of lost packets, to be reinjected. Each packet's is returned once, also after
    /// several timeouts.
    pub fn take_lost_data(&mut self) -> impl Iterator<Item = PacketNumber> {
        let packets = self.sender.una()..self.sender.next();
        let first = self.reinjected.max(packets.start);
        self.reinjected = packets.end;
        let lost = (first..packets.end).filter(|&sequence| self.sender.is_lost(sequence));
        lost.map(|sequence| self.data_of(sequence))
    }

    /// Starts the retransmission timer anew (RFC 6298 section 5); gives the time at which a timer
    /// event must be scheduled.
    #[inline]
    pub fn restart_timer(&mut self, world: &World) -> Option<Time> {
        if self.sender.outstanding() == 0 {
            self.timer.stop();
            return None;
        }
        let rto = self.rto.timeout(world.tcp);
        let backed_off = rto
            .saturating_mul(1 << self.backoff)
            .min(longest(world.tcp));
        self.timer.start(world.now + backed_off)
    }

    /// When the first of its timers expires: Linux has one for retransmission, probe and reordering
    /// (`icsk_timeout`).
    pub fn first_timer(&self) -> Option<Time> {
        let rack = self
            .rack
            .iter()
            .flat_map(|rack| [&rack.probing, &rack.reordering]);
        rack.chain([&self.timer]).filter_map(Timer::deadline).min()
    }

    /// Whether the timer has expired since something new was acknowledged.
    #[inline]
    pub fn has_timed_out(&self) -> bool {
        self.backoff > 0
    }

    /// The timer expired: all that has not arrived is declared lost. A timeout in recovery is not
    /// undone, because there was a loss before it.
    pub fn time_out(&mut self, world: &World) {
        if world.tcp.keys.undo && self.backoff == 0 && !self.sender.is_recovering() {
            self.timed_out_at = Some(world.now);
        }
        self.totals.timeouts += 1;
        self.sender.on_timeout();
        if let Some(rack) = &mut self.rack {
            rack.on_timeout();
        }
        self.backoff = (self.backoff + 1).min(16);
    }

    /// Undoes the timeouts since something was acknowledged if they were spurious: this first
    /// acknowledgement after them is of a packet sent before the first one (RFC 3522). True if so.
    pub fn undo_timeout(&mut self, ack: &Acknowledgement) -> bool {
        let spurious = self.timed_out_at.take().is_some_and(|at| ack.sent_at < at);
        if spurious {
            self.totals.spurious_timeouts += u64::from(self.backoff);
            self.sender.undo_timeout();
        }
        if let Some(rack) = &mut self.rack {
            rack.after_timeout(spurious);
        }
        spurious
    }

    /// Whether the sender was silent for longer than its timeout, so that its window is out of date
    /// (RFC 5681 section 4.1).
    pub fn is_stale(&self, world: &World) -> bool {
        self.sender.next() > 0
            && self.rto.is_measured()
            && self.sender.outstanding() == 0
            && world.now - self.last_sent > self.rto.timeout(world.tcp)
    }
}

/// A path's packets that the host has not sent yet. They leave in order.
#[derive(Debug)]
pub(crate) struct Host {
    dice: Dice,
    /// The longest delay.
    jitter: Time,
    /// The packets and when they leave.
    waiting: VecDeque<(Time, Packet)>,
    /// When the last packet leaves.
    last: Time,
}

impl Host {
    /// A host that delays packets by up to `jitter`, random from `seed`; `None` if it does not.
    pub fn new(jitter: Time, seed: u64) -> Option<Box<Host>> {
        (jitter > 0).then(|| {
            Box::new(Host {
                dice: Dice::new(seed),
                jitter,
                waiting: VecDeque::new(),
                last: 0,
            })
        })
    }

    /// Takes a packet; gives the time at which an event must be scheduled, unless one is pending.
    pub fn take(&mut self, now: Time, packet: Packet) -> Option<Time> {
        let delay = (self.dice.uniform() * self.jitter as f64) as Time;
        self.last = self.last.max(now + delay);
        self.waiting.push_back((self.last, packet));
        (self.waiting.len() == 1).then_some(self.last)
    }

    /// Gives the packet that leaves first, and the time at which the next one leaves.
    pub fn release(&mut self) -> (Option<Packet>, Option<Time>) {
        let head = self.waiting.pop_front().map(|(_, packet)| packet);
        (head, self.waiting.front().map(|&(time, _)| time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets in pairs, 7 units apart, delayed by up to 20.
    #[test]
    fn packets_are_delayed_by_at_most_the_jitter_and_leave_in_order() {
        let mut host = Host::new(20, 1).expect("jitter");
        let packet = |sequence| Packet {
            sequence,
            ..Packet::default()
        };
        let times: Vec<Time> = (0..1000).map(|number| number / 2 * 7).collect();
        let scheduled = (0..1000).filter(|&number| {
            let event_at = host.take(times[number], packet(number as u64));
            event_at.is_some()
        });
        assert_eq!(scheduled.count(), 1, "one event is pending at a time");
        let leaving: Vec<Time> = host.waiting.iter().map(|&(time, _)| time).collect();
        assert!(leaving.is_sorted());
        let delays = leaving
            .iter()
            .zip(&times)
            .map(|(leaves, sent)| leaves - sent);
        let longest = delays.max();
        assert_eq!(longest, Some(19));
        assert!(Host::new(0, 1).is_none());
    }
}
