//! A run in virtual time that an agent steers.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_control::External;
use anabranch_scenario::Virtual;
use anabranch_sim::{Simulation, Steered, Steering};
use numpy::PyArray2;
use pyo3::prelude::*;

use crate::errors::raise;
use crate::scenario::Scenario;

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
