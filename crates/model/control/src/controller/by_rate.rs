//! Rules that act by samples of the delivery rate: what the endpoint reports of each packet.

use crate::controller::{Controller, within_bounds};
use crate::delivery::{Delivery, Event, Stamp};
use crate::rule::Rule;

impl<R: Rule> Controller<R> {
    /// Whether the rule acts by delivery rates ([`Rule::BY_RATE`]), so that the endpoint reports
    /// each packet with the methods below and paces.
    pub fn is_by_rate(&self) -> bool {
        R::BY_RATE
    }

    /// The rate at which path `r` sends at most, packets/s; infinite if it is not paced.
    pub fn pacing_rate(&self, r: usize) -> f64 {
        self.rule.pacing_rate(&self.paths[r], &self.memory[r])
    }

    /// The rule's state of path `r`.
    pub fn memory(&self, r: usize) -> &R::Memory<f64> {
        &self.memory[r]
    }

    /// Path `r` sends a packet of `size` packets where `in_flight` are in the network without it.
    /// The endpoint keeps the result until the packet is acknowledged or sent again.
    pub fn on_packet_sent(&mut self, r: usize, now: f64, size: f64, in_flight: f64) -> Stamp {
        self.account_deliveries();
        if in_flight <= 0.0 {
            self.tell(r, &Event::Restart { now });
        }
        self.deliveries[r].on_sent(now, size, in_flight, self.paths[r].window)
    }

    /// A packet of path `r` is acknowledged for the first time since it was last sent.
    pub fn on_packet_delivered(&mut self, r: usize, now: f64, packet: &Stamp) {
        self.deliveries[r].on_delivered(now, packet);
    }

    /// A packet of path `r` is declared lost.
    pub fn on_packet_lost(&mut self, r: usize, now: f64, packet: &Stamp) {
        self.deliveries[r].on_lost(packet);
        self.tell(r, &Event::Lost { now, packet });
    }

    /// The acknowledgement is processed, with all packets that it reports or shows to be lost;
    /// `in_flight` packets are left in the network, and `rtt` is its sample, s.
    pub fn on_packets_processed(&mut self, r: usize, now: f64, rtt: Option<f64>, in_flight: f64) {
        let min_rtt = self.paths[r].base_rtt;
        if let Some(sample) = self.deliveries[r].sample(now, rtt, in_flight, min_rtt) {
            self.tell(r, &Event::Acked(&sample));
        }
    }

    /// Path `r` has room for more than `in_flight` packets, and the application has no data.
    pub fn on_app_limited(&mut self, r: usize, in_flight: f64) {
        self.account_deliveries();
        self.deliveries[r].mark_app_limited(in_flight);
    }

    /// Tells the rule of an event; its window takes effect.
    #[inline(never)]
    pub(super) fn tell(&mut self, r: usize, event: &Event) {
        self.account_deliveries();
        let delivery = &mut self.deliveries[r];
        let window = self
            .rule
            .on_event(&self.paths[r], &mut self.memory[r], delivery, event);
        if !window.is_nan() {
            self.paths[r].window = within_bounds(window);
        }
    }

    /// Makes the accounts of paths that have none yet. Other rules never have any.
    fn account_deliveries(&mut self) {
        self.deliveries
            .resize(self.paths.len(), Delivery::default());
    }
}
