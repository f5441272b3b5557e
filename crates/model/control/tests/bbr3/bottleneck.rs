//! A BBRv3 connection over one bottleneck.

use std::collections::BTreeMap;

use anabranch_control::rules::{Bbr3, Bbr3Memory, Bbr3State};
use anabranch_control::{Ack, Controller, Stamp};

/// Packets of 1500 bytes per second of 1 Mbit/s.
pub const MBIT: f64 = 1e6 / 12_000.0;

/// Packets sent later of which one is acknowledged when a packet is declared lost (RFC 9002,
/// section 6.1.1).
const REORDERING: u64 = 3;

/// The link: what it does with packets that are sent from now on.
#[derive(Clone, Debug)]
pub struct Link {
    /// Packets/s.
    pub rate: f64,
    /// Propagation delay there and back, s.
    pub rtt: f64,
    /// Packets that wait at most.
    pub buffer: f64,
    /// Every packet whose number is a multiple of it is lost; 0: none.
    pub lose_every: u64,
    /// Acknowledgements arrive together, at multiples of this time, s; 0: alone.
    pub aggregation: f64,
    /// Packets whose acknowledgement is late, and by how much, s.
    pub late: (u32, f64),
    /// A policer before the link: packets/s and packets at once.
    pub policer: Option<(f64, f64)>,
}

impl Link {
    pub fn new(mbps: f64, rtt: f64, buffer: f64) -> Link {
        Link {
            rate: mbps * MBIT,
            rtt,
            buffer,
            lose_every: 0,
            aggregation: 0.0,
            late: (0, 0.0),
            policer: None,
        }
    }

    pub fn bdp(&self) -> f64 {
        self.rate * self.rtt
    }
}

/// The data that the application has to send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Application {
    Endless,
    /// Packets/s.
    Limited(f64),
    Paused,
}

/// The connection and its link.
pub struct Flow {
    pub now: f64,
    pub link: Link,
    pub application: Application,
    pub controller: Controller<Bbr3>,
    /// Packets that the sender knows to be delivered.
    pub delivered: u64,
    /// Packets that the sender declared lost.
    pub lost: u64,
    next: u64,
    in_flight: BTreeMap<u64, Stamp>,
    /// Acknowledgements on their way, by time and packet. Times are positive, so that the order of
    /// their bits is theirs.
    acks: BTreeMap<(u64, u64), ()>,
    declared_lost: BTreeMap<u64, ()>,
    link_free_at: f64,
    tokens: (f64, f64),
    next_send: f64,
    application_from: f64,
    application_sent: f64,
    recovery_until: Option<u64>,
    largest_acked: u64,
    rto_at: f64,
    /// The timer has expired, and nothing was acknowledged since.
    timed_out: bool,
}

impl Flow {
    pub fn new(link: Link) -> Flow {
        let tokens = (0.0, link.policer.map_or(0.0, |(_, burst)| burst));
        Flow {
            now: 1.0,
            link,
            application: Application::Endless,
            controller: Controller::new(Bbr3, 1, 10.0),
            delivered: 0,
            lost: 0,
            next: 1,
            in_flight: BTreeMap::new(),
            acks: BTreeMap::new(),
            declared_lost: BTreeMap::new(),
            link_free_at: 0.0,
            tokens,
            next_send: 0.0,
            application_from: 1.0,
            application_sent: 0.0,
            recovery_until: None,
            largest_acked: 0,
            rto_at: f64::INFINITY,
            timed_out: false,
        }
    }

    pub fn bbr(&self) -> &Bbr3Memory {
        self.controller.memory(0)
    }

    pub fn state(&self) -> Bbr3State {
        self.bbr().state
    }

    /// `C.inflight`.
    pub fn in_flight(&self) -> f64 {
        self.in_flight.len() as f64
    }

    /// Lets the application send in another way from now on.
    pub fn set_application(&mut self, application: Application) {
        self.application = application;
        self.application_from = self.now;
        self.application_sent = 0.0;
    }

    /// Sends and receives until `is_done` holds after an event; panics after `limit_s`.
    pub fn run_until(&mut self, what: &str, limit_s: f64, is_done: impl Fn(&Flow) -> bool) {
        let end = self.now + limit_s;
        while !is_done(self) {
            assert!(
                self.now < end,
                "{what}: not after {limit_s} s, in {:?}",
                self.bbr()
            );
            self.step();
        }
    }

    /// Sends and receives for a time.
    pub fn run_for(&mut self, time_s: f64) {
        let end = self.now + time_s;
        while self.now < end {
            self.step();
        }
    }

    /// The next event: a packet is sent, an acknowledgement arrives, or the timer expires.
    pub fn step(&mut self) {
        let has_room = self.in_flight() + 1.0 <= self.controller.window(0);
        let data_at = match self.application {
            Application::Endless => self.now,
            Application::Limited(rate) => self.application_from + self.application_sent / rate,
            Application::Paused => f64::INFINITY,
        };
        if has_room && data_at > self.now && self.next_send <= self.now {
            self.controller.on_app_limited(0, self.in_flight());
        }
        let send_at = if has_room {
            data_at.max(self.next_send).max(self.now)
        } else {
            f64::INFINITY
        };
        let ack_at = self
            .acks
            .keys()
            .next()
            .map_or(f64::INFINITY, |&(at, _)| f64::from_bits(at));
        let pause = self.now + 0.01;
        self.now = send_at.min(ack_at).min(self.rto_at).min(pause);
        if self.now == ack_at {
            self.receive();
        } else if self.now == self.rto_at {
            self.time_out();
        } else if self.now == send_at {
            self.send();
        }
    }

    fn send(&mut self) {
        let stamp = self
            .controller
            .on_packet_sent(0, self.now, 1.0, self.in_flight());
        let number = self.next;
        self.next += 1;
        self.application_sent += 1.0;
        self.in_flight.insert(number, stamp);
        self.next_send = self.next_send.max(self.now) + 1.0 / self.controller.pacing_rate(0);
        if let Some(at) = self.offer(number) {
            self.acks.insert((at.to_bits(), number), ());
        }
        self.restart_timer();
    }

    /// When the acknowledgement of a packet arrives; `None` if the packet is lost.
    fn offer(&mut self, number: u64) -> Option<f64> {
        let link = &mut self.link;
        if link.lose_every > 0 && number.is_multiple_of(link.lose_every) {
            return None;
        }
        if let Some((rate, burst)) = link.policer {
            let (at, tokens) = self.tokens;
            let tokens = (tokens + (self.now - at) * rate).min(burst);
            self.tokens = (self.now, if tokens >= 1.0 { tokens - 1.0 } else { tokens });
            if tokens < 1.0 {
                return None;
            }
        }
        let starts_at = self.link_free_at.max(self.now);
        if (starts_at - self.now) * link.rate > link.buffer {
            return None;
        }
        self.link_free_at = starts_at + 1.0 / link.rate;
        let mut at = self.link_free_at + link.rtt;
        if link.late.0 > 0 {
            link.late.0 -= 1;
            at += link.late.1;
        }
        if link.aggregation > 0.0 {
            at = (at / link.aggregation).ceil() * link.aggregation;
        }
        Some(at)
    }

    /// All acknowledgements of this time.
    fn receive(&mut self) {
        let mut newest: Option<Stamp> = None;
        let mut packets = 0;
        let mut undone = false;
        while let Some((&(at, number), ())) = self.acks.first_key_value() {
            if f64::from_bits(at) > self.now {
                break;
            }
            self.acks.remove(&(at, number));
            if let Some(stamp) = self.in_flight.remove(&number) {
                self.controller.on_packet_delivered(0, self.now, &stamp);
                newest = Some(stamp);
                packets += 1;
                self.largest_acked = self.largest_acked.max(number);
            } else if self.declared_lost.remove(&number).is_some() {
                self.lost -= 1;
                // After a timeout the first acknowledgement tells (RFC 3522).
                undone |= self.timed_out || self.declared_lost.is_empty();
            }
            self.delivered += 1;
            self.timed_out = false;
        }
        if undone {
            self.recovery_until = None;
            self.controller.on_spurious(0);
        }
        if let Some(stamp) = newest {
            let rtt = self.now - stamp.send_time;
            self.acknowledge(packets, stamp.send_time, rtt);
            self.controller
                .on_packets_processed(0, self.now, Some(rtt), self.in_flight());
            self.restart_timer();
        }
    }

    fn acknowledge(&mut self, packets: u32, sent_at: f64, rtt: f64) {
        let ack = Ack {
            now: self.now,
            sent_at,
            packets,
            rtt: Some(rtt),
            queue_delay: None,
            window_limited: true,
        };
        self.controller.on_ack(0, &ack);
        if self
            .recovery_until
            .is_some_and(|until| self.largest_acked >= until)
        {
            self.recovery_until = None;
            self.declared_lost.clear();
            self.controller.on_recovered(0);
        }
        let lost_below = self.largest_acked.saturating_sub(REORDERING - 1);
        let kept = self.in_flight.split_off(&lost_below);
        let lost = std::mem::replace(&mut self.in_flight, kept);
        if !lost.is_empty() && self.recovery_until.is_none() {
            self.recovery_until = Some(self.next);
            self.controller.keep_for_undo(0);
            self.controller.on_loss(0);
        }
        self.declare_lost(lost);
    }

    fn declare_lost(&mut self, packets: BTreeMap<u64, Stamp>) {
        for (number, stamp) in packets {
            self.lost += 1;
            self.declared_lost.insert(number, ());
            self.controller.on_packet_lost(0, self.now, &stamp);
        }
    }

    fn time_out(&mut self) {
        self.recovery_until = Some(self.next);
        self.timed_out = true;
        self.controller.on_timeout(0);
        let lost = std::mem::take(&mut self.in_flight);
        self.declare_lost(lost);
        self.rto_at = f64::INFINITY;
    }

    fn restart_timer(&mut self) {
        let rtt = self.controller.path(0).rtt;
        let rto = if rtt.is_finite() {
            (3.0 * rtt).max(1.0)
        } else {
            3.0
        };
        self.rto_at = if self.in_flight.is_empty() {
            f64::INFINITY
        } else {
            self.now + rto
        };
    }
}
