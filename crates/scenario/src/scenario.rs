//! The Scenario: what to simulate, complete.

use crate::file::written;
use crate::model::flows::Flow;
use crate::model::links::Link;
use crate::model::measure::Measure;
use crate::model::tcp::Tcp;

/// Links, flows, algorithms, workloads, seeds: everything a run needs, with every default resolved
/// and every name turned into an index.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// What it is called in results and reports.
    pub name: String,
    /// What it shows.
    pub description: String,
    /// What flows without an algorithm of their own run, as written; `None`: each has its own.
    pub algorithm: Option<String>,
    /// A run for each.
    pub seeds: Vec<u64>,
    /// What is measured, and for how long.
    pub measure: Measure,
    /// How endpoints behave.
    pub tcp: Tcp,
    /// The links, in the order of the file.
    pub links: Vec<Link>,
    /// The groups of users, in the order of the file.
    pub flows: Vec<Flow>,
    /// What was written, overrides included.
    pub(crate) written: written::Scenario,
    /// Where from, for errors.
    pub(crate) source: String,
}

impl Scenario {
    /// Whether a flow names its own algorithm, so that [`with_algorithm`](Self::with_algorithm) leaves
    /// it alone. `flow` is its index.
    pub fn has_own_algorithm(&self, flow: usize) -> bool {
        self.written.flows[flow].algorithm.is_some()
    }

    /// The file it was read from, or the name it was given for errors; trace files lie beside it.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The scenario as TOML, overrides included. Trace files keep their relative names.
    pub fn to_toml(&self) -> String {
        toml::to_string(&self.written).expect("a scenario that was read can be written")
    }
}
