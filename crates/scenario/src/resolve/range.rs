//! Ranges of the numbers in a scenario file.

use std::ops::RangeInclusive;

use crate::file::key::{Fault, Key};

/// Refuses what virtual time, a u64 of picoseconds, could not carry.
pub(crate) fn within(
    key: &Key,
    x: f64,
    range: RangeInclusive<f64>,
    unit: &str,
) -> Result<(), Fault> {
    if range.contains(&x) {
        return Ok(());
    }
    Err(key.fault(format!(
        "expected {} to {} {unit}, got {x}",
        range.start(),
        range.end()
    )))
}
