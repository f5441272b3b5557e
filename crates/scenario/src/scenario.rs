//! The complete scenario.

use crate::file::written;
use crate::model::flows::Flow;
use crate::model::links::Link;
use crate::model::measure::Measure;
use crate::model::tcp::Tcp;

/// Links, flows, algorithms, workloads, seeds: everything a run needs, with defaults resolved and
/// names turned into indexes.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Its name in results and reports.
    pub name: String,
    /// What it shows.
    pub description: String,
    /// The algorithm of flows without one of their own, as written; `None`: each has its own.
    pub algorithm: Option<String>,
    /// One run per seed.
    pub seeds: Vec<u64>,
    /// What is measured, and for how long.
    pub measure: Measure,
    /// How endpoints behave.
    pub tcp: Tcp,
    /// The links, in the order of the file.
    pub links: Vec<Link>,
    /// The groups of users, in the order of the file.
    pub flows: Vec<Flow>,
    /// The file as written, overrides included.
    pub(crate) written: written::Scenario,
    /// The file's name, for errors.
    pub(crate) source: String,
}

impl Scenario {
    /// Whether a flow names its own algorithm, so that [`with_algorithm`](Self::with_algorithm)
    /// does not change it. `flow` is its index.
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
