//! Rules: one written in Python, and the table of those that there are.

use std::sync::OnceLock;

use anabranch_control as control;
use anabranch_control::{Coupling, Property, RULES};
use anabranch_scenario::{Feature, Scheduler};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use crate::errors::ScenarioError;

/// View that a rule has of one path: packets and seconds.
#[pyclass(frozen, module = "anabranch")]
pub struct Path(control::Path<f64>);

#[pymethods]
impl Path {
    /// Congestion window, packets.
    #[getter]
    fn window(&self) -> f64 {
        self.0.window
    }

    /// Smoothed round-trip time, s.
    #[getter]
    fn rtt(&self) -> f64 {
        self.0.rtt
    }

    /// Smallest round-trip time seen, s.
    #[getter]
    fn base_rtt(&self) -> f64 {
        self.0.base_rtt
    }

    /// Mean round-trip time over the round trip that just ended, s.
    #[getter]
    fn round_rtt(&self) -> f64 {
        self.0.round_rtt
    }

    /// Queueing and service delay on the forward way, s.
    #[getter]
    fn queue_delay(&self) -> f64 {
        self.0.queue_delay
    }

    /// Packets acknowledged since the last loss.
    #[getter]
    fn since_loss(&self) -> f64 {
        self.0.since_loss
    }

    /// Packets acknowledged between the last two losses.
    #[getter]
    fn between_losses(&self) -> f64 {
        self.0.between_losses
    }

    /// Smoothed packets between losses; 0 when no loss was seen yet.
    #[getter]
    fn loss_interval(&self) -> f64 {
        self.0.loss_interval
    }

    /// Window when the last loss struck, packets; 0 when none did yet.
    #[getter]
    fn peak(&self) -> f64 {
        self.0.peak
    }

    /// Window at the loss before that, packets.
    #[getter]
    fn prior_peak(&self) -> f64 {
        self.0.prior_peak
    }

    /// Window when the present stage of congestion avoidance began, packets; 0 when none did yet.
    #[getter]
    fn epoch_window(&self) -> f64 {
        self.0.epoch_window
    }

    /// Time in that stage, s.
    #[getter]
    fn age(&self) -> f64 {
        self.0.age
    }

    /// Windows acknowledged in that stage: its age in round trips.
    #[getter]
    fn rounds(&self) -> f64 {
        self.0.rounds
    }

    /// window / rtt, packets per second.
    #[getter]
    fn rate(&self) -> f64 {
        self.0.rate()
    }

    fn __repr__(&self) -> String {
        format!("Path(window={}, rtt={})", self.0.window, self.0.rtt)
    }
}

/// Asks a Python object with `increase` and `decrease`. After its first failure it answers 0, which
/// leaves the window alone, until the run notices.
pub struct PythonRule {
    object: Py<PyAny>,
    failure: OnceLock<PyErr>,
}

impl PythonRule {
    pub fn new(object: Py<PyAny>) -> PythonRule {
        PythonRule {
            object,
            failure: OnceLock::new(),
        }
    }

    /// The first exception that the rule raised.
    pub fn failure(&self) -> Option<&PyErr> {
        self.failure.get()
    }

    fn ask(
        &self,
        method: fn(Python<'_>) -> &Bound<'_, PyString>,
        r: usize,
        paths: &[control::Path<f64>],
    ) -> f64 {
        if self.failure.get().is_some() {
            return 0.0;
        }
        Python::attach(|py| {
            self.call(method(py), r, paths).unwrap_or_else(|failure| {
                // A second failure can't come: one thread runs a simulation.
                let _ = self.failure.set(failure);
                0.0
            })
        })
    }

    fn call(
        &self,
        method: &Bound<'_, PyString>,
        r: usize,
        paths: &[control::Path<f64>],
    ) -> PyResult<f64> {
        let py = method.py();
        let list = PyList::empty(py);
        for path in paths {
            list.append(Bound::new(py, Path(*path))?)?;
        }
        let answer = self.object.bind(py).call_method1(method, (r, list))?;
        let packets = answer.extract::<f64>();
        if let Ok(packets) = packets
            && packets.is_finite()
        {
            return Ok(packets);
        }
        let rule = self.object.bind(py).get_type().name()?;
        let found = answer.repr()?;
        let message = format!(
            "{rule}.{method} returned {found} for path {r}: expected a finite number of packets"
        );
        Err(match packets {
            Ok(_) => PyValueError::new_err(message),
            Err(_) => PyTypeError::new_err(message),
        })
    }
}

impl control::External for PythonRule {
    fn increase(&self, r: usize, paths: &[control::Path<f64>]) -> f64 {
        self.ask(|py| intern!(py, "increase"), r, paths)
    }

    fn decrease(&self, r: usize, paths: &[control::Path<f64>]) -> f64 {
        self.ask(|py| intern!(py, "decrease"), r, paths)
    }
}

// The table of algorithms and the schema of scenario files.

/// The algorithms, a dictionary for each: the fields of `anabranch_control::Info`.
#[pyfunction]
pub fn rules(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    RULES.iter().map(|info| rule(py, info)).collect()
}

fn rule<'py>(py: Python<'py>, info: &anabranch_control::Info) -> PyResult<Bound<'py, PyDict>> {
    let parameters = info.parameters.iter().map(|parameter| {
        let entry = PyDict::new(py);
        entry.set_item("name", parameter.name)?;
        entry.set_item("default", parameter.default)?;
        entry.set_item("min", parameter.min)?;
        entry.set_item("max", parameter.max)?;
        entry.set_item("choices", parameter.choices)?;
        entry.set_item("unit", parameter.unit)?;
        entry.set_item("meaning", parameter.meaning)?;
        Ok(entry)
    });
    let entry = PyDict::new(py);
    for (name, property) in info.properties() {
        match property {
            Property::Flag(flag) => entry.set_item(name, flag)?,
            Property::Text(text) => entry.set_item(name, text)?,
            Property::Texts(texts) => entry.set_item(name, texts)?,
        }
    }
    entry.set_item("linux_name", info.linux_name())?;
    entry.set_item("parameters", parameters.collect::<PyResult<Vec<_>>>()?)?;
    Ok(entry)
}

/// Values of `coupling` in a specification, with their meanings; the default first.
#[pyfunction]
pub fn couplings() -> Vec<(&'static str, &'static str)> {
    let each = Coupling::ALL.iter();
    each.map(|one| (one.name(), one.meaning())).collect()
}

/// The names of the schedulers, in the order of docs/reference/schedulers.md.
#[pyfunction]
pub fn schedulers() -> Vec<&'static str> {
    Scheduler::ALL.iter().map(|one| one.name()).collect()
}

/// The canonical form of an algorithm: "max" is "lia". Raises ScenarioError for one there is not.
#[pyfunction]
pub fn algorithm(spec: &str) -> PyResult<String> {
    match anabranch_scenario::algorithm(spec) {
        Ok(algorithm) => Ok(algorithm.to_string()),
        Err(message) => Err(ScenarioError::new_err(message)),
    }
}

/// "expected one of a, b (did you mean b?)", for a word that is not one of `known`.
#[pyfunction]
pub fn expected_one_of(word: &str, known: Vec<String>) -> String {
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    anabranch_scenario::expected_one_of(word, &known)
}

/// The JSON Schema of a scenario file.
#[pyfunction]
pub fn schema() -> String {
    anabranch_scenario::schema()
}

/// The features of scenarios that not every backend has, by name: the backends that have each.
#[pyfunction]
pub fn features() -> Vec<(&'static str, &'static [&'static str])> {
    let features = Feature::ALL.iter();
    features.map(|it| (it.name(), it.backends())).collect()
}
