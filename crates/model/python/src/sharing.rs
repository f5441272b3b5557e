//! The fluid model of a shared server.

use anabranch_sharing::{Class, Sharing, Sizes};
use numpy::IntoPyArray;
use numpy::ndarray::Array2;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::ScenarioError;

/// Serves files from an empty start by generalised processor sharing: the first `count` as a dict
/// of arrays (class, arrival_s, service_s, sojourn_s, workload_s: a row per file, a column per
/// queue). Releases the GIL.
///
/// A class is (queue, load, mean_s, shape); without a shape its service times are exponential, with
/// an infinite one equal. Raises ScenarioError for an unstable queue or a number without meaning.
#[pyfunction]
pub fn share(
    py: Python<'_>,
    weights: Vec<f64>,
    classes: Vec<(usize, f64, f64, Option<f64>)>,
    count: usize,
    seed: u64,
) -> PyResult<Bound<'_, PyDict>> {
    let queues = weights.len();
    let class = |(queue, load, mean_s, shape): (usize, f64, f64, Option<f64>)| Class {
        queue,
        load,
        mean_s,
        sizes: shape.map_or(Sizes::Exponential, |shape| Sizes::Pareto { shape }),
    };
    let sharing = Sharing::new(weights, classes.into_iter().map(class).collect());
    let sharing = sharing.map_err(ScenarioError::new_err)?;
    let files = py.detach(|| sharing.run(count, seed));
    let workload = Array2::from_shape_vec((files.class.len(), queues), files.workload_s);
    let table = PyDict::new(py);
    let class: Vec<i64> = files.class.into_iter().map(i64::from).collect();
    table.set_item("class", class.into_pyarray(py))?;
    table.set_item("arrival_s", files.arrival_s.into_pyarray(py))?;
    table.set_item("service_s", files.service_s.into_pyarray(py))?;
    table.set_item("sojourn_s", files.sojourn_s.into_pyarray(py))?;
    let workload = workload.expect("a row of every queue per file");
    table.set_item("workload_s", workload.into_pyarray(py))?;
    Ok(table)
}
