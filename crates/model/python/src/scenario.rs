//! Scenario files.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anabranch_scenario::{Inputs, Scenario as Complete};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple, PyType};

use crate::errors::{ScenarioError, raise};
use crate::network;

/// A scenario, checked and complete.
#[pyclass(frozen, module = "anabranch")]
pub struct Scenario(pub(crate) Complete);

#[pymethods]
impl Scenario {
    /// Refuses every argument: a scenario is read, not built.
    #[new]
    #[pyo3(signature = (*_arguments))]
    fn new(_arguments: &Bound<'_, PyTuple>) -> PyResult<Scenario> {
        Err(PyTypeError::new_err(
            "a Scenario is read: Scenario.load(path) from a file, Scenario.parse(text) from text",
        ))
    }

    /// Reads a scenario file. Each pair of `set` is a dotted key and a TOML value; text that is not
    /// TOML, such as a bare word, is a string. A file in which a flow has no algorithm gets
    /// `algorithm`.
    ///
    /// Raises ScenarioError.
    #[staticmethod]
    #[pyo3(signature = (path, set=Vec::new(), algorithm=None))]
    fn load(
        path: PathBuf,
        set: Vec<(String, String)>,
        algorithm: Option<&str>,
    ) -> PyResult<Scenario> {
        Complete::load_for(&path, &set, algorithm)
            .map(Scenario)
            .map_err(raise)
    }

    /// Reads the text of a scenario; `file` is its name for errors. `inputs` are the contents of
    /// trace files by name; those that are not among them are read from the directory of `file`.
    /// A text in which a flow has no algorithm gets `algorithm`.
    ///
    /// Raises ScenarioError.
    #[staticmethod]
    #[pyo3(signature = (text, file="<string>", set=Vec::new(), inputs=BTreeMap::new(), algorithm=None))]
    fn parse(
        text: &str,
        file: &str,
        set: Vec<(String, String)>,
        inputs: BTreeMap<String, Vec<u8>>,
        algorithm: Option<&str>,
    ) -> PyResult<Scenario> {
        let inputs = inputs.into_iter().map(|(name, bytes)| (name, bytes.into()));
        Complete::parse_with(text.as_bytes(), file, &set, &inputs.collect(), algorithm)
            .map(Scenario)
            .map_err(raise)
    }

    /// The name of the scenario.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// Purpose of the scenario.
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

    /// Warnings about values that are probably not meant or that a run can only approximate, a line
    /// each; empty for almost every scenario.
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

    /// Raises ScenarioError if the backend of this name does not have the scenario's scheduler.
    fn check_scheduler(&self, backend: &str) -> PyResult<()> {
        let refusal = self.0.tcp.scheduler.refusal(backend);
        refusal.map_or(Ok(()), |text| Err(ScenarioError::new_err(text)))
    }

    /// Raises ScenarioError if a run of packets could need more than `measure.max_memory_gib`.
    fn check_memory(&self) -> PyResult<()> {
        self.0.check_memory().map_err(raise)
    }

    /// Input of the theory, as plain data: `packet_bytes`, `header_bytes`, `links`, `flows`.
    fn network<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        network::network(py, &self.0)
    }

    /// The text that it was read from, to which `set` was applied.
    #[getter]
    fn original(&self) -> &str {
        self.0.original()
    }

    /// Overrides of values of the text: dotted keys and TOML values.
    #[getter]
    fn set(&self) -> Vec<(String, String)> {
        self.0.set().to_vec()
    }

    /// The contents of its trace files, by their names in the scenario.
    #[getter]
    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        contents(py, self.0.inputs())
    }

    /// The scenario as TOML and the contents of its trace files, by names for one folder.
    fn to_folder<'py>(&self, py: Python<'py>) -> PyResult<(String, Bound<'py, PyDict>)> {
        let (text, files) = self.0.to_folder();
        Ok((text, contents(py, &files)?))
    }

    /// `Scenario.parse(original, source, set, inputs)`: needs no file.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        let (py, scenario) = (slf.py(), slf.get());
        let of = (
            "parse",
            scenario.original(),
            scenario.source(),
            scenario.set(),
            scenario.inputs(py)?,
        );
        let parse = py.import("operator")?.getattr("methodcaller")?.call1(of)?;
        Ok((parse, (slf.get_type(),)))
    }

    fn __repr__(&self) -> String {
        let of = |number: usize, what: &str| match number {
            1 => format!("1 {what}"),
            _ => format!("{number} {what}s"),
        };
        format!(
            "<Scenario {:?}: {}, {}, {}, {} s>",
            self.0.name,
            of(self.0.links.len(), "link"),
            of(self.0.flows.len(), "flow"),
            self.0.algorithm.as_deref().unwrap_or("algorithms per flow"),
            self.0.measure.duration_s
        )
    }
}

/// A function and its arguments, as pickle wants them.
type Reduced<'py> = (Bound<'py, PyAny>, (Bound<'py, PyType>,));

fn contents<'py>(py: Python<'py>, inputs: &Inputs) -> PyResult<Bound<'py, PyDict>> {
    let contents = PyDict::new(py);
    for (name, content) in inputs {
        contents.set_item(name, PyBytes::new(py, content))?;
    }
    Ok(contents)
}
