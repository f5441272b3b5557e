//! A rule evaluated at given states, for theory: the same text that runs packets, in floating-point
//! numbers with exact derivatives, or in Python's numbers.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::ops::{Add, Div, Mul, Sub};

use anabranch_control::rules::WvegasMemory;
use anabranch_control::{Algorithm, AnyRule, Coupling, Dual, Path, Rule, Scalar};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::basic::CompareOp;
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::errors::ScenarioError;

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
        evaluate(&self.rule, &paths, count.unwrap_or(paths.len()))
    }

    /// Action of a delay-based rule at the end of a round trip of the first path, as `evaluate_in`:
    /// the change of its window, and alpha, equilibrium_rate and queue_delay of its memory. One
    /// object with these fields per path is `memory`.
    fn end_round_in(
        &self,
        paths: Vec<Bound<'_, PyAny>>,
        memory: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<(Py<PyAny>, [Py<PyAny>; 3])> {
        end_round(&self.rule, &paths, &memory)
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
    if algorithm.beta_ecn().is_some() {
        return Err(ScenarioError::new_err(format!(
            "{spec}: theory has no marks: omit beta_ecn, or run packets (--on sim)"
        )));
    }
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

// A rule evaluated in Python's numbers: fractions give exact values, symbols give its formula.

/// Any Python number: an index into [`OBJECTS`], because a [`Scalar`] is `Copy`.
#[derive(Clone, Copy, Debug, Default)]
struct Object(usize);

thread_local! {
    /// The numbers of the evaluation under way; the first is 0, the default.
    static OBJECTS: RefCell<Objects> = const { RefCell::new(Objects { all: Vec::new(), failure: None }) };
}

struct Objects {
    all: Vec<Py<PyAny>>,
    /// The first exception of an operation. What follows it is computed with 0 and discarded.
    failure: Option<PyErr>,
}

/// An increase and a decrease.
type Values = (Py<PyAny>, Py<PyAny>);

/// `I_r` and `D_r` of the first `count` paths of one user. Raises what an operation raises.
pub fn evaluate(rule: &AnyRule, paths: &[Bound<'_, PyAny>], count: usize) -> PyResult<Vec<Values>> {
    let Some(first) = paths.first() else {
        return Ok(Vec::new());
    };
    let py = first.py();
    forget();
    Object::of(0);
    let paths = paths.iter().map(path).collect::<PyResult<Vec<_>>>()?;
    let found: Vec<_> = (0..count.min(paths.len()))
        .map(|r| (rule.increase(r, &paths), rule.decrease(r, &paths)))
        .collect();
    let pairs = found
        .into_iter()
        .map(|(i, d)| (i.get(py), d.get(py)))
        .collect();
    forget().map_or(Ok(pairs), Err)
}

/// Action of a delay-based rule at the end of a round trip of the first path: its change of the
/// window, and its memory of the path. Raises the errors of its operations.
pub fn end_round(
    rule: &AnyRule,
    paths: &[Bound<'_, PyAny>],
    memory: &[Bound<'_, PyAny>],
) -> PyResult<(Py<PyAny>, [Py<PyAny>; 3])> {
    let Some(first) = paths.first() else {
        return Err(PyValueError::new_err("no path"));
    };
    if memory.len() != paths.len() {
        return Err(PyValueError::new_err("a memory for each path is needed"));
    }
    let py = first.py();
    forget();
    Object::of(0);
    let paths = paths.iter().map(path).collect::<PyResult<Vec<_>>>()?;
    let mut memory = memory.iter().map(memory_of).collect::<PyResult<Vec<_>>>()?;
    let change = match rule {
        AnyRule::Vegas(rule) => rule.on_round(0, &paths, &mut vec![(); paths.len()]),
        AnyRule::Wvegas(rule) => rule.on_round(0, &paths, &mut memory),
        _ => Object::of(0),
    };
    let own = &memory[0];
    let after = [own.alpha, own.equilibrium_rate, own.queue_delay].map(|number| number.get(py));
    let change = change.get(py);
    forget().map_or(Ok((change, after)), Err)
}

fn memory_of(object: &Bound<'_, PyAny>) -> PyResult<WvegasMemory<Object>> {
    let field = |name: &str| Ok::<_, PyErr>(Object::new(object.getattr(name)?.unbind()));
    Ok(WvegasMemory {
        alpha: field("alpha")?,
        equilibrium_rate: field("equilibrium_rate")?,
        queue_delay: field("queue_delay")?,
    })
}

/// Drops all numbers, and gives the exception that there was.
fn forget() -> Option<PyErr> {
    // Dropped outside of the borrow: a number's destructor may run Python.
    let (all, failure) = OBJECTS
        .with_borrow_mut(|objects| (std::mem::take(&mut objects.all), objects.failure.take()));
    drop(all);
    failure
}

fn path(object: &Bound<'_, PyAny>) -> PyResult<Path<Object>> {
    let field = |name: &str| {
        object
            .getattr(name)
            .map(|value| Object::new(value.unbind()))
    };
    Ok(Path {
        window: field("window")?,
        rtt: field("rtt")?,
        base_rtt: field("base_rtt")?,
        round_rtt: field("round_rtt")?,
        queue_delay: field("queue_delay")?,
        since_loss: field("since_loss")?,
        between_losses: field("between_losses")?,
        loss_interval: field("loss_interval")?,
        peak: field("peak")?,
        prior_peak: field("prior_peak")?,
        epoch_window: field("epoch_window")?,
        age: field("age")?,
        rounds: field("rounds")?,
    })
}

impl Object {
    fn new(value: Py<PyAny>) -> Object {
        OBJECTS.with_borrow_mut(|objects| {
            objects.all.push(value);
            Object(objects.all.len() - 1)
        })
    }

    fn get(self, py: Python<'_>) -> Py<PyAny> {
        OBJECTS.with_borrow(|objects| objects.all[self.0].clone_ref(py))
    }

    /// The fraction that a decimal number is.
    fn fraction(decimal: &str) -> Object {
        compute(|py| {
            let fraction = py
                .import(intern!(py, "fractions"))?
                .getattr(intern!(py, "Fraction"))?;
            Ok(fraction.call1((decimal,))?.unbind())
        })
    }

    fn with(self, other: Object, method: fn(Python<'_>) -> &Bound<'_, PyString>) -> Object {
        compute(|py| {
            let operator = py.import(intern!(py, "operator"))?;
            let operands = (self.get(py), other.get(py));
            Ok(operator.call_method1(method(py), operands)?.unbind())
        })
    }

    /// The result of `method` of one of the two, where its type has one: intervals have both cases
    /// of a `max` in one number.
    fn either(self, other: Object, method: &str) -> Option<Object> {
        Python::attach(|py| {
            let (a, b) = (self.get(py), other.get(py));
            let own = [(&a, &b), (&b, &a)]
                .into_iter()
                .find(|(number, _)| number.bind(py).hasattr(method).unwrap_or(false))?;
            let found = noted(own.0.call_method1(py, method, (own.1,)));
            Some(found.map_or_else(Object::default, Object::new))
        })
    }

    fn compare(&self, other: &Object, relation: CompareOp) -> bool {
        Python::attach(|py| {
            let found = self.get(py).bind(py).rich_compare(other.get(py), relation);
            noted(found.and_then(|answer| answer.is_truthy())).unwrap_or(false)
        })
    }
}

/// The result of an operation; 0 after a failure.
fn compute(operation: impl FnOnce(Python<'_>) -> PyResult<Py<PyAny>>) -> Object {
    Python::attach(|py| noted(operation(py)).map_or_else(Object::default, Object::new))
}

fn noted<T>(result: PyResult<T>) -> Option<T> {
    result
        .map_err(|error| {
            OBJECTS.with_borrow_mut(|objects| {
                objects.failure.get_or_insert(error);
            });
        })
        .ok()
}

impl Add for Object {
    type Output = Object;
    fn add(self, other: Object) -> Object {
        self.with(other, |py| intern!(py, "add"))
    }
}

impl Sub for Object {
    type Output = Object;
    fn sub(self, other: Object) -> Object {
        self.with(other, |py| intern!(py, "sub"))
    }
}

impl Mul for Object {
    type Output = Object;
    fn mul(self, other: Object) -> Object {
        self.with(other, |py| intern!(py, "mul"))
    }
}

impl Div for Object {
    type Output = Object;
    fn div(self, other: Object) -> Object {
        self.with(other, |py| intern!(py, "truediv"))
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Object) -> bool {
        self.compare(other, CompareOp::Eq)
    }
}

impl PartialOrd for Object {
    fn partial_cmp(&self, other: &Object) -> Option<Ordering> {
        Some(match (self < other, self > other) {
            (true, _) => Ordering::Less,
            (_, true) => Ordering::Greater,
            _ => Ordering::Equal,
        })
    }

    fn lt(&self, other: &Object) -> bool {
        self.compare(other, CompareOp::Lt)
    }

    fn le(&self, other: &Object) -> bool {
        self.compare(other, CompareOp::Le)
    }

    fn gt(&self, other: &Object) -> bool {
        self.compare(other, CompareOp::Gt)
    }

    fn ge(&self, other: &Object) -> bool {
        self.compare(other, CompareOp::Ge)
    }
}

impl Scalar for Object {
    fn of(n: u64) -> Object {
        Object::fraction(&n.to_string())
    }

    /// The shortest decimal number that reads as `x`, which is what a user wrote.
    fn from_f64(x: f64) -> Object {
        if x.is_finite() {
            return Object::fraction(&x.to_string());
        }
        compute(|py| Ok(x.into_pyobject(py)?.into_any().unbind()))
    }

    fn to_f64(self) -> f64 {
        Python::attach(|py| noted(self.get(py).extract(py)).unwrap_or(f64::NAN))
    }

    fn sqrt(self) -> Object {
        self.with(Object::fraction("0.5"), |py| intern!(py, "pow"))
    }

    fn max(self, other: Object) -> Object {
        self.either(other, "maximum")
            .unwrap_or_else(|| if self >= other { self } else { other })
    }

    fn min(self, other: Object) -> Object {
        self.either(other, "minimum")
            .unwrap_or_else(|| if self <= other { self } else { other })
    }
}
