//! A controller of a shared library, and what a run has in place of a rule of the table.

use std::path::PathBuf;
use std::sync::Arc;

use anabranch::Loaded;
use anabranch_control::{External, Foreign};
use anabranch_scenario::users::Outside;
use pyo3::prelude::*;

use crate::errors::ScenarioError;
use crate::rule::PythonRule;

/// The controller `name` of a shared library that was built with `anabranch.h`.
#[pyclass(frozen, module = "anabranch._core")]
pub struct Library {
    loaded: Loaded,
    file: PathBuf,
    name: String,
}

#[pymethods]
impl Library {
    /// Loads the library, which stays loaded. Raises ScenarioError where it has no such controller.
    #[new]
    fn new(file: PathBuf, name: String) -> PyResult<Library> {
        let loaded = Loaded::open(&file, &name)
            .map_err(|message| ScenarioError::new_err(format!("{}: {message}", file.display())))?;
        Ok(Library { loaded, file, name })
    }

    /// The shared library.
    #[getter]
    fn file(&self) -> PathBuf {
        self.file.clone()
    }

    /// The name of the controller.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Raises ScenarioError: a controller has no equation.
    #[allow(unused_variables, reason = "Python sees their names")]
    fn increase(&self, r: usize, paths: &Bound<'_, PyAny>) -> PyResult<f64> {
        Err(self.no_equation())
    }

    /// Raises ScenarioError: a controller has no equation.
    #[allow(unused_variables, reason = "Python sees their names")]
    fn decrease(&self, r: usize, paths: &Bound<'_, PyAny>) -> PyResult<f64> {
        Err(self.no_equation())
    }
}

impl Library {
    fn no_equation(&self) -> PyErr {
        ScenarioError::new_err(format!(
            "{}:{}: a controller of a library has no equations: run it on sim or quic",
            self.file.display(),
            self.name
        ))
    }
}

/// Congestion control of one run that is not in the table, and the first failure of it.
#[derive(Clone)]
pub enum Outsider {
    /// A rule written in Python.
    Rule(Arc<PythonRule>),
    /// A controller of a library.
    Library(Arc<Loaded>),
}

impl Outsider {
    /// The object as one: a [`Library`], or a rule.
    pub fn of(object: &Bound<'_, PyAny>) -> Outsider {
        match object.cast::<Library>() {
            Ok(library) => Outsider::Library(Arc::new(library.get().loaded.for_run())),
            Err(_) => Outsider::Rule(Arc::new(PythonRule::new(object.clone().unbind()))),
        }
    }

    /// The same for a simulation.
    pub fn outside(&self) -> Outside {
        match self {
            Outsider::Rule(rule) => Outside::Rule(rule.clone() as Arc<dyn External>),
            Outsider::Library(loaded) => Outside::Controllers(loaded.clone() as Arc<dyn Foreign>),
        }
    }

    /// The first exception of the rule, or the first wrong answer of the library.
    pub fn failure(&self) -> Option<PyErr> {
        match self {
            Outsider::Rule(rule) => {
                let failure = rule.failure()?;
                Some(Python::attach(|py| failure.clone_ref(py)))
            }
            Outsider::Library(loaded) => {
                let fault = loaded.fault()?.to_owned();
                Some(ScenarioError::new_err(fault))
            }
        }
    }
}
