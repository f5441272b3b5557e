//! Captures: the packets that leave and reach the senders' hosts, in a pcapng file per host.
//!
//! A run that captures nothing pays nothing: a tap is the first link of a route, and only a path
//! that is tapped answers over a way back without links.

use std::ops::Range;
use std::path::Path;

use anabranch_capture::{Ack, Capture, Data, Endpoint, HostName, Opening};
use anabranch_net::{Cause, Time};
use anabranch_scenario::Recovery;
use anabranch_scenario::time::from_seconds;

use super::Simulation;
use crate::connection::World;
use crate::connection::subflow::Route;
use crate::ecn::Bits;
use crate::network::{Acknowledgement, Content, Network, Packet, PacketNumber};

impl Simulation {
    /// Captures the packets of every user's host from now on, the begin of the run, in a file per
    /// user in `folder`: `FLOW.pcapng`, or `FLOW-USER.pcapng` in a flow of several users.
    pub(super) fn capture_in(&mut self, folder: &Path) {
        let tap = self.network.add_tap();
        for route in self.plans.iter_mut().flat_map(|plan| &mut plan.routes) {
            let links = [&[tap], self.network.route(route.first_hop)].concat();
            route.first_hop = self.network.add_route(&links);
            if route.first_hop_back.is_none() {
                route.first_hop_back = Some(self.network.add_route(&[]));
            }
        }
        let payload = self.tcp.payload();
        let endpoint = Endpoint {
            payload,
            header: self.tcp.header_bytes,
            buffer: payload * u64::from(self.tcp.receive_packets),
            selective: self.tcp.keys.recovery != Recovery::NewReno,
        };
        let hosts = self.users.iter().map(|user| {
            let flow = &self.scenario.flows[user.slot.flow as usize];
            let links = |links: &[usize]| {
                let names = links.iter().map(|&link| &*self.scenario.links[link].name);
                names.collect::<Vec<&str>>().join("-")
            };
            HostName {
                file: file_name(&flow.name, flow.count.get(), user.slot.number),
                paths: flow.paths.iter().map(|path| links(&path.links)).collect(),
                first: user.slot.first_path,
            }
        });
        self.network.capture = Some(Box::new(Capture::new(folder, endpoint, hosts)));
    }
}

/// A name without characters that folders and shells give a meaning.
fn file_name(flow: &str, users: u32, number: u32) -> String {
    let plain = |c: char| {
        if c.is_alphanumeric() || "=.-".contains(c) {
            c
        } else {
            '_'
        }
    };
    let name: String = flow.chars().map(plain).collect();
    if users == 1 {
        name
    } else {
        format!("{name}-{number}")
    }
}

/// A connection that opens `now`.
pub(crate) fn opening(now: Time, routes: &[Route]) -> Opening {
    let path = |route: &Route| (route.opens_at(now), from_seconds(route.propagation_s));
    Opening {
        at: now,
        paths: routes.iter().map(path).collect(),
    }
}

impl Network {
    /// Captures a data packet at a tap, and sends it over the next link.
    pub(crate) fn pass(&mut self, now: Time, mut packet: Packet) -> Result<(), Cause> {
        if let (Some(capture), Content::Data) = (&mut self.capture, packet.content()) {
            let data = Data {
                sent_at: packet.sent_at,
                path: packet.path,
                sequence: packet.sequence,
                data_sequence: packet.data_sequence,
                bytes: packet.bytes,
                ecn_capable: packet.bits.has(Bits::CAPABLE),
                reduced: packet.bits.has(Bits::REDUCED),
            };
            capture.data(packet.connection, now, &data);
        }
        packet.hop += 1;
        self.send(now, packet)
    }
}

impl World<'_> {
    /// Captures an acknowledgement that arrives `at`; the receiver's clock shows the present.
    pub(crate) fn capture_ack(
        &mut self,
        at: Time,
        ack: &Acknowledgement,
        blocks: &[Range<PacketNumber>],
    ) {
        if let Some(capture) = &mut self.network.capture {
            let captured = Ack {
                sent_at: ack.sent_at,
                path: ack.path,
                cumulative: ack.cumulative,
                blocks,
                data_cumulative: ack.data_cumulative,
                echo: ack.ecn.has(Bits::ECHO),
            };
            capture.ack(ack.connection, at, self.now, &captured);
        }
    }
}
