//! Loss detection by send times, and the probe for the last packets (RFC 8985, RACK-TLP).
//!
//! A packet is lost if a packet sent after it has arrived, and it is late by a reordering window
//! (section 6.2). Send times tell transmissions of the same packet apart, so lost retransmissions
//! are detected too.

use std::collections::{BTreeMap, VecDeque};

use anabranch_net::Time;
use anabranch_scenario::time::SECOND;

use crate::calendar::Event;
use crate::connection::sender::{DUPLICATES, Sender};
use crate::connection::timers::{Timer, TimerEvent};
use crate::connection::{Connection, World};
use crate::ecn::Bits;
use crate::network::{Acknowledgement, PacketNumber};

/// Recoveries without a duplicate after which a window that has grown is small again
/// (`RACK.reo_wnd_persist`).
const PERSISTS: u32 = 16;

/// The part of the probe timeout beyond two RTTs (Linux' `TCP_TIMEOUT_MIN`, two ticks of 1 ms).
const SLACK: Time = SECOND / 500;

/// The longest time for which a peer may delay an acknowledgement (Linux' `TCP_RTO_MIN`).
const LONGEST_ACK_DELAY: Time = SECOND / 5;

/// A transmission: when, and which packet. Of those at the same time the lower number went first.
type Transmission = (Time, PacketNumber);

/// RACK's state of a path.
#[derive(Debug, Default)]
pub(crate) struct Rack {
    /// Transmissions in order, without those that arrived or were declared lost before all later
    /// ones.
    sent: VecDeque<Transmission>,
    /// Transmissions before the first timeout, until it is known whether the timeout was spurious.
    before_timeout: VecDeque<Transmission>,
    /// The last transmission that is known to have arrived.
    newest: Transmission,
    /// The RTT of that transmission.
    rtt: Time,
    /// The smallest RTT; `None` before the first.
    min_rtt: Option<Time>,
    window: Reordering,
    /// The next packet to be sent for the first time.
    next: PacketNumber,
    /// Expires when the first packet that is late exceeds the reordering window.
    pub reordering: Timer,
    /// Expires when a probe must be sent.
    pub probing: Timer,
    pub probe: Option<Probe>,
}

/// The probe of a tail whose fate is not known yet.
#[derive(Debug)]
pub(crate) struct Probe {
    pub sent_at: Time,
    /// All packets sent before it are below this.
    pub end: PacketNumber,
    /// Whether it is a retransmission.
    pub again: bool,
}

/// The result of detection at an acknowledgement.
#[derive(Debug, Default)]
pub(crate) struct Detected {
    /// A loss event: the first loss found since the last recovery ended.
    pub loss: bool,
    /// The probe has repaired a loss, which was not detected before (section 7.4.2).
    pub repaired_by_probe: bool,
    /// When the timer event for the reordering window must be scheduled.
    pub late_at: Option<Time>,
}

impl Rack {
    /// Stores a transmission.
    #[cold]
    pub fn on_sent(&mut self, now: Time, sequence: PacketNumber) {
        self.sent.push_back((now, sequence));
        if sequence < self.next {
            self.window.again.entry(sequence).or_insert(now);
        }
        self.next = self.next.max(sequence + 1);
    }

    /// Processes an acknowledgement after the scoreboard has; `smoothed` is the smoothed RTT.
    pub fn on_ack(
        &mut self,
        sender: &mut Sender,
        ack: &Acknowledgement,
        now: Time,
        smoothed: Option<Time>,
    ) -> Detected {
        let rtt = now - ack.sent_at;
        self.min_rtt = Some(self.min_rtt.map_or(rtt, |least| least.min(rtt)));
        let transmission = (ack.sent_at, ack.selective);
        if transmission > self.newest {
            self.newest = transmission;
            self.rtt = rtt;
        }
        let probe = self.probe.as_ref();
        let of_probe = probe.is_some_and(|it| it.again && ack.selective + 1 == it.end);
        self.window.on_ack(sender, ack, of_probe);
        let repaired_by_probe = self.ends_probe(sender, ack);
        Detected {
            repaired_by_probe,
            ..self.detect(sender, now, smoothed)
        }
    }

    /// Declares lost what was sent before the newest arrival and is late (section 6.2, step 5).
    pub fn detect(&mut self, sender: &mut Sender, now: Time, smoothed: Option<Time>) -> Detected {
        let window = self.window.window(sender, self.min_rtt, smoothed);
        self.reordering.stop();
        let mut late_at = None;
        while let Some(&(sent_at, sequence)) = self.sent.front()
            && (sent_at, sequence) <= self.newest
        {
            if sender.is_in_flight(sequence) {
                let late = sent_at + self.rtt + window;
                if late > now {
                    late_at = self.reordering.start(late);
                    break;
                }
                sender.declare_lost(sequence);
            }
            self.sent.pop_front();
        }
        Detected {
            loss: sender.begins_recovery(),
            late_at,
            ..Detected::default()
        }
    }

    /// Whether the probe's fate is known, and it has repaired a loss: the acknowledgement that
    /// reaches its end is its own, and not one of the original, which would come first.
    fn ends_probe(&mut self, sender: &Sender, ack: &Acknowledgement) -> bool {
        let una = sender.una();
        let ended = self.probe.take_if(|probe| una >= probe.end);
        ended.is_some_and(|probe| probe.again && ack.sent_at == probe.sent_at)
    }

    /// The retransmission timer expired: all outstanding packets are declared lost.
    pub fn on_timeout(&mut self) {
        if self.before_timeout.is_empty() {
            std::mem::swap(&mut self.before_timeout, &mut self.sent);
        }
        self.sent.clear();
        self.reordering.stop();
        self.probing.stop();
        self.probe = None;
    }

    /// The first acknowledgement after timeouts: if they were spurious, what was outstanding before
    /// them is in flight.
    pub fn after_timeout(&mut self, spurious: bool) {
        let mut before = std::mem::take(&mut self.before_timeout);
        if spurious {
            before.append(&mut self.sent);
            self.sent = before;
        }
    }

    /// Whether a probe may be sent: no other is on its way, and no loss is known or suspected
    /// (section 7.2).
    pub fn may_probe(&self, sender: &Sender) -> bool {
        let quiet = sender.outstanding() > 0 && sender.arrived() == 0 && !sender.is_recovering();
        quiet && self.probe.is_none()
    }

    /// Starts the probe's timer, where the last packets of a flight may be lost (section 7.2):
    /// `wait` is the probe timeout, and `rto_at` when the retransmission timer expires, which is
    /// never first. Gives the time at which a timer event must be scheduled.
    pub fn restart_probing(
        &mut self,
        sender: &Sender,
        now: Time,
        wait: Time,
        rto_at: Option<Time>,
    ) -> Option<Time> {
        if !self.may_probe(sender) {
            self.probing.stop();
            return None;
        }
        let before_rto = rto_at.map_or(Time::MAX, |rto_at| rto_at - 1);
        self.probing.start((now + wait).min(before_rto))
    }
}

/// The reordering window (section 6.2, steps 3 and 4), which says how late a packet may be, and the
/// observed reordering that it follows from.
#[derive(Debug, Default)]
struct Reordering {
    /// Whether a packet's first transmission has arrived after that of a later packet. The RFC
    /// counts packets that were never sent again; as in Linux (`tcp_try_undo_partial`), the echoed
    /// timestamp tells the first transmission of others, too.
    seen: bool,
    /// All packets that are known to have arrived are below this (`RACK.fack`).
    end: PacketNumber,
    /// The cumulative acknowledgement.
    una: PacketNumber,
    /// When packets from `una` on were sent again first.
    again: BTreeMap<PacketNumber, Time>,
    /// Quarters of the smallest RTT in the window beside the first (`RACK.reo_wnd_mult` - 1).
    more_quarters: u32,
    /// Recoveries until the window is small again (`RACK.reo_wnd_persist`).
    persists: u32,
    /// The window does not grow again before everything below this is acknowledged
    /// (`RACK.dsack_round`).
    round_end: Option<PacketNumber>,
    was_recovering: bool,
}

impl Reordering {
    /// Processes an acknowledgement; `of_probe`: it reports that a probe arrived twice.
    pub fn on_ack(&mut self, sender: &mut Sender, ack: &Acknowledgement, of_probe: bool) {
        let sequence = ack.selective;
        let duplicate = ack.ecn.has(Bits::DUPLICATE);
        let again = self.again.get(&sequence);
        let is_first = again.is_none_or(|&again| ack.sent_at < again);
        if !duplicate && is_first && (self.una..self.end.max(1) - 1).contains(&sequence) {
            self.seen = true;
            sender.ignore_duplicates();
        }
        self.end = self.end.max(sequence + 1).max(ack.cumulative);
        self.una = self.una.max(ack.cumulative);
        while let Some(first) = self.again.first_entry()
            && *first.key() < self.una
        {
            first.remove();
        }
        self.adapt(sender, duplicate && !of_probe);
    }

    /// Grows by a quarter of the smallest RTT in a round trip that shows that a retransmission was
    /// not needed; as in Linux (`tcp_dsack_seen`), only on a path that reorders.
    fn adapt(&mut self, sender: &Sender, duplicate: bool) {
        let recovered = self.was_recovering && !sender.is_recovering();
        if self.round_end.is_some_and(|end| self.una >= end) {
            self.round_end = None;
        }
        if duplicate && self.seen && self.round_end.is_none() {
            self.round_end = Some(sender.next());
            self.more_quarters += 1;
            self.persists = PERSISTS;
        } else if recovered {
            self.persists = self.persists.saturating_sub(1);
            if self.persists == 0 {
                self.more_quarters = 0;
            }
        }
        self.was_recovering = sender.is_recovering();
    }

    /// The window. Without reordering it is 0 in recovery and with three arrivals above a hole.
    pub fn window(&self, sender: &Sender, min_rtt: Option<Time>, smoothed: Option<Time>) -> Time {
        let sure = sender.is_recovering() || sender.arrived() >= DUPLICATES;
        if !self.seen && sure {
            return 0;
        }
        let window = Time::from(1 + self.more_quarters) * min_rtt.unwrap_or_default() / 4;
        smoothed.map_or(window, |smoothed| window.min(smoothed))
    }
}

/// A connection's side of RACK-TLP: its two timers, and the probe.
impl Connection {
    /// Applies what RACK has detected on path `r`; true if a recovery begins.
    pub(super) fn on_detected(&mut self, world: &mut World, r: usize, detected: &Detected) -> bool {
        let losses = [detected.loss, detected.repaired_by_probe];
        for _ in losses.iter().filter(|&&loss| loss) {
            self.controller.on_loss(r);
            self.paths[r].totals.loss_events += 1;
        }
        if detected.repaired_by_probe && !detected.loss {
            self.controller.on_recovered(r);
        }
        self.schedule(world, Event::Rack, r, detected.late_at);
        detected.loss
    }

    /// A timer event of RACK.
    pub fn on_rack_timer(&mut self, world: &mut World, r: usize) {
        let Some(rack) = &mut self.paths[r].rack else {
            return;
        };
        let events = [&mut rack.reordering, &mut rack.probing].map(|t| t.on_event(world.now));
        for event in events {
            if let TimerEvent::Later(time) = event {
                self.schedule(world, Event::Rack, r, Some(time));
            }
        }
        if events[0] == TimerEvent::Expired {
            self.detect_late(world, r);
        }
        if events[1] == TimerEvent::Expired {
            self.send_probe(world, r);
        }
    }

    /// The reordering window of a late packet is over.
    fn detect_late(&mut self, world: &mut World, r: usize) {
        let path = &mut self.paths[r];
        let Some(rack) = &mut path.rack else { return };
        let detected = rack.detect(&mut path.sender, world.now, path.rto.smoothed());
        let loss = self.on_detected(world, r, &detected);
        self.report_losses(world.now, r);
        self.open_window(world.now, r);
        if loss {
            self.retransmit(world, r);
            self.tell_program(world, r, false);
        }
        self.fill_windows(world);
    }

    /// Starts the probe's timer anew: new data was sent, or acknowledged.
    #[cold]
    pub(super) fn restart_probing(&mut self, world: &mut World, r: usize) {
        let path = &mut self.paths[r];
        let Some(rack) = &mut path.rack else { return };
        // A lone packet's acknowledgement may be delayed: by 200 ms, as far as Linux knows
        // (`tcp_schedule_loss_probe`).
        let lone = path.sender.outstanding() == 1 && world.tcp.keys.delayed_acks;
        let delay = if lone { LONGEST_ACK_DELAY } else { 0 };
        let wait = path
            .rto
            .smoothed()
            .map_or(SECOND, |srtt| 2 * srtt + delay + SLACK);
        let rto_at = path.timer.deadline();
        let time = rack.restart_probing(&path.sender, world.now, wait, rto_at);
        self.schedule(world, Event::Rack, r, time);
    }

    /// Sends new data beyond the window, or the last packet again (section 7.3).
    fn send_probe(&mut self, world: &mut World, r: usize) {
        let path = &self.paths[r];
        let may_probe = |rack: &Rack| rack.may_probe(&path.sender);
        if !path.rack.as_deref().is_some_and(may_probe) {
            return;
        }
        let (sent_at, end) = (world.now, path.sender.next());
        let again = !self.send_queued_or_new(world, r);
        if again {
            let path = &mut self.paths[r];
            path.totals.retransmitted_packets += 1;
            let data = path.data_of(end - 1);
            self.transmit::<true>(world, r, data, Some(end - 1));
        }
        if let Some(rack) = &mut self.paths[r].rack {
            rack.probing.stop();
            rack.probe = Some(Probe {
                sent_at,
                end,
                again,
            });
        }
        self.restart_timer(world, r);
    }

    /// Sends the next data of the path's queue, or new data; false if there is none.
    fn send_queued_or_new(&mut self, world: &mut World, r: usize) -> bool {
        let Some(scheduler) = &mut self.linux_scheduler else {
            return self.send_scheduled(world, r);
        };
        let Some((data, again)) = scheduler.take(r) else {
            return false;
        };
        self.paths[r].totals.retransmitted_packets += u64::from(again);
        self.transmit::<true>(world, r, data, None);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ecn::Bits;

    /// Packets sent one unit apart from 0 on.
    fn sent(packets: u64) -> (Rack, Sender) {
        let (mut rack, mut sender) = (Rack::default(), Sender::new(true));
        for now in 0..packets {
            let sequence = sender.send_new();
            rack.on_sent(now, sequence);
        }
        (rack, sender)
    }

    /// An acknowledgement 100 after its packet was sent.
    fn ack(
        rack: &mut Rack,
        sender: &mut Sender,
        cumulative: u64,
        selective: u64,
        at: Time,
    ) -> Detected {
        let ack = Acknowledgement {
            sent_at: at,
            cumulative,
            selective,
            ..Acknowledgement::default()
        };
        sender.on_ack(&ack);
        rack.on_ack(sender, &ack, at + 100, None)
    }

    #[test]
    fn a_packet_is_lost_a_quarter_of_an_rtt_after_one_sent_later_has_arrived() {
        let (mut rack, mut sender) = sent(3);
        let detected = ack(&mut rack, &mut sender, 0, 1, 1);
        // Sent at 0, with an RTT of 100 and a window of 25.
        assert_eq!((detected.loss, detected.late_at), (false, Some(125)));
        assert!(rack.detect(&mut sender, 125, None).loss);
        assert_eq!(sender.send_lost(), Some(0));
        assert_eq!(sender.send_lost(), None);
    }

    #[test]
    fn a_lost_retransmission_is_lost_when_a_packet_sent_after_it_arrives() {
        let (mut rack, mut sender) = sent(4);
        (1..4).for_each(|sequence| {
            ack(&mut rack, &mut sender, 0, sequence, sequence);
        });
        assert_eq!(sender.send_lost(), Some(0));
        rack.on_sent(103, 0);
        sender.send_new();
        rack.on_sent(104, 4);
        // Nothing sent after the retransmission has arrived, then packet 4 has.
        rack.detect(&mut sender, 204, None);
        assert!(!sender.has_lost());
        let detected = ack(&mut rack, &mut sender, 0, 4, 104);
        assert!(!detected.loss, "the same recovery");
        assert_eq!(sender.send_lost(), Some(0));
    }

    #[test]
    fn after_a_spurious_timeout_what_was_sent_before_it_can_be_lost() {
        let (mut rack, mut sender) = sent(3);
        sender.on_timeout();
        rack.on_timeout();
        sender.send_lost();
        rack.on_sent(90, 0);
        // The original of packet 0 arrives.
        let first = Acknowledgement {
            cumulative: 1,
            ..Acknowledgement::default()
        };
        sender.on_ack(&first);
        sender.undo_timeout();
        rack.after_timeout(true);
        rack.on_ack(&mut sender, &first, 100, None);
        // Packet 1 is lost after all.
        let detected = ack(&mut rack, &mut sender, 1, 2, 2);
        assert_eq!(detected.late_at, Some(126));
        assert!(rack.detect(&mut sender, 126, None).loss);
        assert_eq!(sender.send_lost(), Some(1));
    }

    /// A duplicate SACK of a packet: what was sent at this time had arrived before.
    fn duplicate(rack: &mut Rack, sender: &mut Sender, cumulative: u64, selective: u64, at: Time) {
        let mut ack = Acknowledgement {
            sent_at: at,
            cumulative,
            selective,
            ..Acknowledgement::default()
        };
        ack.ecn.set(Bits::DUPLICATE);
        sender.on_ack(&ack);
        rack.on_ack(sender, &ack, at + 100, None);
    }

    fn window(rack: &Rack, sender: &Sender) -> Time {
        rack.window.window(sender, rack.min_rtt, Some(80))
    }

    /// Packet 0 arrives after three that were sent later and declared it lost: on a path that
    /// reorders three arrivals declare nothing lost any more.
    #[test]
    fn on_a_path_that_reorders_only_time_declares_packets_lost() {
        let (mut rack, mut sender) = sent(12);
        (1..4).for_each(|sequence| {
            ack(&mut rack, &mut sender, 0, sequence, sequence);
        });
        assert_eq!(sender.send_lost(), Some(0));
        rack.on_sent(103, 0);
        // The first transmission of packet 0, not the second.
        ack(&mut rack, &mut sender, 4, 0, 0);
        let detected: Vec<Detected> = (5..9)
            .map(|sequence| ack(&mut rack, &mut sender, 4, sequence, sequence))
            .collect();
        assert!(!sender.has_lost());
        // Packet 4 was sent at 4: 4 + 100 + 25.
        assert!(detected.iter().all(|it| !it.loss && it.late_at != Some(0)));
        assert_eq!(rack.reordering.deadline(), Some(129));
        rack.detect(&mut sender, 129, None);
        assert_eq!(sender.send_lost(), Some(4));
    }

    /// A retransmission that fills its hole is no reordering.
    #[test]
    fn a_retransmission_that_arrives_late_is_no_reordering() {
        let (mut rack, mut sender) = sent(8);
        (1..4).for_each(|sequence| {
            ack(&mut rack, &mut sender, 0, sequence, sequence);
        });
        assert_eq!(sender.send_lost(), Some(0));
        rack.on_sent(103, 0);
        ack(&mut rack, &mut sender, 4, 0, 103);
        assert_eq!(window(&rack, &sender), 0, "in recovery");
    }

    /// Section 6.2, step 4: a quarter of the smallest RTT, 25, more in a round trip with a
    /// duplicate, up to the smoothed RTT, 80, until 16 recoveries have passed without one.
    #[test]
    fn the_window_grows_with_duplicates_and_is_forgotten_after_16_recoveries() {
        let (mut rack, mut sender) = sent(4);
        ack(&mut rack, &mut sender, 0, 1, 1);
        duplicate(&mut rack, &mut sender, 0, 1, 1);
        assert_eq!(window(&rack, &sender), 25, "no reordering is known");
        // Packet 0 arrives behind packet 1.
        ack(&mut rack, &mut sender, 2, 0, 0);
        assert_eq!(window(&rack, &sender), 25);
        for (times, expected) in [(1, 50), (1, 50)] {
            (0..times).for_each(|_| duplicate(&mut rack, &mut sender, 2, 0, 1));
            assert_eq!(window(&rack, &sender), expected, "once per round trip");
        }
        // The next round trip begins with packet 4.
        for (last, expected) in [(4, 75), (5, 80), (6, 80)] {
            ack(&mut rack, &mut sender, last, last - 1, last);
            let sequence = sender.send_new();
            rack.on_sent(last, sequence);
            duplicate(&mut rack, &mut sender, last, 0, last);
            assert_eq!(window(&rack, &sender), expected);
        }
        for recovery in 1..=16 {
            assert_eq!(window(&rack, &sender), 80, "after {recovery} recoveries");
            sender.declare_lost(sender.next() - 1);
            sender.begins_recovery();
            let una = sender.next();
            // The acknowledgement before the last of the recovery, and the last.
            ack(&mut rack, &mut sender, una - 1, una - 2, 50);
            ack(&mut rack, &mut sender, una, una - 1, 50);
            let sequence = sender.send_new();
            rack.on_sent(60, sequence);
        }
        assert_eq!(window(&rack, &sender), 25);
    }
}
