//! The Python module `anabranch._core`: converts values and releases the GIL, no logic.

mod adjustment;
mod errors;
mod law;
mod network;
mod object;
mod record;
mod rounds;
mod rule;
mod rules;
mod run;
mod scenario;
mod session;
mod sharing;

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
        adjustment::RateAdjustment,
        errors::{Cancelled, ScenarioError},
        law::Law,
        record::columns,
        rounds::Rounds,
        rule::Path,
        rules::{algorithm, couplings, expected_one_of, features, rules, schedulers, schema},
        run::Run,
        scenario::Scenario,
        session::Session,
        sharing::share,
    };
}
