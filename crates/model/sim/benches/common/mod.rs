//! The scenarios and the clock of the benchmarks.

use std::path::Path;

use anabranch_scenario::Scenario;

/// A scenario of this folder with some of its keys replaced.
pub fn scenario(name: &str, overrides: &[(&str, &str)]) -> Scenario {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("benches/{name}.toml"));
    let overrides: Vec<(String, String)> = overrides
        .iter()
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect();
    Scenario::load(&file, &overrides).unwrap_or_else(|error| panic!("{error}"))
}

/// Processor time of this thread, ns: other load on the machine adds less to it than to the time
/// that passes.
pub fn thread_ns() -> f64 {
    fields("/proc/thread-self/schedstat")[0]
}

/// The numbers in a file of the kernel's, from the third field on if it begins with a name.
pub fn fields(file: &str) -> Vec<f64> {
    let text = std::fs::read_to_string(file).expect("Linux has this file");
    let numbers = text.rsplit(')').next().unwrap_or_default();
    numbers
        .split_whitespace()
        .map(|field| field.parse().unwrap_or(f64::NAN))
        .collect()
}
