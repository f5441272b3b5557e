//! The names of the congestion controls that are registered in the kernel.

use std::fs;

use anyhow::{Context, Result};

const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

/// The names of all congestion controls of the kernel, ours and others.
///
/// # Errors
///
/// If the kernel's list cannot be read.
pub fn registered() -> Result<Vec<String>> {
    names(AVAILABLE)
}

/// The names that every network namespace may have as its default.
///
/// # Errors
///
/// If the kernel's list cannot be read.
pub fn unrestricted() -> Result<Vec<String>> {
    names(ALLOWED)
}

fn names(path: &str) -> Result<Vec<String>> {
    let names = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    Ok(names.split_whitespace().map(String::from).collect())
}

/// Whether a congestion control of this name is registered.
pub(crate) fn is_registered(name: &str) -> Result<bool> {
    Ok(registered()?.iter().any(|other| other == name))
}
