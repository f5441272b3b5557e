//! The features that not every backend has: which of them a scenario uses and where, and the
//! refusal of a backend that lacks one. Schedulers have a table of their own.

use anabranch_net::{Loss, Queue, Rate};

use crate::error::refusal;
use crate::model::choice::Ecn;
use crate::model::flows::{Flow, Workload};
use crate::model::links::Link;
use crate::model::tcp::Recovery;
use crate::scenario::Scenario;

/// Every backend, in the order of tables and refusals.
pub const BACKENDS: &[&str] = &["sim", "quic", "kernel", "fluid", "equilibrium"];

/// Declares the features: a row is the variant, its name in refusals and tables, its key with `*`
/// for the name of a link or flow, and the backends that have it.
macro_rules! features {
    ($($Variant:ident = $name:literal, $key:literal, on: $backends:expr;)+) => {
        /// A feature of scenarios that not every backend has.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each has its name beside it")]
        pub enum Feature { $($Variant),+ }

        impl Feature {
            /// Every feature, in the order of the table.
            pub const ALL: &[Feature] = &[$(Feature::$Variant),+];

            /// Name in refusals and tables.
            pub const fn name(self) -> &'static str {
                match self { $(Feature::$Variant => $name),+ }
            }

            /// Key in a scenario, with `*` for the name of a link or flow.
            pub const fn key(self) -> &'static str {
                match self { $(Feature::$Variant => $key),+ }
            }

            /// The backends that have it.
            pub const fn backends(self) -> &'static [&'static str] {
                match self { $(Feature::$Variant => $backends),+ }
            }
        }
    };
}

const SIM: &[&str] = &["sim"];
const VIRTUAL: &[&str] = &["sim", "quic"];
const PACKETS: &[&str] = &["sim", "quic", "kernel"];

features! {
    NewReno = "newreno", "tcp.recovery", on: &["sim", "kernel", "fluid", "equilibrium"];
    Ecn = "ECN", "tcp.ecn", on: PACKETS;
    SpacedDrops = "drops of RED that are spaced by count (uniform)", "links.*.queue", on: PACKETS;
    Codel = "codel", "links.*.queue", on: PACKETS;
    FqCodel = "fq_codel", "links.*.queue", on: PACKETS;
    Pie = "pie", "links.*.queue", on: PACKETS;
    DualPi2 = "dualpi2", "links.*.queue", on: VIRTUAL;
    Policer = "a policer", "links.*.queue", on: PACKETS;
    ChangingRate = "a rate that changes", "links.*.rate_mbps", on: PACKETS;
    ChangingDelay = "a delay that changes", "links.*.delay_ms", on: PACKETS;
    Jitter = "jitter", "links.*.jitter_ms", on: PACKETS;
    Reordering = "reordering", "links.*.reorder", on: PACKETS;
    Bursts = "losses in bursts", "links.*.loss", on: PACKETS;
    Periodic = "losses in equal distances", "links.*.loss", on: PACKETS;
    ChangingLoss = "a loss probability that changes", "links.*.loss", on: PACKETS;
    Arq = "retransmissions of the link (ARQ)", "links.*.arq", on: PACKETS;
    OnOff = "data without limit and silence in turn", "flows.*.workload",
        on: &["sim", "quic", "kernel", "fluid"];
    Poisson = "files at random", "flows.*.workload", on: PACKETS;
    Gateway = "a gateway", "flows.*.workload", on: SIM;
    Messages = "a workload of messages", "flows.*.workload", on: PACKETS;
    Media = "a media source", "flows.*.workload", on: VIRTUAL;
    PacketBytes = "a packet size of its own", "flows.*.packet_bytes", on: SIM;
    Abe = "another backoff at marks (beta_ecn)", "flows.*.algorithm", on: VIRTUAL;
    WayBack = "a way back over links (back)", "flows.*.paths", on: PACKETS;
}

impl Scenario {
    /// The features that it uses, each with the key where it does so.
    pub fn features(&self) -> Vec<(Feature, String)> {
        let tcp = [
            (self.tcp.recovery == Recovery::NewReno, Feature::NewReno),
            (self.tcp.ecn != Ecn::Off, Feature::Ecn),
        ];
        let links = self.links.iter().map(|link| (&link.name, of_link(link)));
        let flows = self.flows.iter().map(|flow| {
            let own_size = flow.packet_bytes != self.tcp.packet_bytes;
            (&flow.name, of_flow(flow, own_size))
        });
        let named = links.chain(flows).flat_map(|(name, features)| {
            let key = |it: Feature| (it, it.key().replacen('*', name, 1));
            features.into_iter().map(key)
        });
        let tcp = tcp.into_iter().filter(|(used, _)| *used);
        let tcp = tcp.map(|(_, it)| (it, it.key().to_owned()));
        tcp.chain(named).collect()
    }

    /// Why `backend` does not run it: its scheduler, or the first feature that the backend lacks.
    /// `None` if it runs.
    pub fn refusal(&self, backend: &str) -> Option<String> {
        self.tcp.scheduler.refusal(backend).or_else(|| {
            let lacks = |(it, _): &(Feature, String)| !it.backends().contains(&backend);
            let (feature, key) = self.features().into_iter().find(lacks)?;
            Some(refusal(&key, feature.name(), backend, feature.backends()))
        })
    }
}

fn of_link(link: &Link) -> Vec<Feature> {
    let config = &link.config;
    let impairments = &config.impairments;
    let queue = match &config.queue {
        Queue::DropTail { .. } => None,
        Queue::Red(red) => red.uniform.then_some(Feature::SpacedDrops),
        Queue::Codel(_) => Some(Feature::Codel),
        Queue::FqCodel(_) => Some(Feature::FqCodel),
        Queue::Pie(_) => Some(Feature::Pie),
        Queue::DualPi2(_) => Some(Feature::DualPi2),
        Queue::Policer(_) => Some(Feature::Policer),
    };
    let loss = match config.loss {
        Loss::None | Loss::Bernoulli { .. } => None,
        Loss::GilbertElliott { .. } => Some(Feature::Bursts),
        Loss::Periodic { .. } => Some(Feature::Periodic),
        Loss::Steps(_) => Some(Feature::ChangingLoss),
        Loss::Repeated(_) => Some(Feature::Arq),
    };
    let rate = !matches!(config.rate, Rate::Constant { .. });
    let more = [
        (rate, Feature::ChangingRate),
        (impairments.more_delay.is_some(), Feature::ChangingDelay),
        (impairments.jitter > 0, Feature::Jitter),
        (impairments.may_reorder(), Feature::Reordering),
    ];
    let more = more.into_iter().filter(|(used, _)| *used);
    let more = more.map(|(_, feature)| feature);
    queue.into_iter().chain(more).chain(loss).collect()
}

fn of_flow(flow: &Flow, own_size: bool) -> Vec<Feature> {
    let workload = match flow.workload {
        Workload::Bulk | Workload::File { .. } => None,
        Workload::OnOff { .. } => Some(Feature::OnOff),
        Workload::Poisson { .. } => Some(Feature::Poisson),
        Workload::Gateway { .. } => Some(Feature::Gateway),
        Workload::Messages(_) => Some(Feature::Messages),
        Workload::Media(_) => Some(Feature::Media),
    };
    let has_way_back = flow.paths.iter().any(|path| !path.back.is_empty());
    let size = own_size.then_some(Feature::PacketBytes);
    let abe = flow.algorithm.beta_ecn().map(|_| Feature::Abe);
    let back = has_way_back.then_some(Feature::WayBack);
    workload
        .into_iter()
        .chain(size)
        .chain(abe)
        .chain(back)
        .collect()
}
