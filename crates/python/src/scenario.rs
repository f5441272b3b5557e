//! Scenario files.

use std::path::PathBuf;

use anabranch_scenario::Scenario as Complete;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::raise;
use crate::network;

/// A scenario, checked and complete.
#[pyclass(frozen, module = "anabranch")]
pub struct Scenario(pub(crate) Complete);

#[pymethods]
impl Scenario {
    /// Reads a scenario file. Each pair of `set` is a dotted key and a TOML value; text that is not TOML,
    /// such as a bare word, is a string.
    ///
    /// Raises ScenarioError.
    #[staticmethod]
    #[pyo3(signature = (path, set=Vec::new()))]
    fn load(path: PathBuf, set: Vec<(String, String)>) -> PyResult<Scenario> {
        Complete::load(&path, &set)
            .map(Scenario)
            .map_err(raise)
    }

    /// Reads the text of a scenario; `file` is its name for errors; traces are read from its
    /// directory.
    ///
    /// Raises ScenarioError.
    #[staticmethod]
    #[pyo3(signature = (text, file="<string>", set=Vec::new()))]
    fn parse(text: &str, file: &str, set: Vec<(String, String)>) -> PyResult<Scenario> {
        Complete::parse(text.as_bytes(), file, &set)
            .map(Scenario)
            .map_err(raise)
    }

    /// The name of the scenario.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// What it shows.
    #[getter]
    fn description(&self) -> &str {
        &self.0.description
    }

    /// The algorithm of flows without one of their own; None if each has its own.
    #[getter]
    fn algorithm(&self) -> Option<&str> {
        self.0.algorithm.as_deref()
    }

    /// One run per seed.
    #[getter]
    fn seeds(&self) -> Vec<u64> {
        self.0.seeds.clone()
    }

    /// Simulated time, s.
    #[getter]
    fn duration_s(&self) -> f64 {
        self.0.measure.duration_s.get()
    }

    /// When totals begin, s.
    #[getter]
    fn warmup_s(&self) -> f64 {
        self.0.measure.warmup_s.get()
    }

    /// The names of the flows, in the order of the file.
    #[getter]
    fn flow_names(&self) -> Vec<&str> {
        self.0.flows.iter().map(|flow| flow.name.as_str()).collect()
    }

    /// The names of the links, in the order of the file.
    #[getter]
    fn link_names(&self) -> Vec<&str> {
        self.0.links.iter().map(|link| link.name.as_str()).collect()
    }

    /// The file it was read from, or the name it was given for errors; trace files lie beside it.
    #[getter]
    fn source(&self) -> &str {
        self.0.source()
    }

    /// The scenario as TOML, overrides included.
    #[getter]
    fn text(&self) -> String {
        self.0.to_toml()
    }

    /// What a run can only approximate, a line each; empty for almost every scenario.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.0.warnings()
    }

    /// The same scenario with another algorithm for those flows that have none of their own.
    ///
    /// Raises ScenarioError.
    fn with_algorithm(&self, spec: &str) -> PyResult<Scenario> {
        self.0.with_algorithm(spec).map(Scenario).map_err(raise)
    }

    /// What theory needs of it, as plain data: `packet_bytes`, `header_bytes`, `links`, `flows`.
    fn network<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        network::network(py, &self.0)
    }

    fn __repr__(&self) -> String {
        format!("Scenario({:?})", self.0.name)
    }
}
