//! The Python module `anabranch._core`: converts values and releases the GIL, no logic.

mod errors;
mod law;
mod library;
mod rule;
mod run;
mod scenario;
mod theory;

use pyo3::prelude::*;

/// Anabranch's scenario files and simulator.
#[pymodule]
mod _core {
    /// No congestion window grows beyond this, packets.
    #[pymodule_export]
    const MAX_WINDOW: f64 = anabranch_control::MAX_WINDOW;

    /// The version of Anabranch.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_export]
    use super::{
        errors::{Cancelled, ScenarioError},
        law::Law,
        library::Library,
        rule::Path,
        rule::{algorithm, couplings, expected_one_of, features, rules, schedulers, schema},
        run::Run,
        run::Session,
        run::columns,
        scenario::Scenario,
        theory::RateAdjustment,
        theory::Rounds,
        theory::share,
    };
}
