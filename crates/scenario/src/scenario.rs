//! The Scenario: what to simulate, complete.

use std::path;

use crate::bounded;
use crate::document::{self, Document};
use crate::error::{Error, Fault};
use crate::file;
use crate::flows::Flow;
use crate::links::Link;
use crate::measure::Measure;
use crate::memory;
use crate::resolve::{algorithm, resolve};
use crate::tcp::Tcp;

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
    written: file::Scenario,
    /// Where from, for errors.
    source: String,
}

impl Scenario {
    /// Reads a scenario file. Each override is a dotted key and a TOML value that replaces what the
    /// file says: `("links.R1.rate_mbps", "30")`, `("flows.type1.count", "20")`. A value that is not
    /// TOML, such as a bare word, is a string.
    ///
    /// # Errors
    /// One line that names file, line and key and says what was expected.
    pub fn load(path: &path::Path, overrides: &[(String, String)]) -> Result<Scenario, Error> {
        let file = path.display().to_string();
        let text = bounded::read(path).map_err(|reason| Error {
            file: file.clone(),
            line: None,
            key: None,
            message: format!("expected a scenario file, but this is {reason}"),
        })?;
        Scenario::parse(&text, &file, overrides)
    }

    /// Reads the text of a scenario; `file` is its name for errors, and trace files are looked for
    /// beside it.
    ///
    /// # Errors
    /// As [`Scenario::load`].
    pub fn parse(
        text: &[u8],
        file: &str,
        overrides: &[(String, String)],
    ) -> Result<Scenario, Error> {
        let text = std::str::from_utf8(text).map_err(|error| {
            let lossy = String::from_utf8_lossy(text);
            let message = format!(
                "expected UTF-8, got byte 0x{:02x}",
                text[error.valid_up_to()]
            );
            document::syntax(file, &lossy, error.valid_up_to(), &message)
        })?;
        let document = Document::parse(file, text, overrides)?;
        document
            .read()
            .and_then(|written| Scenario::new(written, file))
            .map_err(|fault| document.error(fault))
    }

    /// The same scenario with another algorithm (`olia`, `balia:cap=inf`) for those flows that have
    /// none of their own.
    ///
    /// # Errors
    /// If there is no such algorithm or parameter.
    pub fn with_algorithm(&self, spec: &str) -> Result<Scenario, Error> {
        let mut scenario = self.clone();
        scenario.algorithm = Some(spec.to_owned());
        scenario.written.algorithm = Some(spec.to_owned());
        for i in 0..scenario.flows.len() {
            scenario.flows[i].algorithm =
                algorithm(&scenario.written, i).map_err(|fault| Error {
                    file: self.source.clone(),
                    line: None,
                    key: Some(format!("--algorithm {spec}")),
                    message: fault.message,
                })?;
        }
        Ok(scenario)
    }

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

    /// Bytes that one run could need at most: 2 KiB for each user and each of its paths, 64 B for each
    /// packet that can be outstanding (bounded by file sizes, receive buffers and what the links hold
    /// over a round trip and a timeout), 128 B for each row of samples and finished files, and the
    /// connections of those files that a Poisson workload brings faster than its paths carry them. A
    /// scenario above `measure.max_memory_gib` is refused when it is read.
    pub fn memory_estimate(&self) -> u64 {
        memory::estimate(self) as u64
    }

    fn new(written: file::Scenario, source: &str) -> Result<Scenario, Fault> {
        let directory = path::Path::new(source)
            .parent()
            .unwrap_or(path::Path::new(""));
        let (links, flows) = resolve(&written, directory)?;
        let scenario = Scenario {
            name: written.name.clone(),
            description: written.description.clone(),
            algorithm: written.algorithm.clone(),
            seeds: written.seeds.clone(),
            measure: written.measure.clone(),
            tcp: written.tcp.clone(),
            links,
            flows,
            written,
            source: source.to_owned(),
        };
        memory::check(&scenario)?;
        Ok(scenario)
    }
}
