//! Ranges of the numbers in a scenario file.

use std::ops::RangeInclusive;

use crate::file::key::{Fault, Key};

/// Rejects a number out of range: virtual time, picoseconds in 64 bits, has limits.
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
