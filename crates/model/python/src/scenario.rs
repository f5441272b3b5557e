//! Scenario files, and a scenario as plain data for theory.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anabranch_net::{LinkConfig, Loss, MILLISECOND, Queue, Rate, SECOND, Time};
use anabranch_scenario::{Ecn, Flow, Inputs, Link, Path, Scenario as Complete, Workload};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple, PyType};

use crate::errors::{ScenarioError, raise};

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

    /// The section `[tcp]` of `text`, without its header.
    #[getter]
    fn tcp(&self) -> String {
        self.0.tcp_toml()
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
        network(py, &self.0)
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

// A scenario as plain data for theory.

/// Links and flows as dicts, with the names of the scenario file where it has them.
pub fn network<'py>(py: Python<'py>, scenario: &Complete) -> PyResult<Bound<'py, PyDict>> {
    let links: PyResult<Vec<_>> = scenario.links.iter().map(|it| link(py, it)).collect();
    let flows: PyResult<Vec<_>> = scenario
        .flows
        .iter()
        .enumerate()
        .map(|(index, it)| {
            let entry = flow(py, it)?;
            // The default spread is for packets, whose order is chance; equations have no chance.
            if !scenario.states_start_spread(index) {
                entry.set_item("start_spread_s", 0.0)?;
            }
            Ok(entry)
        })
        .collect();
    let network = PyDict::new(py);
    network.set_item("packet_bytes", scenario.tcp.packet_bytes.get())?;
    network.set_item("header_bytes", scenario.tcp.header_bytes)?;
    let initial_window = scenario.tcp.initial_window_packets.get();
    network.set_item("initial_window_packets", initial_window)?;
    network.set_item("ecn", scenario.tcp.ecn != Ecn::Off)?;
    let buffer = scenario.tcp.receive_buffer_packets.get();
    network.set_item("receive_buffer_packets", buffer)?;
    network.set_item("sample_s", scenario.measure.sample_ms.get() / 1e3)?;
    network.set_item("links", links?)?;
    network.set_item("flows", flows?)?;
    Ok(network)
}

/// `queue` is the discipline; `red` holds the points (queue, probability) of RED's curve, None for
/// other disciplines; `limit_packets` is None where any number may wait; `policer_mbps` is the rate
/// of a policer, None for other disciplines; `more` are keys that change rate, delay or losses.
fn link<'py>(py: Python<'py>, link: &Link) -> PyResult<Bound<'py, PyDict>> {
    let LinkConfig {
        delay,
        queue,
        loss,
        down,
        rate,
        impairments,
    } = &link.config;
    let seconds = |time: Time| time as f64 / SECOND as f64;
    let down: Vec<_> = down
        .iter()
        .map(|&(a, b)| (seconds(a), seconds(b)))
        .collect();
    let entry = PyDict::new(py);
    entry.set_item("name", &link.name)?;
    entry.set_item("rate_mbps", link.rate_mbps())?;
    entry.set_item("delay_ms", *delay as f64 / MILLISECOND as f64)?;
    entry.set_item("loss_probability", loss.mean())?;
    entry.set_item("down_s", down)?;
    let more = [
        (!matches!(rate, Rate::Constant { .. }), "rate"),
        (impairments.more_delay.is_some(), "delay"),
        (impairments.jitter > 0, "jitter"),
        (impairments.may_reorder(), "reorder"),
        (matches!(loss, Loss::Steps(_)), "loss"),
        (matches!(loss, Loss::GilbertElliott { .. }), "bursts"),
        (matches!(loss, Loss::Periodic { .. }), "periodic"),
        (matches!(loss, Loss::Repeated(_)), "arq"),
    ];
    let more: Vec<_> = more
        .iter()
        .filter(|(has, _)| *has)
        .map(|(_, key)| *key)
        .collect();
    let policer_mbps = match queue {
        Queue::Policer(policer) => Some(policer.bits_per_second / 1e6),
        _ => None,
    };
    let red = match queue {
        Queue::Red(red) => Some(red.curve()),
        _ => None,
    };
    let (limit_packets, limit_bytes) = match queue {
        Queue::DropTail { packets, bytes } => (*packets, *bytes),
        Queue::Red(red) => (Some(red.limit_packets), None),
        Queue::Pie(pie) => (Some(pie.limit_packets), None),
        Queue::Policer(_) => (None, None),
        Queue::Codel(codel) => (Some(codel.limit_packets), None),
        Queue::FqCodel(fq_codel) => (Some(fq_codel.codel.limit_packets), None),
        Queue::DualPi2(dualpi2) => (Some(dualpi2.limit_packets), None),
    };
    let name = match queue {
        Queue::Red(red) if red.uniform => "red with uniform = true",
        _ => queue.name(),
    };
    entry.set_item("queue", name)?;
    entry.set_item("policer_mbps", policer_mbps)?;
    entry.set_item("more", more)?;
    entry.set_item("red", red)?;
    entry.set_item("limit_packets", limit_packets)?;
    entry.set_item("limit_bytes", limit_bytes)?;
    Ok(entry)
}

/// `workload` is the workload's name; "on_off" has `on_s` and `off_s`, "file" has `bytes`.
fn flow<'py>(py: Python<'py>, flow: &Flow) -> PyResult<Bound<'py, PyDict>> {
    let paths: PyResult<Vec<_>> = flow.paths.iter().map(|it| path(py, it)).collect();
    let entry = PyDict::new(py);
    entry.set_item("name", &flow.name)?;
    entry.set_item("count", flow.count.get())?;
    entry.set_item("packet_bytes", flow.packet_bytes.get())?;
    entry.set_item("algorithm", flow.algorithm.to_string())?;
    entry.set_item("start_s", flow.start_s.get())?;
    entry.set_item("start_spread_s", flow.start_spread_s.get())?;
    entry.set_item("stop_s", flow.stop_s.map(|stop| stop.get()))?;
    entry.set_item("paths", paths?)?;
    let workload = match &flow.workload {
        Workload::Bulk => "bulk",
        Workload::File { bytes } => {
            entry.set_item("bytes", bytes.get())?;
            "file"
        }
        Workload::OnOff { on_s, off_s } => {
            entry.set_item("on_s", on_s.get())?;
            entry.set_item("off_s", off_s.get())?;
            "on_off"
        }
        Workload::Poisson { .. } => "poisson",
        Workload::Gateway { .. } => "gateway",
        Workload::Messages(_) => "messages",
        Workload::Media(_) => "media",
    };
    entry.set_item("workload", workload)?;
    Ok(entry)
}

fn path<'py>(py: Python<'py>, path: &Path) -> PyResult<Bound<'py, PyDict>> {
    let entry = PyDict::new(py);
    entry.set_item("links", &path.links)?;
    entry.set_item("back", &path.back)?;
    entry.set_item("return_delay_ms", path.return_delay_ms.get())?;
    entry.set_item("start_s", path.start_s.get())?;
    Ok(entry)
}
