//! The exceptions of the module.

use anabranch_scenario::Error;
use pyo3::PyErr;
use pyo3::exceptions::{PyException, PyValueError};

pyo3::create_exception!(
    anabranch,
    ScenarioError,
    PyValueError,
    "What is wrong with a scenario, in one line: file and line, key, what was expected."
);

pyo3::create_exception!(anabranch, Cancelled, PyException, "The run was cancelled.");

/// The exception for a fault of a scenario.
pub(crate) fn raise(error: Error) -> PyErr {
    ScenarioError::new_err(error.to_string())
}
