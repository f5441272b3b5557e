//! Reads scenarios: from a file, from text, or with another algorithm.

use std::path;

use crate::error::Error;
use crate::file::document::{self, Document};
use crate::file::key::Fault;
use crate::file::written;
use crate::memory;
use crate::resolve::{algorithm, resolve};
use crate::scenario::{Files, Inputs, Origin, Scenario};

impl Scenario {
    /// Reads a scenario file. Each override is a dotted key and a TOML value that replaces what the
    /// file says: `("links.R1.rate_mbps", "30")`, `("flows.type1.count", "20")`. A value that is
    /// not TOML, such as a bare word, is a string.
    ///
    /// # Errors
    /// One line that names file, line and key and says what was expected.
    pub fn load(path: &path::Path, overrides: &[(String, String)]) -> Result<Scenario, Error> {
        let scenario = Scenario::load_for(path, overrides, None)?;
        scenario.check_memory()?;
        Ok(scenario)
    }

    /// As [`Scenario::load`], for a backend that may need no packets: the memory is not checked
    /// ([`Scenario::check_memory`]). A file in which a flow has no algorithm gets this one.
    ///
    /// # Errors
    /// As [`Scenario::load`].
    pub fn load_for(
        path: &path::Path,
        overrides: &[(String, String)],
        algorithm: Option<&str>,
    ) -> Result<Scenario, Error> {
        let file = path.display().to_string();
        let text = document::read(path).map_err(|message| Error::of_file(&file, message))?;
        Scenario::parse_with(&text, &file, overrides, &Inputs::new(), algorithm)
    }

    /// Reads the text of a scenario; `file` is its name for errors, and trace files are read
    /// from its directory.
    ///
    /// # Errors
    /// As [`Scenario::load`].
    pub fn parse(
        text: &[u8],
        file: &str,
        overrides: &[(String, String)],
    ) -> Result<Scenario, Error> {
        let scenario = Scenario::parse_with(text, file, overrides, &Inputs::new(), None)?;
        scenario.check_memory()?;
        Ok(scenario)
    }

    /// As [`Scenario::parse`], for a backend that may need no packets: the memory is not checked
    /// ([`Scenario::check_memory`]). Files that are not among `inputs`, which are contents by name,
    /// are read from the directory. A text in which a flow has no algorithm gets `algorithm`.
    ///
    /// # Errors
    /// As [`Scenario::load`].
    pub fn parse_with(
        text: &[u8],
        file: &str,
        overrides: &[(String, String)],
        inputs: &Inputs,
        algorithm: Option<&str>,
    ) -> Result<Scenario, Error> {
        if let Some(message) = document::error(text) {
            return Err(Error::of_file(file, message));
        }
        let text = std::str::from_utf8(text).map_err(|error| {
            let lossy = String::from_utf8_lossy(text);
            let message = format!(
                "expected UTF-8, got byte 0x{:02x}",
                text[error.valid_up_to()]
            );
            document::syntax(file, &lossy, error.valid_up_to(), &message)
        })?;
        let document = Document::parse(file, text, overrides)?;
        if document.is_empty() {
            let message = "expected a scenario, got an empty file: `anabranch init` writes one to \
                           start from";
            return Err(Error::of_file(file, message));
        }
        let mut origin = Origin {
            text: text.into(),
            set: overrides.to_vec(),
            inputs: inputs.clone(),
        };
        let mut written: written::Scenario =
            document.read().map_err(|fault| document.error(fault))?;
        if let Some(spec) = algorithm
            && written.algorithm.is_none()
            && written.flows.iter().any(|flow| flow.algorithm.is_none())
        {
            written.algorithm = Some(spec.to_owned());
            origin.replace_algorithm(spec);
        }
        Scenario::new(written, file, origin).map_err(|fault| document.error(fault))
    }

    /// Checks that a run of packets needs at most `measure.max_memory_gib`.
    ///
    /// # Errors
    /// As [`Scenario::load`], at the key that matters.
    pub fn check_memory(&self) -> Result<(), Error> {
        memory::check(self).map_err(|fault| {
            match Document::parse(&self.source, &self.origin.text, &self.origin.set) {
                Ok(document) => document.error(fault),
                Err(error) => error,
            }
        })
    }

    /// The same scenario with another algorithm (`olia`, `balia:cap=inf`) for flows without one of
    /// their own.
    ///
    /// # Errors
    /// If the algorithm or a parameter is unknown.
    pub fn with_algorithm(&self, spec: &str) -> Result<Scenario, Error> {
        let mut scenario = self.clone();
        scenario.algorithm = Some(spec.to_owned());
        scenario.written.algorithm = Some(spec.to_owned());
        scenario.origin.replace_algorithm(spec);
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

    fn new(
        mut written: written::Scenario,
        source: &str,
        mut origin: Origin,
    ) -> Result<Scenario, Fault> {
        let directory = path::Path::new(source)
            .parent()
            .unwrap_or(path::Path::new(""));
        let mut files = Files::new(directory, &origin.inputs);
        let (tcp, links, flows) = resolve(&written, &mut files)?;
        origin.inputs = files.read;
        written.tcp = written.tcp.complete();
        Ok(Scenario {
            name: written.name.clone(),
            description: written.description.clone(),
            algorithm: written.algorithm.clone(),
            seeds: written.seeds.clone(),
            measure: written.measure.clone(),
            tcp,
            links,
            flows,
            written,
            source: source.to_owned(),
            origin,
        })
    }
}
