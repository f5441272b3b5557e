//! Controllers that act once per round trip, for a fluid model of delay-based rules.

use anabranch_control::{Ack, AnyController};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

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
