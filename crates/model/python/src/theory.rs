//! Models that theory computes with: controllers once per round trip, I-TCP's rate adjustment, a
//! shared server.

use anabranch_control::{Ack, AnyController, Guard, RateAdjustment as Adjustment, Trend};
use anabranch_sharing::{Class, Sharing, Sizes};
use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::ScenarioError;
use crate::law::coupled;

/// The controllers of many users, driven by whole round trips instead of packets.
///
/// The paths of user u are those from `starts[u]` to `starts[u + 1]`.
#[pyclass(module = "anabranch")]
pub struct Rounds {
    controllers: Vec<AnyController>,
    /// The controller of each path, and its number there.
    places: Vec<(usize, usize)>,
}

#[pymethods]
impl Rounds {
    /// Controllers in slow start with windows of `initial_window` packets; one algorithm per user.
    ///
    /// Raises ScenarioError.
    #[new]
    fn new(algorithms: Vec<String>, paths: Vec<usize>, initial_window: f64) -> PyResult<Rounds> {
        let (mut controllers, mut places) = (Vec::new(), Vec::new());
        for (user, (spec, paths)) in algorithms.iter().zip(paths).enumerate() {
            let algorithm = coupled(spec)?;
            controllers.push(algorithm.rule().controller(paths, initial_window));
            places.extend((0..paths).map(|r| (user, r)));
        }
        Ok(Rounds {
            controllers,
            places,
        })
    }

    /// Congestion windows, packets.
    fn windows<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        let windows: Vec<f64> = self
            .places
            .iter()
            .map(|&(user, r)| self.controllers[user].window(r))
            .collect();
        windows.into_pyarray(py)
    }

    /// Each path in `paths` ceases to send: its siblings do not count it until its next round trip
    /// has ended.
    fn leave(&mut self, paths: PyReadonlyArray1<i64>) -> PyResult<()> {
        for &path in paths.as_slice()? {
            let (user, r) = self.places[path as usize];
            self.controllers[user].on_silence(r);
        }
        Ok(())
    }

    /// A round trip of each path in `paths` ends at `now` (s): its packets, as many as its window,
    /// were acknowledged after `rtt`, of which `queue_delay` was queueing and service; where `lost`
    /// there was a loss event among them.
    fn end_round(
        &mut self,
        now: f64,
        paths: PyReadonlyArray1<i64>,
        rtt: PyReadonlyArray1<f64>,
        queue_delay: PyReadonlyArray1<f64>,
        lost: PyReadonlyArray1<bool>,
    ) -> PyResult<()> {
        let (rtt, queue_delay) = (rtt.as_slice()?, queue_delay.as_slice()?);
        for (i, &path) in paths.as_slice()?.iter().enumerate() {
            let (user, r) = self.places[path as usize];
            let controller = &mut self.controllers[user];
            let ack = Ack {
                now,
                // Late enough to end the round.
                sent_at: now,
                packets: controller.window(r) as u32,
                rtt: Some(rtt[i]),
                queue_delay: Some(queue_delay[i]),
                window_limited: true,
            };
            controller.on_ack(r, &ack);
            if lost.as_slice()?[i] {
                controller.on_loss(r);
                controller.on_recovered(r);
            }
        }
        Ok(())
    }
}

// The rate adjustment of an aggregate connection (I-TCP).

/// Decision about kappa after a round of samples.
#[pyclass(frozen, module = "anabranch")]
pub struct RateAdjustment(Adjustment);

#[pymethods]
impl RateAdjustment {
    /// The parameters of the paper's table I but for its samples, which are taken as seen.
    #[new]
    #[pyo3(signature = (*, epsilon, gamma, max_kappa, max_queue_packets, low_threshold, high_threshold, guard))]
    fn new(
        epsilon: f64,
        gamma: f64,
        max_kappa: f64,
        max_queue_packets: f64,
        low_threshold: f64,
        high_threshold: f64,
        guard: bool,
    ) -> RateAdjustment {
        RateAdjustment(Adjustment {
            samples: 2,
            period_s: 1.0,
            epsilon,
            gamma,
            max_kappa,
            max_queue_packets,
            low_threshold,
            high_threshold,
            guard: if guard { Guard::Load } else { Guard::Off },
        })
    }

    /// kappa after a round with this growth (L'), mean buffer and load over expected rate.
    /// `falling` counts the rounds with a negative slope in a row, this one included.
    fn kappa_after(
        &self,
        kappa: f64,
        growth: f64,
        mean_packets: f64,
        load: f64,
        falling: u32,
    ) -> f64 {
        let trend = Trend {
            growth,
            mean_packets,
            load,
        };
        self.0.kappa_after(kappa, &trend, falling)
    }
}

// The fluid model of a shared server.

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
