//! Runs whose packets are captured.

use std::path::Path;

use anabranch_capture::{Capture, Endpoint, HostName};
use anabranch_scenario::Recovery;

use super::Simulation;

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
