//! From the file as written to a complete scenario: defaults resolved, names turned into indexes,
//! values without a meaning rejected.

use indexmap::IndexSet;

use crate::file::key::{Fault, Key};
use crate::file::written;
use crate::model::flows::Flow;
use crate::model::links::Link;
use crate::model::measure::Measure;
use crate::model::tcp::Tcp;
use crate::origin::Files;
use crate::resolve::range::within;

pub(crate) mod flows;
mod links;
mod range;

pub(crate) use flows::algorithm;

/// The endpoints, links and flows of a scenario; everything else is complete as written.
///
/// # Errors
/// The first fault found, in the order of the file.
pub(crate) fn resolve(
    file: &written::Scenario,
    files: &mut Files<'_>,
) -> Result<(Tcp, Vec<Link>, Vec<Flow>), Fault> {
    check_seeds(&file.seeds)?;
    check_measure(&file.measure)?;
    let tcp = file.tcp.resolve();
    check_tcp(&tcp)?;
    let links = links::links(&file.links, tcp.packet_bytes, files)?;
    let flows = flows::flows(file)?;
    Ok((tcp, links, flows))
}

fn check_seeds(seeds: &[u64]) -> Result<(), Fault> {
    let key = Key::root("seeds");
    if seeds.is_empty() {
        return Err(key.fault("expected at least one seed, got none"));
    }
    let mut known = IndexSet::new();
    for (i, seed) in seeds.iter().enumerate() {
        if !known.insert(seed) {
            let message = format!("expected each seed once, got {seed} twice");
            return Err(key.index(i).fault(message));
        }
    }
    Ok(())
}

fn check_measure(measure: &Measure) -> Result<(), Fault> {
    let key = Key::root("measure");
    let duration_s = measure.duration_s.get();
    within(&key.key("duration_s"), duration_s, 0.0..=1e7, "s")?;
    let sample_ms = measure.sample_ms.get();
    within(&key.key("sample_ms"), sample_ms, 0.001..=1e10, "ms")?;
    if measure.warmup_s.get() >= duration_s {
        let message = format!(
            "expected less than duration_s, which is {duration_s}, got {}",
            measure.warmup_s
        );
        return Err(key.key("warmup_s").fault(message));
    }
    Ok(())
}

fn check_tcp(tcp: &Tcp) -> Result<(), Fault> {
    let key = Key::root("tcp");
    let (packet_bytes, min_rto_ms) = (tcp.packet_bytes.get(), tcp.min_rto_ms.get());
    let packet_key = key.key("packet_bytes");
    within(&packet_key, packet_bytes.into(), 1.0..=65535.0, "bytes")?;
    within(&key.key("min_rto_ms"), min_rto_ms, 0.001..=1e9, "ms")?;
    let jitter_us = tcp.host_jitter_us.get();
    within(&key.key("host_jitter_us"), jitter_us, 0.0..=1e6, "us")?;
    if packet_bytes <= tcp.header_bytes {
        let message = format!(
            "expected more than header_bytes, which is {}, got {packet_bytes}",
            tcp.header_bytes
        );
        return Err(packet_key.fault(message));
    }
    Ok(())
}
