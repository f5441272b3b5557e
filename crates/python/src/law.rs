//! A rule evaluated at given states, for theory: the same text that runs packets.

use anabranch_control::{Algorithm, AnyRule, Dual, Path};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::ScenarioError;

type Column<'py> = PyReadonlyArray1<'py, f64>;
type Pair<'py> = (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>);

/// An algorithm of the table as a law of windows.
///
/// Its methods take the paths of many users as columns: the paths of user u are those from
/// `starts[u]` to `starts[u + 1]`. Windows are packets, times s; `loss_interval` is the packets
/// between losses, which stands for every count of them that a rule may look at.
#[pyclass(frozen, module = "anabranch")]
pub struct Law {
    algorithm: Algorithm,
    rule: AnyRule,
}

#[pymethods]
impl Law {
    /// The law called `spec`, such as "olia" or "balia:cap=inf". Raises ScenarioError.
    #[new]
    fn new(spec: &str) -> PyResult<Law> {
        let algorithm = Algorithm::parse(spec).map_err(ScenarioError::new_err)?;
        let rule = algorithm.rule();
        Ok(Law { algorithm, rule })
    }

    /// Its canonical name, with the parameters that differ from their defaults.
    #[getter]
    fn name(&self) -> String {
        self.algorithm.to_string()
    }

    /// Whether it acts once per round trip, so that it has no increase.
    #[getter]
    fn delay_based(&self) -> bool {
        self.algorithm.info().delay_based
    }

    /// `I_r` and `D_r` of every path: packets per acknowledged packet, and packets.
    ///
    /// Raises ValueError where the columns don't fit each other.
    #[allow(clippy::too_many_arguments)]
    fn evaluate<'py>(
        &self,
        py: Python<'py>,
        starts: PyReadonlyArray1<'py, i64>,
        window: Column<'py>,
        rtt: Column<'py>,
        base_rtt: Column<'py>,
        queue_delay: Column<'py>,
        loss_interval: Column<'py>,
    ) -> PyResult<Pair<'py>> {
        let columns = [window, rtt, base_rtt, queue_delay, loss_interval];
        let (bounds, paths) = users(&starts, &columns)?;
        let (mut increase, mut decrease) = (Vec::new(), Vec::new());
        for user in bounds.windows(2) {
            let paths = &paths[user[0]..user[1]];
            for r in 0..paths.len() {
                increase.push(self.rule.increase(r, paths));
                decrease.push(self.rule.decrease(r, paths));
            }
        }
        Ok((increase.into_pyarray(py), decrease.into_pyarray(py)))
    }

    /// The exact derivatives of `I_r` and `D_r` in the column `wrt` of the user's path k, at a kink
    /// those of the branch taken: for each user its matrix (r, k), row by row, one after the other.
    ///
    /// Raises ValueError where the columns don't fit each other.
    #[allow(clippy::too_many_arguments)]
    fn derivatives<'py>(
        &self,
        py: Python<'py>,
        wrt: &str,
        starts: PyReadonlyArray1<'py, i64>,
        window: Column<'py>,
        rtt: Column<'py>,
        base_rtt: Column<'py>,
        queue_delay: Column<'py>,
        loss_interval: Column<'py>,
    ) -> PyResult<Pair<'py>> {
        let seed = seed(wrt)?;
        let columns = [window, rtt, base_rtt, queue_delay, loss_interval];
        let (bounds, paths) = users(&starts, &columns)?;
        let (mut increase, mut decrease) = (Vec::new(), Vec::new());
        for user in bounds.windows(2) {
            let (n, first) = (user[1] - user[0], increase.len());
            increase.resize(first + n * n, 0.0);
            decrease.resize(first + n * n, 0.0);
            let mut paths: Vec<Path<Dual>> = paths[user[0]..user[1]]
                .iter()
                .map(|path| path.map(|value| Dual { value, slope: 0.0 }))
                .collect();
            for k in 0..n {
                seed(&mut paths[k], 1.0);
                for r in 0..n {
                    increase[first + r * n + k] = self.rule.increase(r, &paths).slope;
                    decrease[first + r * n + k] = self.rule.decrease(r, &paths).slope;
                }
                seed(&mut paths[k], 0.0);
            }
        }
        Ok((increase.into_pyarray(py), decrease.into_pyarray(py)))
    }

    fn __repr__(&self) -> String {
        format!("Law({:?})", self.name())
    }
}

/// What sets the slope of one field of a path.
fn seed(field: &str) -> PyResult<fn(&mut Path<Dual>, f64)> {
    match field {
        "window" => Ok(|path, slope| path.window.slope = slope),
        "rtt" => Ok(|path, slope| path.rtt.slope = slope),
        "queue_delay" => Ok(|path, slope| path.queue_delay.slope = slope),
        "loss_interval" => Ok(|path, slope| {
            path.since_loss.slope = slope;
            path.between_losses.slope = slope;
            path.loss_interval.slope = slope;
        }),
        _ => Err(PyValueError::new_err(format!(
            "no derivative in {field:?}: expected window, rtt, queue_delay or loss_interval"
        ))),
    }
}

/// The first path of each user, and the number of paths; the paths.
fn users(
    starts: &PyReadonlyArray1<i64>,
    columns: &[Column; 5],
) -> PyResult<(Vec<usize>, Vec<Path<f64>>)> {
    let [window, rtt, base_rtt, queue_delay, loss_interval] = columns;
    let length = window.len()?;
    for column in columns {
        if column.len()? != length {
            return Err(PyValueError::new_err("columns differ in length"));
        }
    }
    let mut paths = Vec::with_capacity(length);
    for i in 0..length {
        let packets = loss_interval.as_slice()?[i];
        paths.push(Path {
            window: window.as_slice()?[i],
            rtt: rtt.as_slice()?[i],
            base_rtt: base_rtt.as_slice()?[i],
            round_rtt: rtt.as_slice()?[i],
            queue_delay: queue_delay.as_slice()?[i],
            since_loss: packets,
            between_losses: packets,
            loss_interval: packets,
            ..Path::default()
        });
    }
    let bounds: Vec<usize> = starts.as_slice()?.iter().map(|&i| i as usize).collect();
    let whole = bounds.first() == Some(&0) && bounds.last() == Some(&length);
    if !whole || bounds.windows(2).any(|user| user[0] > user[1]) {
        return Err(PyValueError::new_err(
            "starts must rise from 0 to the number of paths",
        ));
    }
    Ok((bounds, paths))
}
