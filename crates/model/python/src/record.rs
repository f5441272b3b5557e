//! A record of the simulator as Python's dicts of columns.

use anabranch_scenario::columns::Column;
use anabranch_scenario::{Record, Scenario};
use numpy::IntoPyArray;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

/// The tables by name. Indexes of flows and links become their names; `flows` gets the column
/// `rule`: the algorithm of the flow, or `custom` if a rule from Python replaced it. Whole numbers
/// become int64, so that differences can be negative.
pub fn tables<'py>(
    py: Python<'py>,
    record: Record,
    scenario: &Scenario,
    custom: Option<&str>,
) -> PyResult<Bound<'py, PyDict>> {
    let flows = labels(py, scenario.flows.iter().map(|flow| flow.name.clone()));
    let rules = labels(
        py,
        (0..scenario.flows.len()).map(|flow| rule(scenario, flow, custom)),
    );
    let links = labels(py, scenario.links.iter().map(|link| link.name.clone()));
    let tables = PyDict::new(py);
    for (table, columns) in record.tables() {
        let frame = PyDict::new(py);
        for (name, column) in columns {
            match (name, column) {
                ("flow", Column::U32(indexes)) => {
                    frame.set_item(name, named(py, &indexes, &flows)?)?;
                    if table == "flows" {
                        frame.set_item("rule", named(py, &indexes, &rules)?)?;
                    }
                }
                ("link", Column::U32(indexes)) => {
                    frame.set_item(name, named(py, &indexes, &links)?)?;
                }
                (_, Column::U32(values)) => {
                    let values: Vec<i64> = values.into_iter().map(i64::from).collect();
                    frame.set_item(name, values.into_pyarray(py))?;
                }
                (_, Column::U64(values)) => {
                    let values: Vec<i64> = values.into_iter().map(|value| value as i64).collect();
                    frame.set_item(name, values.into_pyarray(py))?;
                }
                (_, Column::F64(values)) => frame.set_item(name, values.into_pyarray(py))?,
            }
        }
        tables.set_item(table, frame)?;
    }
    Ok(tables)
}

/// The columns that `Run.execute` gives: of each table, name to JSON type and meaning.
#[pyfunction]
pub fn columns(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let tables = PyDict::new(py);
    for (table, descriptions) in Record::describe() {
        let columns = PyDict::new(py);
        for &(name, kind, meaning) in descriptions {
            let description = match (name, kind) {
                ("flow", _) => ("string", "name of the flow"),
                ("link", _) => ("string", "name of the link"),
                (_, "f64") => ("number", meaning),
                _ => ("integer", meaning),
            };
            columns.set_item(name, description)?;
            if (table, name) == ("flows", "flow") {
                columns.set_item("rule", ("string", "the algorithm that the flow ran"))?;
            }
        }
        tables.set_item(table, columns)?;
    }
    Ok(tables)
}

fn rule(scenario: &Scenario, flow: usize, custom: Option<&str>) -> String {
    match custom {
        Some(name) if !scenario.has_own_algorithm(flow) => name.to_owned(),
        _ => scenario.flows[flow].algorithm.to_string(),
    }
}

fn labels<'py>(py: Python<'py>, names: impl Iterator<Item = String>) -> Vec<Bound<'py, PyString>> {
    names.map(|name| PyString::new(py, &name)).collect()
}

/// A column of names: every row of a flow shares one string.
fn named<'py>(
    py: Python<'py>,
    indexes: &[u32],
    names: &[Bound<'py, PyString>],
) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, indexes.iter().map(|&index| &names[index as usize]))
}
