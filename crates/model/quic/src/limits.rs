//! Features that the QUIC backend does not support.

use std::error::Error;
use std::fmt;

use anabranch_scenario::{Scenario, refusal};

use crate::transport::{MAX_PATHS, UDP_HEADERS};

/// The smallest datagram that QUIC allows, bytes (RFC 9000, section 14).
const MIN_DATAGRAM: u32 = 1200;

/// A part of a scenario that this backend does not support: its key, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported(String);

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Unsupported {}

/// Checks that everything in the scenario is supported.
///
/// # Errors
/// If not.
pub fn check(scenario: &Scenario) -> Result<(), Unsupported> {
    let smallest = MIN_DATAGRAM + UDP_HEADERS;
    let is_small = scenario.tcp.packet_bytes.get() < smallest;
    let small = is_small.then(|| {
        (
            "tcp.packet_bytes".to_owned(),
            format!("less than {smallest} bytes"),
        )
    });
    let mut flows = scenario.flows.iter();
    let many = flows.find(|flow| flow.paths.len() > MAX_PATHS);
    let many = many.map(|flow| {
        (
            format!("flows.{}.paths", flow.name),
            format!("more than {MAX_PATHS} paths"),
        )
    });
    let limit = small
        .or(many)
        .map(|(key, name)| refusal(&key, &name, "quic", &["sim"]));
    limit
        .or_else(|| scenario.refusal("quic"))
        .map_or(Ok(()), |text| Err(Unsupported(text)))
}
