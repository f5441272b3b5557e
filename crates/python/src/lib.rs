//! The Python module `anabranch._core`: converts values and releases the GIL, no logic.

mod adjustment;
mod law;
mod network;
mod record;
mod rounds;
mod rule;
mod rules;
mod run;
mod scenario;
mod sharing;

use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;

pyo3::create_exception!(
    anabranch,
    ScenarioError,
    PyValueError,
    "What is wrong with a scenario, in one line: file and line, key, what was expected."
);

pyo3::create_exception!(anabranch, Cancelled, PyException, "The run was cancelled.");

/// Anabranch's scenario files and simulator.
#[pymodule]
mod _core {
    /// No congestion window grows beyond this, packets.
    #[pymodule_export]
    const MAX_WINDOW: f64 = anabranch_control::MAX_WINDOW;

    #[pymodule_export]
    use super::{
        Cancelled, ScenarioError,
        adjustment::RateAdjustment,
        law::Law,
        record::columns,
        rounds::Rounds,
        rule::Path,
        rules::{algorithm, rules, schema},
        run::Run,
        scenario::Scenario,
        sharing::share,
    };
}
