//! The connection of a gateway: files arrive and are delivered, and the buffer adjusts kappa.

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

    /// A file arrives at the gateway. A persistent connection keeps its window over idle times.
    pub fn pool_file(&mut self, world: &mut World, bytes: u64) {
        let Some(gateway) = &mut self.gateway else {
            return;
        };
        let file = File {
            arrived_at: world.now,
            bytes,
        };
        let packets = bytes.div_ceil(world.tcp.payload());
        gateway.push(file, packets);
        self.data_end = self.data_end.saturating_add(packets);
        self.fill_windows(world);
    }

    /// The next file that the receiver has completely.
    pub fn deliver_file(&mut self, tcp: &Tcp) -> Option<File> {
        let received = self.data_received();
        self.gateway.as_mut()?.deliver(tcp, received)
    }

    /// Data in the gateway that was never sent, packets; 0 without a gateway.
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
