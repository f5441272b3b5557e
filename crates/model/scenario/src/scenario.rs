//! The complete scenario, and its origin: its text and files, so that it can be read again
//! elsewhere.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::file::{document, written};
use crate::model::flows::{Flow, Messages, Workload};
use crate::model::links::{Link, Measure};
use crate::model::tcp::Tcp;

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

    /// The section `[tcp]` of [`to_toml`](Self::to_toml), without its header.
    pub fn tcp_toml(&self) -> String {
        toml::to_string(&self.written.tcp).expect("a scenario that was read can be written")
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

// Origin of a scenario: its text and files, so that it can be read again elsewhere.

/// The contents of the files that a scenario names, by their names in the scenario.
pub type Inputs = BTreeMap<String, Arc<[u8]>>;

/// The text of a scenario, the values that replaced others, and the files that it names.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) text: Arc<str>,
    pub(crate) set: Vec<(String, String)>,
    pub(crate) inputs: Inputs,
}

impl Origin {
    /// The algorithm of flows without one of their own.
    pub(crate) fn replace_algorithm(&mut self, spec: &str) {
        let value = toml::Value::from(spec).to_string();
        self.set.push(("algorithm".to_owned(), value));
    }
}

/// Scenarios that mean the same are equal, however they were written.
impl PartialEq for Origin {
    fn eq(&self, _: &Origin) -> bool {
        true
    }
}

/// Where the files that a scenario names are found: among those given, else in the directory.
pub(crate) struct Files<'a> {
    given: &'a Inputs,
    directory: &'a Path,
    /// Contents read so far.
    pub(crate) read: Inputs,
}

impl<'a> Files<'a> {
    pub(crate) fn new(directory: &'a Path, given: &'a Inputs) -> Files<'a> {
        let read = Inputs::new();
        Files {
            given,
            directory,
            read,
        }
    }

    /// The content of a file.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(crate) fn content(&mut self, name: &str) -> Result<Arc<[u8]>, String> {
        let known = self.read.get(name).or_else(|| self.given.get(name));
        let content = match known {
            Some(content) => Arc::clone(content),
            None => document::read(&self.directory.join(name))?.into(),
        };
        self.read.insert(name.to_owned(), Arc::clone(&content));
        Ok(content)
    }
}

/// A name for each input that is unique within one folder, by its name in the scenario: the file's
/// name, with `.trace` appended where a result has files of that kind.
pub(crate) fn names_in_one_folder(inputs: &Inputs) -> BTreeMap<&str, String> {
    let mut taken: BTreeMap<String, &[u8]> = BTreeMap::new();
    let mut names = BTreeMap::new();
    for (written, content) in inputs {
        let file = Path::new(written).file_name().unwrap_or_default();
        let mut base = file.to_string_lossy().into_owned();
        if [".toml", ".json", ".parquet", ".svg", ".png"]
            .iter()
            .any(|kind| base.ends_with(kind))
        {
            base += ".trace";
        }
        let numbered = (2..).map(|n| format!("{n}-{base}"));
        let name = std::iter::once(base.clone())
            .chain(numbered)
            .find(|name| taken.get(name).is_none_or(|other| *other == &content[..]))
            .expect("there are more numbers than inputs");
        taken.insert(name.clone(), content);
        names.insert(written.as_str(), name);
    }
    names
}
