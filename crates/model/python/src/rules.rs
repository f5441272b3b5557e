//! The table of algorithms and the schema of scenario files.

use anabranch_control::{Coupling, Property, RULES};
use anabranch_scenario::{Feature, Scheduler};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::ScenarioError;

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
