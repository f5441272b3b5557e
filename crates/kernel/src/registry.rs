//! Which congestion controls are registered in the kernel.

use std::fs;

use anyhow::{Context, Result};

const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// The names of all congestion controls of the kernel, ours and others.
///
/// # Errors
///
/// If the kernel's list cannot be read.
pub fn registered() -> Result<Vec<String>> {
    let names =
        fs::read_to_string(AVAILABLE).with_context(|| format!("cannot read {AVAILABLE}"))?;
    Ok(names.split_whitespace().map(String::from).collect())
}

/// Whether a congestion control of this name is registered.
pub(crate) fn is_registered(name: &str) -> Result<bool> {
    Ok(registered()?.iter().any(|other| other == name))
}
