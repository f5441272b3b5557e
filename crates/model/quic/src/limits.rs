//! Features that the QUIC backend does not support.

use std::error::Error;
use std::fmt;

use anabranch_scenario::{Ecn, Recovery, Scenario, Workload};

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
    let unsupported = |key: String, what: String| {
        let text = format!("{key}: {what} is not available on quic; run it with --on sim");
        Err(Unsupported(text))
    };
    let tcp = &scenario.tcp;
    let smallest = MIN_DATAGRAM + UDP_HEADERS;
    if tcp.packet_bytes.get() < smallest {
        let what = format!("less than {smallest} bytes");
        return unsupported("tcp.packet_bytes".to_owned(), what);
    }
    if let Some(refusal) = tcp.scheduler.refusal("quic") {
        return Err(Unsupported(refusal));
    }
    if tcp.recovery == Recovery::NewReno {
        return unsupported("tcp.recovery".to_owned(), "newreno".to_owned());
    }
    if tcp.ecn != Ecn::Off {
        return unsupported("tcp.ecn".to_owned(), "ECN".to_owned());
    }
    for link in &scenario.links {
        let queue = &link.config.queue;
        if queue.decides_on_departure() {
            return unsupported(
                format!("links.{}.queue", link.name),
                queue.name().to_owned(),
            );
        }
    }
    for flow in &scenario.flows {
        if matches!(flow.workload, Workload::Gateway { .. }) {
            let key = format!("flows.{}.workload", flow.name);
            return unsupported(key, "a gateway".to_owned());
        }
        if matches!(flow.workload, Workload::Messages(_)) {
            let key = format!("flows.{}.workload", flow.name);
            return unsupported(key, "a workload of messages".to_owned());
        }
        if matches!(flow.workload, Workload::Media(_)) {
            let key = format!("flows.{}.workload", flow.name);
            return unsupported(key, "a media source".to_owned());
        }
        if flow.packet_bytes != tcp.packet_bytes {
            let key = format!("flows.{}.packet_bytes", flow.name);
            return unsupported(key, "a packet size of its own".to_owned());
        }
        if flow.paths.len() > MAX_PATHS {
            let key = format!("flows.{}.paths", flow.name);
            return unsupported(key, format!("more than {MAX_PATHS} paths"));
        }
        if flow.paths.iter().any(|path| !path.back.is_empty()) {
            let key = format!("flows.{}.paths", flow.name);
            return unsupported(key, "a way back over links (back)".to_owned());
        }
    }
    Ok(())
}
