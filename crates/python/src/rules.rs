//! The table of algorithms and the schema of scenario files.

use anabranch_control::{Algorithm, RULES};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::ScenarioError;

/// The algorithms: name, aliases, summary, source, delay_based, parameters.
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
    entry.set_item("name", info.name)?;
    entry.set_item("aliases", info.aliases)?;
    entry.set_item("summary", info.summary)?;
    entry.set_item("source", info.source)?;
    entry.set_item("delay_based", info.delay_based)?;
    entry.set_item("parameters", parameters.collect::<PyResult<Vec<_>>>()?)?;
    Ok(entry)
}

/// The canonical form of an algorithm: "max" is "lia". Raises ScenarioError for one there is not.
#[pyfunction]
pub fn algorithm(spec: &str) -> PyResult<String> {
    match Algorithm::parse(spec) {
        Ok(algorithm) => Ok(algorithm.to_string()),
        Err(message) => Err(ScenarioError::new_err(message)),
    }
}

/// The JSON Schema of a scenario file.
#[pyfunction]
pub fn schema() -> String {
    anabranch_scenario::schema()
}
