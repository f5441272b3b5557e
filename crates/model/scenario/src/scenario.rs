//! The complete scenario.

use crate::file::written;
use crate::model::flows::{Flow, Workload};
use crate::model::links::Link;
use crate::model::measure::Measure;
use crate::model::messages::Messages;
use crate::model::tcp::Tcp;
use crate::origin::{Inputs, Origin, names_in_one_folder};

/// Links, flows, algorithms, workloads, seeds: everything a run needs, with defaults resolved and
/// names turned into indexes.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Name in results and reports.
    pub name: String,
    /// Purpose of the scenario.
    pub description: String,
    /// The algorithm of flows without one of their own, as written; `None`: each has its own.
    pub algorithm: Option<String>,
    /// One run per seed.
    pub seeds: Vec<u64>,
    /// Measured quantities, and the duration of the run.
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
    /// Text and files from which it was read.
    pub(crate) origin: Origin,
}

impl Scenario {
    /// Whether a flow names its own algorithm, so that [`with_algorithm`](Self::with_algorithm)
    /// does not change it. `flow` is its index.
    pub fn has_own_algorithm(&self, flow: usize) -> bool {
        self.written.flows[flow].algorithm.is_some()
    }

    /// Whether a flow states its `start_spread_s`; otherwise it has the default.
    pub fn states_start_spread(&self, flow: usize) -> bool {
        self.written.flows[flow].start_spread_s.is_some()
    }

    /// The file it was read from, or the name it was given for errors; trace files lie beside it.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The scenario as TOML, overrides included. Trace files keep their relative names.
    pub fn to_toml(&self) -> String {
        toml::to_string(&self.written).expect("a scenario that was read can be written")
    }

    /// The text that it was read from, to which [`set`](Self::set) was applied.
    pub fn original(&self) -> &str {
        &self.origin.text
    }

    /// Overrides of values of the text: dotted keys and TOML values, in the order applied.
    pub fn set(&self) -> &[(String, String)] {
        &self.origin.set
    }

    /// The contents of the files that it names, by their names in the scenario.
    pub fn inputs(&self) -> &Inputs {
        &self.origin.inputs
    }

    /// As [`to_toml`](Self::to_toml), with names of its files that are unique within one folder;
    /// and the contents of these files by that name.
    pub fn to_folder(&self) -> (String, Inputs) {
        let names = names_in_one_folder(self.inputs());
        let mut scenario = self.clone();
        for link in scenario.written.links.values_mut() {
            if let Some(file) = &mut link.trace_file {
                file.clone_from(&names[file.as_str()]);
            }
        }
        for flow in &mut scenario.written.flows {
            if let Workload::Messages(Messages {
                file: Some(file), ..
            }) = &mut flow.workload
            {
                file.clone_from(&names[file.as_str()]);
            }
        }
        let contents = self.inputs().iter();
        let files =
            contents.map(|(written, content)| (names[written.as_str()].clone(), content.clone()));
        (scenario.to_toml(), files.collect())
    }
}
