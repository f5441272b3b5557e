//! One run of the simulator.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anabranch_scenario::Record;
use anabranch_sim::Simulation;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{Cancelled, raise};
use crate::record;
use crate::rule::PythonRule;
use crate::scenario::Scenario;

/// Wall time between two checks of the cancel flag: short for a person, long for the simulator.
const SLICE: Duration = Duration::from_millis(20);

/// The first slice, simulated s; from then on slices adapt to take `SLICE` of wall time.
const FIRST_SLICE_S: f64 = 1e-3;

/// Longest slice, simulated s: a busy time may follow an idle one.
const LONGEST_SLICE_S: f64 = 0.1;

/// A scenario with one algorithm and one seed, ready to run.
#[pyclass(frozen, module = "anabranch")]
pub struct Run {
    scenario: anabranch_scenario::Scenario,
    seed: u64,
    custom: Option<Custom>,
    progress: AtomicU64,
    cancelled: AtomicBool,
}

/// A rule in Python and its name.
struct Custom {
    name: String,
    rule: Py<PyAny>,
}

#[pymethods]
impl Run {
    /// Flows without an algorithm of their own run `algorithm` (None: the scenario's choice), or
    /// the Python object `rule`, which then goes by the name `algorithm`.
    #[new]
    #[pyo3(signature = (scenario, algorithm, seed, rule=None))]
    fn new(
        scenario: &Scenario,
        algorithm: Option<String>,
        seed: u64,
        rule: Option<Py<PyAny>>,
    ) -> PyResult<Run> {
        let (scenario, custom) = match (rule, algorithm) {
            (None, None) => (scenario.0.clone(), None),
            (None, Some(spec)) => (scenario.0.with_algorithm(&spec).map_err(raise)?, None),
            (Some(rule), name) => {
                let name = name.unwrap_or_else(|| "custom".to_owned());
                (scenario.0.clone(), Some(Custom { name, rule }))
            }
        };
        Ok(Run {
            scenario,
            seed,
            custom,
            progress: AtomicU64::new(0.0_f64.to_bits()),
            cancelled: AtomicBool::new(false),
        })
    }

    /// Runs to the end: the tables by name, each a dict of columns. Releases the GIL.
    ///
    /// Raises Cancelled soon after `cancel`, and whatever the rule raises.
    fn execute<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let rule = |custom: &Custom| Arc::new(PythonRule::new(custom.rule.clone_ref(py)));
        let rule = self.custom.as_ref().map(rule);
        let record = py.detach(|| self.simulate(rule))?;
        let name = self.custom.as_ref().map(|custom| custom.name.as_str());
        record::tables(py, record, &self.scenario, name)
    }

    /// The fraction done, 0 to 1.
    #[getter]
    fn progress(&self) -> f64 {
        f64::from_bits(self.progress.load(Ordering::Relaxed))
    }

    /// Makes `execute` raise Cancelled, now or when it is called.
    fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

impl Run {
    fn simulate(&self, rule: Option<Arc<PythonRule>>) -> PyResult<Record> {
        let mut simulation = match &rule {
            None => Simulation::new(&self.scenario, self.seed),
            Some(rule) => {
                Simulation::with_custom_rule(&self.scenario, self.seed, Arc::clone(rule) as _)
            }
        };
        let end_s = simulation.duration_s();
        let (mut now_s, mut slice_s) = (0.0, FIRST_SLICE_S);
        while now_s < end_s {
            if self.cancelled.load(Ordering::Relaxed) {
                return Err(Cancelled::new_err("the run was cancelled"));
            }
            let begun = Instant::now();
            now_s = end_s.min(now_s + slice_s);
            simulation.run_until(now_s);
            if let Some(failure) = rule.as_ref().and_then(|rule| rule.failure()) {
                return Err(Python::attach(|py| failure.clone_ref(py)));
            }
            self.progress
                .store((now_s / end_s).to_bits(), Ordering::Relaxed);
            let stretch = SLICE.as_secs_f64() / begun.elapsed().as_secs_f64();
            slice_s = LONGEST_SLICE_S.min(slice_s * stretch.clamp(0.5, 2.0));
        }
        Ok(simulation.finish())
    }
}
