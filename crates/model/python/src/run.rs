//! One run in virtual time, over the simulator's TCP or over QUIC, also one that an agent steers,
//! and its record.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anabranch_control::External;
use anabranch_quic::controller::Library;
use anabranch_scenario::columns::Column;
use anabranch_scenario::{Ecn, Record, Scenario as Complete, Virtual};
use anabranch_sim::{Simulation, Steered, Steering};
use numpy::{IntoPyArray, PyArray2};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use crate::errors::{Cancelled, ScenarioError, raise};
use crate::library::Outsider;
use crate::scenario::Scenario;

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
    scenario: Complete,
    seed: u64,
    custom: Option<Custom>,
    library: Option<(&'static str, Library)>,
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

    /// The same over QUIC, also with a controller of the library ("noq-cubic"); each end of each
    /// connection is logged in the folder `qlog`. Raises ScenarioError for what is not available
    /// over QUIC, and `execute` raises OSError if a file of `qlog` cannot be written.
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
        let custom = self.custom.as_ref();
        let outsider = custom.map(|custom| Outsider::of(custom.rule.bind(py)));
        let outsider = outsider.as_ref();
        let record = py.detach(|| match self.backend {
            Backend::Tcp => self.simulate(self.over_tcp(outsider)?, outsider),
            Backend::Quic => self.simulate(self.with_quic(outsider)?, outsider),
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

/// A rule in Python, or a `Library`, and its name.
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
        let asked = algorithm
            .as_deref()
            .filter(|_| matches!(backend, Backend::Quic));
        let library = { Library::NAMED }
            .into_iter()
            .find(|(name, _)| asked == Some(*name));
        let algorithm = algorithm.filter(|_| library.is_none());
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
            library,
            log,
            progress: AtomicU64::new(0.0_f64.to_bits()),
            cancelled: AtomicBool::new(false),
            samples: Mutex::default(),
        })
    }

    fn tables<'py>(&self, py: Python<'py>, record: Record) -> PyResult<Bound<'py, PyDict>> {
        let custom = self.custom.as_ref().map(|custom| custom.name.as_str());
        let name = custom.or(self.library.map(|(name, _)| name));
        tables(py, record, &self.scenario, name)
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
    fn over_tcp(&self, custom: Option<&Outsider>) -> PyResult<anabranch_sim::Simulation> {
        use anabranch_sim::Simulation;
        if self.log.is_some() && self.scenario.tcp.ecn == Ecn::Accurate {
            return Err(ScenarioError::new_err(
                "pcap: captures have no headers of accurate ECN: run it without --pcap, or with \
                 tcp.ecn = true",
            ));
        }
        Ok(match custom {
            None => Simulation::new(&self.scenario, self.seed),
            Some(it) => Simulation::with_custom(&self.scenario, self.seed, &it.outside()),
        })
    }

    /// A run over QUIC.
    fn with_quic(&self, custom: Option<&Outsider>) -> PyResult<anabranch_quic::Simulation> {
        use anabranch_quic::Simulation;
        let simulation = match custom {
            None => match self.library {
                Some((_, it)) => Simulation::with_library(&self.scenario, self.seed, it),
                None => Simulation::new(&self.scenario, self.seed),
            },
            Some(it) => Simulation::with_custom(&self.scenario, self.seed, &it.outside()),
        };
        simulation.map_err(unsupported)
    }

    fn simulate(
        &self,
        mut simulation: impl Virtual,
        custom: Option<&Outsider>,
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
            if let Some(failure) = custom.and_then(Outsider::failure) {
                return Err(failure);
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

// A run in virtual time that an agent steers.

/// A run that stands still between calls, so that an agent can set windows.
#[pyclass(module = "anabranch")]
pub struct Session {
    simulation: Simulation,
    steering: BTreeMap<usize, Arc<Steering>>,
}

#[pymethods]
impl Session {
    /// A run at time 0. The flows, by index, have these values at first, one per path: their
    /// windows (packets), or with `weights` their windows' growth per round trip (packets).
    #[new]
    fn new(
        scenario: &Scenario,
        seed: u64,
        values: BTreeMap<usize, Vec<f64>>,
        weights: bool,
    ) -> PyResult<Session> {
        scenario.0.check_memory().map_err(raise)?;
        let steered = if weights {
            Steered::Weights
        } else {
            Steered::Windows
        };
        let values = values.iter();
        let steering: BTreeMap<_, _> = values
            .map(|(&flow, values)| (flow, Arc::new(Steering::new(steered, values))))
            .collect();
        let rules = steering.iter().map(|(&flow, rule)| {
            let rule: Arc<dyn External> = Arc::clone(rule) as Arc<dyn External>;
            (flow, rule)
        });
        Ok(Session {
            simulation: Simulation::with_rules(&scenario.0, seed, rules),
            steering,
        })
    }

    /// Sets the values of a flow.
    fn set(&self, flow: usize, values: Vec<f64>) {
        if let Some(steering) = self.steering.get(&flow) {
            steering.set(&values);
        }
    }

    /// Lets `seconds` pass, or the rest of the run if that is less. Releases the GIL.
    fn advance(&mut self, py: Python<'_>, seconds: f64) {
        let until_s = self.simulation.now_s() + seconds;
        py.detach(|| self.simulation.run_until(until_s));
    }

    /// The time that the run has reached, s.
    #[getter]
    fn now_s(&self) -> f64 {
        self.simulation.now_s()
    }

    /// A row per path of each user: index of the flow, window (packets), smoothed RTT (s), and
    /// since the start of the run packets sent, packets lost, bytes delivered.
    fn paths<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let states = self.simulation.path_states();
        let rows: Vec<Vec<f64>> = states
            .iter()
            .map(|state| {
                vec![
                    state.flow.into(),
                    state.window,
                    state.rtt_s,
                    state.sent_packets as f64,
                    state.lost_packets as f64,
                    state.delivered_bytes as f64,
                ]
            })
            .collect();
        Ok(PyArray2::from_vec2(py, &rows)?)
    }
}

// A record of the simulator as Python's dicts of columns.

/// The tables by name. Indexes of flows and links become their names; `flows` gets the column
/// `rule`: the algorithm of the flow, or `custom` if a rule from Python replaced it. Whole numbers
/// become int64, so that differences can be negative.
pub fn tables<'py>(
    py: Python<'py>,
    record: Record,
    scenario: &Complete,
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

fn rule(scenario: &Complete, flow: usize, custom: Option<&str>) -> String {
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
