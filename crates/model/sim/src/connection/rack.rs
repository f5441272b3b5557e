//! Loss detection by send times, and the probe for the last packets (RFC 8985, RACK-TLP).
//!
//! A packet is lost if a packet sent after it has arrived, and it is late by a reordering window
//! (section 6.2). Send times tell transmissions of the same packet apart, so lost retransmissions
//! are detected too.

use std::collections::VecDeque;

use anabranch_net::Time;

use crate::connection::rack::reordering::Reordering;
use crate::connection::sender::Sender;
use crate::connection::timer::Timer;
use crate::network::{Acknowledgement, PacketNumber};

/// A transmission: when, and which packet. Of those at the same time the lower number went first.
type Transmission = (Time, PacketNumber);

/// What RACK stores of a path.
#[derive(Debug, Default)]
pub(crate) struct Rack {
    /// Transmissions in order, without those that arrived or were declared lost before all later
    /// ones.
    sent: VecDeque<Transmission>,
    /// Transmissions before the first timeout, until it is known whether the timeout was spurious.
    before_timeout: VecDeque<Transmission>,
    /// The last transmission that is known to have arrived, and its RTT.
    newest: Transmission,
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

/// What an acknowledgement shows.
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
            self.window.on_sent_again(now, sequence);
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

mod reordering;
#[cfg(test)]
mod tests;
