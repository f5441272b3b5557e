//! The state of a program of `anabranch-kernel` on a path of a Linux host, and quantities that
//! follow from it: `crates/kernel/kernel/bpf/hold.h` has the names and constants.

use std::collections::VecDeque;

use anabranch_control::{Delivery, Stamp};
use anabranch_net::Time;
use anabranch_scenario::time::{SECOND, seconds};

use crate::connection::subflow::Subflow;
use crate::connection::tcp::Tcp;
use crate::connection::timers::Timer;
use crate::network::{Acknowledgement, PacketNumber};

/// Windows in a send buffer (`BUFFER_WINDOWS`).
pub(crate) const BUFFER_WINDOWS: u32 = 4;
/// Packets in the send buffer of a new path (`FIRST_BUFFER`).
pub(crate) const FIRST_BUFFER: u32 = 128;
/// Packets that the scheduler assigns as a unit (`FRAGMENT_PACKETS`).
const FRAGMENT_PACKETS: u64 = 22;
/// Less than this that is not acknowledged ends a burst, bytes (`LITTLE`).
pub(super) const LITTLE: u64 = 1 << 16;
/// The unit of a burst, bytes (`BURST_UNIT`), and its longest (`LONGEST_BURST`).
pub(super) const BURST_UNIT: u64 = 4096;
const LONGEST_BURST: u64 = 0x8000;
/// Rounds of slow start that are looked ahead.
const ROUNDS: usize = 6;
/// Packets that are sent without pacing at the start of a path (`tcp_update_skb_after_send`).
const UNPACED_PACKETS: u64 = 10;
/// Linux measures times in microseconds.
pub(super) const PS_PER_US: Time = SECOND / 1_000_000;

/// The state of the program of a path.
#[derive(Debug, Default)]
pub(crate) struct Program {
    /// Since when the path is held.
    pub held_since: Option<Time>,
    /// Whether another path was faster when it joined.
    pub began_late: bool,
    /// The window when the last acknowledgement or timeout was over, packets.
    pub window: u32,
    /// The round trip ends when something from here on is acknowledged.
    pub round_end: PacketNumber,
    /// Where the connection had little to send last, units of written data.
    pub burst_start: u64,
    pub mean_burst: u64,
    /// The most unsent packets (`TCP_NOTSENT_LOWAT`).
    pub unsent: u32,
    /// Linux' `sk_pacing_rate`, packets/s; 0 while the path is held.
    pub pacing_rate: f64,
    pub is_paced: bool,
    pub next_send: Time,
    pub pacing: Timer,
    /// The packets since the window was full, as `tcp_cwnd_validate` remembers it.
    pub limited: bool,
    pub most_out: u32,
    pub limited_end: PacketNumber,
    pub delivery: Delivery,
    /// Notes of the outstanding packets, from `first` on; `None` for one that has arrived.
    pub stamps: VecDeque<Option<Stamp>>,
    pub first: PacketNumber,
    /// The last delivery rate: packets, and the time in which they were delivered, us.
    pub rate: Option<(u64, u64)>,
    /// Whether the siblings' rules leave the path out.
    pub left_out: bool,
    pub probing: Timer,
    /// When the answers to probes come, and when the last came.
    pub answers: VecDeque<Time>,
    pub answered_at: Time,
    /// When the path may send: its handshake is over.
    pub opens_at: Time,
}

/// Bytes of the written data, in units of bursts.
pub(super) fn units(tcp: &Tcp, written: PacketNumber) -> u64 {
    written * tcp.payload() / BURST_UNIT
}

pub(super) fn srtt_us(path: &Subflow) -> Option<u64> {
    path.rto.smoothed().map(|srtt| srtt / PS_PER_US)
}

/// The rate at which Linux lets a path send, packets/s (`tcp_update_pacing_rate`).
pub(super) fn pacing_rate(path: &Subflow, ssthresh: f64) -> f64 {
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
    pub fn note_burst(&mut self, written: u64, held: u64, buffer: u64) {
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
    pub fn burst_bytes(&self, written: u64) -> u64 {
        BURST_UNIT * (written - self.burst_start).max(self.mean_burst)
    }

    /// Time until what the scheduler assigns next has arrived, us (`arrival_us`).
    pub fn arrival_us(&self, path: &Subflow, at: &Arrival) -> u64 {
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
    pub fn note_delivered(
        &mut self,
        now: Time,
        path: &Subflow,
        ack: &Acknowledgement,
        min_rtt: f64,
    ) {
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

/// The state of a path on which the arrival of its next data depends.
pub(crate) struct Arrival {
    pub window: u32,
    pub threshold: u64,
    pub unsent: u64,
    pub is_own: bool,
    pub recovering: bool,
}
