//! Warnings about values that are probably not meant in a scenario, or that a run can only
//! approximate.

use anabranch_net::{Displacement, LinkConfig, Loss, MILLISECOND, Reorder, Time};

use crate::file::key::Key;
use crate::model::choice::Ecn;
use crate::model::flows::{Flow, Path, Size, Workload};
use crate::model::links::Link;
use crate::scenario::Scenario;

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
        let abe = flows().filter_map(|(i, flow)| self.beta_ecn_warning(i, flow));
        let found = times.chain(sizes).chain(ways).chain(marks).chain(abe);
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

    /// Warns of a share that is left at marks where there are none.
    fn beta_ecn_warning(&self, i: usize, flow: &Flow) -> Option<String> {
        (flow.algorithm.beta_ecn().is_some() && self.tcp.ecn == Ecn::Off).then(|| {
            let key = Key::root("flows").index(i).key("algorithm");
            format!("{key}: beta_ecn has no effect without marks: set tcp.ecn = true")
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
    let remedy = match size {
        Size::Lognormal { .. } => "lower sigma",
        _ => "raise shape",
    };
    (effective < (1.0 - TOLERANCE) * written).then(|| {
        format!(
            "{key}.size.{}: the mean size is {effective:.3e} bytes instead of {written:.3e} \
             ({:.0} % of it), because no file is larger than {:.1e} bytes: {remedy}",
            size.name(),
            100.0 * effective / written,
            size.largest_bytes(),
        )
    })
}

// Links whose delays do nothing, or more than is probably meant.

impl Scenario {
    /// Warns of keys of links that have no effect, and of jitter beyond a round trip.
    pub(super) fn link_warnings(&self) -> Vec<String> {
        let links = self.links.iter().enumerate();
        let warnings = links.flat_map(|(index, link)| {
            let all = [
                arq_warning(&link.config),
                order_warning(&link.config),
                self.jitter_warning(index, &link.config),
                self.reorder_warning(link),
            ];
            let key = Key::root("links").key(&link.name);
            let found = all.into_iter().flatten();
            found.map(move |(name, text)| format!("{key}.{name}: {text}"))
        });
        warnings.collect()
    }

    fn jitter_warning(&self, index: usize, link: &LinkConfig) -> Option<(&'static str, String)> {
        let paths = self.flows.iter().flat_map(|flow| &flow.paths);
        let over = paths.filter(|path| path.links.contains(&index));
        let rtts = over.map(|path| {
            let links = path.links.iter();
            let away: f64 = links.map(|&link| ms(self.links[link].config.delay)).sum();
            away + path.return_delay_ms.get()
        });
        let (jitter, rtt) = (
            ms(link.impairments.jitter),
            rtts.fold(f64::INFINITY, f64::min),
        );
        (jitter > rtt).then(|| {
            let text = format!(
                "delays of up to {jitter} ms are more than the round trip of {rtt} ms without \
                 queues: RTTs are mostly jitter: lower it, or raise delay_ms"
            );
            ("jitter_ms", text)
        })
    }

    fn reorder_warning(&self, link: &Link) -> Option<(&'static str, String)> {
        let Reorder { share, by } = link.config.impairments.reorder.as_ref()?;
        if *share > 0.5 {
            let text = "more packets are displaced than keep their place, which are the ones that \
                        overtake: give a share of at most 0.5";
            return Some(("reorder.share", text.to_owned()));
        }
        let Displacement::Packets { count, hold } = by else {
            return None;
        };
        let bits = f64::from(self.tcp.packet_bytes.get()) * 8.0;
        let (hold, needed) = (
            ms(*hold),
            f64::from(*count) * bits / link.rate_mbps() * 1e-3,
        );
        (hold < needed).then(|| {
            let text = format!(
                "the link transmits {count} packets in {needed:.3} ms: a packet that waits for \
                 {hold} ms is overtaken by fewer: raise it, or lower packets"
            );
            ("reorder.hold_ms", text)
        })
    }
}

fn arq_warning(link: &LinkConfig) -> Option<(&'static str, String)> {
    let Loss::Repeated(arq) = &link.loss else {
        return None;
    };
    (arq.loss.mean() == 0.0).then(|| {
        let text = "the link loses nothing that it could send again: give it loss, or drop arq";
        ("arq", text.to_owned())
    })
}

fn order_warning(link: &LinkConfig) -> Option<(&'static str, String)> {
    let impairments = &link.impairments;
    let differ = impairments.jitter > 0
        || impairments.more_delay.is_some()
        || matches!(link.loss, Loss::Repeated(_));
    (impairments.overtakes && !differ).then(|| {
        let text = "all packets have the same delay, so none overtakes another: give jitter_ms, \
                    arq, or a trace with delay_ms, or drop it";
        ("keeps_order", text.to_owned())
    })
}

fn ms(time: Time) -> f64 {
    time as f64 / MILLISECOND as f64
}
