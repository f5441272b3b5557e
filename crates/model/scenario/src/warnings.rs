//! Warnings about values that are probably not meant in a scenario, or that a run can only
//! approximate.

use crate::file::key::Key;
use crate::model::endpoint::Ecn;
use crate::model::flows::{Flow, Path, Workload};
use crate::scenario::Scenario;

mod links;

/// Smaller relative errors of a mean need no warning: few runs could show them.
const TOLERANCE: f64 = 0.01;

impl Scenario {
    /// One line for each value that a run can only approximate and for what is probably a mistake:
    /// the key, and what the run does. Empty for almost every scenario.
    pub fn warnings(&self) -> Vec<String> {
        let flows = || self.flows.iter().enumerate();
        let times = flows().filter_map(|(i, flow)| self.times_warning(i, flow));
        let sizes = flows().filter_map(|(i, flow)| size_warning(i, flow));
        let ways = flows().flat_map(|(i, flow)| self.way_back_warnings(i, flow));
        let marks = flows().filter_map(|(i, flow)| self.marks_warning(i, flow));
        let found = times.chain(sizes).chain(ways).chain(marks);
        let found = found.chain(self.load_warnings());
        let found = found.chain(self.link_warnings());
        found
            .map(|text| format!("{}: {text}", self.source()))
            .collect()
    }

    /// Warns of a flow of which the measurement window sees nothing.
    fn times_warning(&self, i: usize, flow: &Flow) -> Option<String> {
        let key = Key::root("flows").index(i);
        let (end_s, warmup_s) = (self.measure.duration_s.get(), self.measure.warmup_s.get());
        let start_s = flow.start_s.get();
        if start_s >= end_s {
            return Some(format!(
                "{key}.start_s: flow {:?} starts at {start_s} s, but the run ends at {end_s} s: it \
                 sends nothing",
                flow.name
            ));
        }
        let stop_s = flow.stop_s?.get();
        (stop_s <= warmup_s).then(|| {
            format!(
                "{key}.stop_s: flow {:?} stops at {stop_s} s, but the measurement begins at \
                 {warmup_s} s: its goodput is 0",
                flow.name
            )
        })
    }

    /// Warns of a scalable rule whose acknowledgements do not count marks.
    fn marks_warning(&self, i: usize, flow: &Flow) -> Option<String> {
        let info = flow.algorithm.info();
        (info.scalable && self.tcp.ecn != Ecn::Accurate).then(|| {
            let (name, key) = (info.name, Key::root("flows").index(i).key("algorithm"));
            format!(
                "{key}: {name} reduces by the share of marks that acknowledgements count, and \
                 without it halves its window as reno does: set tcp.ecn = \"accurate\""
            )
        })
    }

    /// Warns of paths whose data and ACKs use the same link, which is one direction of a cable.
    fn way_back_warnings(&self, i: usize, flow: &Flow) -> Vec<String> {
        let of_path = |(j, path): (usize, &Path)| {
            let both = path.back.iter().find(|link| path.links.contains(link))?;
            let key = Key::root("flows")
                .index(i)
                .key("paths")
                .index(j)
                .key("back");
            let name = &self.links[*both].name;
            Some(format!(
                "{key}: link {name:?} carries the path's data, too: ACKs and data wait in one \
                 queue, as on a half-duplex medium: give the other direction a link of its own"
            ))
        };
        flow.paths.iter().enumerate().filter_map(of_path).collect()
    }

    /// Warns of links and flows whose files arrive faster than they can be carried: the number of
    /// unfinished files grows until the run ends.
    fn load_warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let mut of_a_link = vec![false; self.flows.len()];
        for (index, link) in self.links.iter().enumerate() {
            let confined = |flow: &Flow| flow.paths.iter().all(|path| path.links.contains(&index));
            let loads = self.flows.iter().map(|flow| match confined(flow) {
                true => self.offered_mbps(flow).unwrap_or(0.0),
                false => 0.0,
            });
            let loads: Vec<f64> = loads.collect();
            let (offered, capacity) = (loads.iter().sum(), link.rate_mbps());
            if offered <= capacity {
                continue;
            }
            for (known, load) in of_a_link.iter_mut().zip(&loads) {
                *known |= *load > 0.0;
            }
            let key = Key::root("links").key(&link.name);
            warnings.push(format!("{key}: {}", overload(offered, capacity, "link")));
        }
        for (i, flow) in self.flows.iter().enumerate() {
            let rate = |&link: &usize| self.links[link].rate_mbps();
            let slowest = |links: &[usize]| links.iter().map(rate).fold(f64::INFINITY, f64::min);
            let each: f64 = flow.paths.iter().map(|path| slowest(&path.links)).sum();
            match self.offered_mbps(flow) {
                Some(offered) if offered > each && !of_a_link[i] => {
                    let key = Key::root("flows").index(i).key("workload");
                    warnings.push(format!("{key}: {}", overload(offered, each, "paths")));
                }
                _ => {}
            }
        }
        warnings
    }

    /// The load of the files of all users of a flow, headers included; `None` without arrivals.
    fn offered_mbps(&self, flow: &Flow) -> Option<f64> {
        let (per_s, size) = match &flow.workload {
            Workload::Poisson { rate_per_s, size } => (rate_per_s.get(), size),
            Workload::Gateway {
                clients,
                rate_per_s,
                size,
                ..
            } => (f64::from(clients.get()) * rate_per_s.get(), size),
            _ => return None,
        };
        let packet_bytes = f64::from(flow.packet_bytes.get());
        let on_the_wire = packet_bytes / (packet_bytes - f64::from(self.tcp.header_bytes));
        let bytes = size.effective_mean_bytes() * on_the_wire;
        Some(f64::from(flow.count.get()) * per_s * bytes * 8e-6)
    }
}

/// Text of the warning of an overload; `of`: a link, or the paths of a flow.
fn overload(offered: f64, capacity: f64, of: &str) -> String {
    format!(
        "files arrive at {offered:.3} Mbps, {:.3} times the {capacity} Mbps of the {of}: the number \
         of unfinished files grows until the run ends: lower rate_per_s or mean_bytes",
        offered / capacity
    )
}

/// Warns if files beyond the largest possible size would carry more than 1 % of the load.
fn size_warning(i: usize, flow: &Flow) -> Option<String> {
    let (kind, size) = match &flow.workload {
        Workload::Poisson { size, .. } => ("poisson", size),
        Workload::Gateway { size, .. } => ("gateway", size),
        _ => return None,
    };
    let key = Key::root("flows").index(i).key("workload").key(kind);
    let (written, effective) = (size.mean_bytes(), size.effective_mean_bytes());
    (effective < (1.0 - TOLERANCE) * written).then(|| {
        format!(
            "{key}.size.pareto: the mean size is {effective:.3e} bytes instead of {written:.3e} \
             ({:.0} % of it), because no file is larger than {:.1e} bytes: raise shape",
            100.0 * effective / written,
            size.largest_bytes()
        )
    })
}
