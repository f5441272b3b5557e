//! What the tests of the simulator share.

#![allow(dead_code, reason = "no test uses all of it")]

use anabranch_scenario::{Record, Scenario};
use anabranch_sim::Simulation;

/// The scenario of a TOML text.
pub fn scenario(text: &str) -> Scenario {
    Scenario::parse(text.as_bytes(), "test", &[]).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// What a run of a TOML text with one seed measures.
pub fn run(text: &str, seed: u64) -> Record {
    Simulation::new(&scenario(text), seed).finish()
}
