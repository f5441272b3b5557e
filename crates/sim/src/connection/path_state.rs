//! A path of a connection: its sender, its receiver and its timers.

use std::collections::VecDeque;

use anabranch_control::Path;
use anabranch_net::Time;

use crate::connection::bits::Reassembly;
use crate::connection::sender::Sender;
use crate::connection::timer::Timer;
use crate::network::PacketNumber;
use anabranch_scenario::recorder::PathTotals;
use anabranch_scenario::time::from_seconds;

/// The longest retransmission timeout (RFC 6298 section 2.5 allows any bound of 60 s or more).
const MAX_RTO: Time = from_seconds(60.0);

/// The route of a path's packets and its delay.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    /// Index of the first hop in the network's table.
    pub first_hop: u32,
    /// The line that brings acknowledgements back.
    pub return_line: u32,
    /// Propagation delay there and back, s.
    pub propagation_s: f64,
    /// It opens at this time, or with its connection if that begins later.
    pub opens_at: Time,
}

#[derive(Debug)]
pub(crate) struct PathState {
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
    backoff: u32,
    /// Send time of the packet whose acknowledgement is delayed.
    pub held: Option<Time>,
    /// When the delayed acknowledgement must be sent.
    pub held_until: Time,
    pub last_sent: Time,
    pub totals: PathTotals,
}

impl PathState {
    pub fn new(route: Route, selective: bool, window: u32) -> PathState {
        PathState {
            route,
            sender: Sender::new(selective),
            receiver: Reassembly::default(),
            data: VecDeque::new(),
            reinjected: 0,
            window,
            window_limited: false,
            timer: Timer::default(),
            backoff: 0,
            held: None,
            held_until: 0,
            last_sent: 0,
            totals: PathTotals::default(),
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
    pub fn restart_timer(&mut self, now: Time, rto_s: f64, min_rto: Time) -> Option<Time> {
        if self.sender.outstanding() == 0 {
            self.timer.stop();
            return None;
        }
        let max_rto = MAX_RTO.max(min_rto);
        let rto = from_seconds(rto_s).clamp(min_rto, max_rto);
        let deadline = now + rto.saturating_mul(1 << self.backoff).min(max_rto);
        self.timer.start(deadline)
    }

    /// When the timer expires; `None` if it expired before since something was acknowledged.
    pub fn first_timeout(&self) -> Option<Time> {
        self.timer.deadline().filter(|_| self.backoff == 0)
    }

    /// Doubles the timeout until something new is acknowledged (RFC 6298 section 5.5).
    pub fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(16);
    }

    /// Something new is acknowledged: the timeout is no longer doubled.
    #[inline]
    pub fn forget_backoff(&mut self) {
        self.backoff = 0;
    }

    /// Whether the sender was silent for longer than its timeout, so that its window is out of date
    /// (RFC 5681 section 4.1).
    pub fn is_stale(&self, now: Time, measured: &Path<f64>, rto_s: f64, min_rto: Time) -> bool {
        measured.rtt.is_finite()
            && self.sender.outstanding() == 0
            && now - self.last_sent > from_seconds(rto_s).max(min_rto)
    }
}
