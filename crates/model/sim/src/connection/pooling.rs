//! The connection of a gateway: files arrive and are delivered, and the buffer adjusts kappa. So is
//! that of an application which sends messages, without kappa.

use anabranch_control::{Adjuster, BufferSample};
use anabranch_net::{Dice, Time};
use anabranch_scenario::time::{from_seconds, seconds};

use crate::connection::gateway::{File, Gateway};
use crate::connection::tcp::Tcp;
use crate::connection::{Connection, World};

impl Connection {
    /// Makes this the connection of a gateway; `adjuster` adjusts its kappa, if there is one.
    pub fn pool(&mut self, adjuster: Option<Adjuster>, dice: Dice) {
        let gateway = Gateway::new(adjuster, dice);
        self.set_kappa(gateway.kappa());
        self.gateway = Some(Box::new(gateway));
    }

    /// Makes this the connection of an application that sends messages.
    pub fn queue_messages(&mut self) {
        self.gateway = Some(Box::new(Gateway::of_messages()));
    }

    /// A file arrives at the gateway, whose persistent connection keeps its window over idle times;
    /// or the application submits a message.
    pub fn pool_file(&mut self, world: &mut World, bytes: u64) {
        let payload = self.payload(world.tcp);
        let Some(gateway) = &mut self.gateway else {
            return;
        };
        let file = File {
            arrived_at: world.now,
            bytes,
        };
        let packets = bytes.div_ceil(payload);
        let has_messages = gateway.has_messages();
        gateway.push(file, packets);
        if has_messages {
            self.restart_after_idle(world);
        }
        self.data_end = self.data_end.saturating_add(packets);
        self.fill_windows(world);
    }

    /// The next file that the receiver has completely.
    pub fn deliver_file(&mut self, tcp: &Tcp) -> Option<File> {
        let (payload, received) = (self.payload(tcp), self.data_received());
        self.gateway.as_mut()?.deliver(payload, received)
    }

    /// Data in the gateway or of messages that was never sent, packets; 0 for other workloads.
    pub fn buffer_packets(&self) -> u64 {
        match self.gateway {
            Some(_) => self.data_end - self.data_next,
            None => 0,
        }
    }

    /// The weight of the connection's rule; 0 for a rule without one.
    pub fn kappa(&self) -> f64 {
        self.controller.weight().unwrap_or(0.0)
    }

    /// Time until the next sample of the gateway's buffer; `None` if kappa is fixed.
    pub fn wait_to_adjust(&mut self) -> Option<Time> {
        self.gateway.as_mut()?.wait_s().map(from_seconds)
    }

    /// Samples the gateway's buffer, for kappa.
    pub fn adjust(&mut self, now: Time) {
        let path = self.controller.path(0);
        let sample = BufferSample {
            age_s: seconds(now - self.started_at),
            buffer_packets: self.buffer_packets() as f64,
            arrived_packets: self.data_end as f64,
            window: path.window,
            base_rtt: path.base_rtt,
        };
        let gateway = self.gateway.as_mut();
        let kappa = gateway.and_then(|gateway| gateway.sample(&sample));
        self.set_kappa(kappa);
    }

    /// Gives the adjusted kappa to the rule, if the rule has one.
    fn set_kappa(&mut self, kappa: Option<f64>) {
        if let Some(kappa) = kappa {
            self.controller.set_weight(kappa);
        }
    }
}
