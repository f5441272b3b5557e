//! The packets of a path, as a rule by delivery rates is told of them.

use std::collections::BTreeMap;

use anabranch_control::{AnyController, Stamp};

/// The packets that are in flight, by number, and those that are to be reported.
#[derive(Clone, Debug, Default)]
pub(super) struct Packets {
    in_flight: BTreeMap<u64, Stamp>,
    acknowledged: Vec<Stamp>,
    lost: Vec<Stamp>,
}

impl Packets {
    pub fn on_sent(&mut self, number: u64, stamp: Stamp) {
        self.in_flight.insert(number, stamp);
    }

    pub fn on_acknowledged(&mut self, number: u64) {
        self.acknowledged.extend(self.in_flight.remove(&number));
    }

    pub fn on_lost(&mut self, number: u64) {
        self.lost.extend(self.in_flight.remove(&number));
    }

    /// Reports the losses, once a recovery has begun: the library declares them before.
    pub fn report_losses(&mut self, controller: &mut AnyController, r: usize, now: f64) {
        for stamp in self.lost.drain(..) {
            controller.on_packet_lost(r, now, &stamp);
        }
    }

    /// Reports the packets of an ACK frame, after which `in_flight` packets are left. The library
    /// detects the losses that the frame shows only then.
    pub fn report(
        &mut self,
        controller: &mut AnyController,
        r: usize,
        now: f64,
        rtt: f64,
        in_flight: f64,
    ) {
        self.report_losses(controller, r, now);
        self.acknowledged.sort_by_key(|stamp| stamp.packet_id);
        for stamp in self.acknowledged.drain(..) {
            controller.on_packet_delivered(r, now, &stamp);
        }
        controller.on_packets_processed(r, now, Some(rtt), in_flight);
    }
}
