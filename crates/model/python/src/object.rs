//! A rule evaluated in Python's numbers: fractions give exact values, symbols give its formula.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::ops::{Add, Div, Mul, Sub};

use anabranch_control::rules::WvegasMemory;
use anabranch_control::{AnyRule, Path, Rule, Scalar};
use pyo3::basic::CompareOp;
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;

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
type Pair = (Py<PyAny>, Py<PyAny>);

/// `I_r` and `D_r` of the first `count` paths of one user. Raises what an operation raises.
pub fn evaluate(rule: &AnyRule, paths: &[Bound<'_, PyAny>], count: usize) -> PyResult<Vec<Pair>> {
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
