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

pub(crate) mod flows;
mod impairments;
mod link_trace;
mod links;
mod messages;
mod picoseconds;
mod queues;

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
    let flows = flows::flows(file, &tcp, &links, files)?;
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
    let (packet_bytes, header_bytes) = (tcp.packet_bytes.get(), tcp.header_bytes);
    if packet_bytes <= header_bytes {
        let message =
            format!("expected more than header_bytes, which is {header_bytes}, got {packet_bytes}");
        return Err(Key::root("tcp").key("packet_bytes").fault(message));
    }
    Ok(())
}
