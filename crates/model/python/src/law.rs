//! A rule evaluated at given states, for theory: the same text that runs packets.

use anabranch_control::{Algorithm, AnyRule, Coupling, Dual, Path};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::ScenarioError;
use crate::object;

type Column<'py> = PyReadonlyArray1<'py, f64>;
type Pair<'py> = (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>);

/// The paths of many users: user u has the paths from `starts[u]` to `starts[u + 1]`. Windows are
/// packets, times s; `loss_interval` is the packets between losses, which stands for every count of
/// them that a rule may look at.
#[derive(FromPyObject)]
struct States<'py> {
    starts: PyReadonlyArray1<'py, i64>,
    window: Column<'py>,
    rtt: Column<'py>,
    base_rtt: Column<'py>,
    queue_delay: Column<'py>,
    loss_interval: Column<'py>,
}

/// An algorithm of the table as a law of windows.
///
/// The methods take the paths of many users as columns, as in `anabranch.theory.law.States`.
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
        let algorithm = coupled(spec)?;
        let rule = algorithm.rule();
        Ok(Law { algorithm, rule })
    }

    /// Canonical name, with the parameters that differ from their defaults.
    #[getter]
    fn name(&self) -> String {
        self.algorithm.to_string()
    }

    /// Whether it acts once per round trip, so that it has no increase.
    #[getter]
    fn delay_based(&self) -> bool {
        self.algorithm.info().delay_based
    }

    /// Whether `I_r` and `D_r` at a state describe it, so that it has a fluid model.
    #[getter]
    fn fluid(&self) -> bool {
        self.algorithm.info().fluid
    }

    /// `I_r` and `D_r` of every path: packets per acknowledged packet, and packets.
    ///
    /// Raises ValueError where the columns don't fit each other.
    fn evaluate<'py>(&self, py: Python<'py>, states: States<'py>) -> PyResult<Pair<'py>> {
        let (bounds, paths) = states.users()?;
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

    /// `I_r` and `D_r` of every path of one user, or of the first `count`, in the numbers of its
    /// paths: any objects with the fields of a path, whose values have Python's operators.
    ///
    /// A number of the rule's text is a `Fraction`; the square root is the power of one half. A
    /// type with `maximum` and `minimum` is asked for them, another compares. Raises what an
    /// operation raises.
    #[pyo3(signature = (paths, count = None))]
    fn evaluate_in(
        &self,
        paths: Vec<Bound<'_, PyAny>>,
        count: Option<usize>,
    ) -> PyResult<Vec<(Py<PyAny>, Py<PyAny>)>> {
        object::evaluate(&self.rule, &paths, count.unwrap_or(paths.len()))
    }

    /// Action of a delay-based rule at the end of a round trip of the first path, as `evaluate_in`:
    /// the change of its window, and alpha, equilibrium_rate and queue_delay of its memory. One
    /// object with these fields per path is `memory`.
    fn end_round_in(
        &self,
        paths: Vec<Bound<'_, PyAny>>,
        memory: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<(Py<PyAny>, [Py<PyAny>; 3])> {
        object::end_round(&self.rule, &paths, &memory)
    }

    /// The exact derivatives of `I_r` and `D_r` in the column `wrt` of the user's path k, at a kink
    /// the derivatives of the branch taken: for each user its matrix (r, k), row by row.
    ///
    /// Raises ValueError where the columns don't fit each other.
    fn derivatives<'py>(
        &self,
        py: Python<'py>,
        wrt: &str,
        states: States<'py>,
    ) -> PyResult<Pair<'py>> {
        let seed = seed(wrt)?;
        let (bounds, paths) = states.users()?;
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

/// The algorithm called `spec`, which must couple all paths: theory has no detection.
pub fn coupled(spec: &str) -> PyResult<Algorithm> {
    let algorithm = anabranch_scenario::algorithm(spec).map_err(ScenarioError::new_err)?;
    if algorithm.coupling() == Coupling::Always {
        return Ok(algorithm);
    }
    Err(ScenarioError::new_err(format!(
        "{spec}: theory couples all paths of a user: omit coupling, or run packets (--on sim)"
    )))
}

/// Setter of the slope of one field of a path.
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

impl States<'_> {
    /// The first path of each user, and the number of paths; the paths.
    fn users(&self) -> PyResult<(Vec<usize>, Vec<Path<f64>>)> {
        let window = self.window.as_slice()?;
        let rtt = same_length(&self.rtt, window)?;
        let base_rtt = same_length(&self.base_rtt, window)?;
        let queue_delay = same_length(&self.queue_delay, window)?;
        let loss_interval = same_length(&self.loss_interval, window)?;
        let path = |i: usize| Path {
            window: window[i],
            rtt: rtt[i],
            base_rtt: base_rtt[i],
            round_rtt: rtt[i],
            queue_delay: queue_delay[i],
            since_loss: loss_interval[i],
            between_losses: loss_interval[i],
            loss_interval: loss_interval[i],
            ..Path::default()
        };
        let starts = self.starts.as_slice()?;
        let whole = starts.first() == Some(&0) && starts.last() == Some(&(window.len() as i64));
        if !whole || starts.windows(2).any(|user| user[0] > user[1]) {
            return Err(PyValueError::new_err(
                "starts must rise from 0 to the number of paths",
            ));
        }
        let bounds = starts.iter().map(|&i| i as usize).collect();
        Ok((bounds, (0..window.len()).map(path).collect()))
    }
}

fn same_length<'a>(column: &'a Column, window: &[f64]) -> PyResult<&'a [f64]> {
    let column = column.as_slice()?;
    if column.len() == window.len() {
        return Ok(column);
    }
    Err(PyValueError::new_err("columns differ in length"))
}
