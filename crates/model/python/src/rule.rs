//! A rule written in Python.

use std::sync::OnceLock;

use anabranch_control as control;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

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
