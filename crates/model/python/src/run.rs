//! One run in virtual time, over the simulator's TCP or over QUIC.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anabranch_scenario::{Ecn, Record, Virtual};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{Cancelled, ScenarioError, raise};
use crate::record;
use crate::rule::PythonRule;
use crate::scenario::Scenario;

/// The name of the QUIC library's BBR among the algorithms of `quic`.
const LIBRARY_BBR: &str = "noq-bbr3";

/// Wall time between two checks of the cancel flag: short for a person, long for the simulator.
const SLICE: Duration = Duration::from_millis(20);

/// The first slice, simulated s; from then on slices adapt to take `SLICE` of wall time.
const FIRST_SLICE_S: f64 = 1e-3;

/// Longest slice, simulated s: a busy time may follow an idle one.
const LONGEST_SLICE_S: f64 = 0.1;

fn unsupported(error: anabranch_quic::Unsupported) -> PyErr {
    ScenarioError::new_err(error.to_string())
}

/// Simulation of a run.
#[derive(Clone, Copy)]
enum Backend {
    Tcp,
    Quic,
}

/// A scenario with one algorithm and one seed, ready to run.
#[pyclass(frozen, module = "anabranch")]
pub struct Run {
    backend: Backend,
    scenario: anabranch_scenario::Scenario,
    seed: u64,
    custom: Option<Custom>,
    library_bbr: bool,
    log: Option<PathBuf>,
    progress: AtomicU64,
    cancelled: AtomicBool,
    samples: Mutex<Samples>,
}

/// Samples on their way from a run to those who watch it.
#[derive(Default)]
struct Samples {
    asked: bool,
    /// The rows of each table that were given before.
    given: [usize; 3],
    ready: Option<Record>,
}

#[pymethods]
impl Run {
    /// Flows without an algorithm of their own run `algorithm` (None: the scenario's choice), or
    /// the Python object `rule`, which then goes by the name `algorithm`. The packets of each
    /// sender are captured in the folder `pcap`; `execute` raises OSError if it cannot be written.
    #[new]
    #[pyo3(signature = (scenario, algorithm, seed, rule=None, pcap=None))]
    fn new(
        scenario: &Scenario,
        algorithm: Option<String>,
        seed: u64,
        rule: Option<Py<PyAny>>,
        pcap: Option<PathBuf>,
    ) -> PyResult<Run> {
        Run::on(Backend::Tcp, scenario, algorithm, seed, rule, pcap)
    }

    /// The same over QUIC, also with the library's BBR ("noq-bbr3"); each end of each connection is
    /// logged in the folder `qlog`. Raises ScenarioError for what is not available over QUIC, and
    /// `execute` raises OSError if a file of `qlog` cannot be written.
    #[staticmethod]
    #[pyo3(signature = (scenario, algorithm, seed, rule=None, qlog=None))]
    fn over_quic(
        scenario: &Scenario,
        algorithm: Option<String>,
        seed: u64,
        rule: Option<Py<PyAny>>,
        qlog: Option<PathBuf>,
    ) -> PyResult<Run> {
        anabranch_quic::check(&scenario.0).map_err(unsupported)?;
        Run::on(Backend::Quic, scenario, algorithm, seed, rule, qlog)
    }

    /// Runs to the end: the tables by name, each a dict of columns. Releases the GIL.
    ///
    /// Raises Cancelled soon after `cancel`, and whatever the rule raises.
    fn execute<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let rule = |custom: &Custom| Arc::new(PythonRule::new(custom.rule.clone_ref(py)));
        let rule = self.custom.as_ref().map(rule);
        let record = py.detach(|| match self.backend {
            Backend::Tcp => self.simulate(self.over_tcp(rule.clone())?, rule),
            Backend::Quic => self.simulate(self.with_quic(rule.clone())?, rule),
        })?;
        self.tables(py, record)
    }

    /// The samples since the last call, as the tables of `execute` without totals; None if there is
    /// no answer yet. A call asks the run for the answer of the next one, within some 20 ms.
    fn samples<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let ready = {
            let mut samples = self.watched();
            samples.asked = true;
            samples.ready.take()
        };
        ready.map(|record| self.tables(py, record)).transpose()
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

/// A rule in Python and its name.
struct Custom {
    name: String,
    rule: Py<PyAny>,
}

impl Run {
    fn on(
        backend: Backend,
        scenario: &Scenario,
        algorithm: Option<String>,
        seed: u64,
        rule: Option<Py<PyAny>>,
        log: Option<PathBuf>,
    ) -> PyResult<Run> {
        let library_bbr =
            matches!(backend, Backend::Quic) && algorithm.as_deref() == Some(LIBRARY_BBR);
        let algorithm = algorithm.filter(|_| !library_bbr);
        let (scenario, custom) = match (rule, algorithm) {
            (None, None) => (scenario.0.clone(), None),
            (None, Some(spec)) => (scenario.0.with_algorithm(&spec).map_err(raise)?, None),
            (Some(rule), name) => {
                let name = name.unwrap_or_else(|| "custom".to_owned());
                (scenario.0.clone(), Some(Custom { name, rule }))
            }
        };
        scenario.check_memory().map_err(raise)?;
        Ok(Run {
            backend,
            scenario,
            seed,
            custom,
            library_bbr,
            log,
            progress: AtomicU64::new(0.0_f64.to_bits()),
            cancelled: AtomicBool::new(false),
            samples: Mutex::default(),
        })
    }

    fn tables<'py>(&self, py: Python<'py>, record: Record) -> PyResult<Bound<'py, PyDict>> {
        let custom = self.custom.as_ref().map(|custom| custom.name.as_str());
        let name = custom.or(self.library_bbr.then_some(LIBRARY_BBR));
        record::tables(py, record, &self.scenario, name)
    }

    fn watched(&self) -> MutexGuard<'_, Samples> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies the samples that somebody has asked for.
    fn give_samples(&self, record: &Record) {
        let mut samples = self.watched();
        if samples.asked && record.sample_rows() != samples.given {
            samples.ready = Some(record.samples_since(samples.given));
            samples.given = record.sample_rows();
            samples.asked = false;
        }
    }

    /// A run over the simulator's TCP.
    fn over_tcp(&self, rule: Option<Arc<PythonRule>>) -> PyResult<anabranch_sim::Simulation> {
        use anabranch_sim::Simulation;
        if self.log.is_some() && self.scenario.tcp.ecn == Ecn::Accurate {
            return Err(ScenarioError::new_err(
                "pcap: captures have no headers of accurate ECN: run it without --pcap, or with \
                 tcp.ecn = true",
            ));
        }
        Ok(match rule {
            None => Simulation::new(&self.scenario, self.seed),
            Some(rule) => Simulation::with_custom_rule(&self.scenario, self.seed, rule),
        })
    }

    /// A run over QUIC.
    fn with_quic(&self, rule: Option<Arc<PythonRule>>) -> PyResult<anabranch_quic::Simulation> {
        use anabranch_quic::Simulation;
        let simulation = match rule {
            None if self.library_bbr => Simulation::with_library_bbr(&self.scenario, self.seed),
            None => Simulation::new(&self.scenario, self.seed),
            Some(rule) => Simulation::with_custom_rule(&self.scenario, self.seed, rule),
        };
        simulation.map_err(unsupported)
    }

    fn simulate(
        &self,
        mut simulation: impl Virtual,
        rule: Option<Arc<PythonRule>>,
    ) -> PyResult<Record> {
        if let Some(folder) = &self.log {
            std::fs::create_dir_all(folder)?;
            simulation.write_log(folder);
        }
        let end_s = self.scenario.measure.duration_s.get();
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
            self.give_samples(simulation.so_far());
            let stretch = SLICE.as_secs_f64() / begun.elapsed().as_secs_f64();
            slice_s = LONGEST_SLICE_S.min(slice_s * stretch.clamp(0.5, 2.0));
        }
        Ok(simulation.finish_with_log()?)
    }
}
