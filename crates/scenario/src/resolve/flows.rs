//! Flows: names turned into indexes, algorithms looked up.

use anabranch_control::Algorithm;

use super::within;
use crate::error::{Fault, list, suggestion};
use crate::file;
use crate::flows::{Flow, Path, Workload};
use crate::key::Key;
use crate::links::Link;
use crate::number::NonNegative;

pub(super) fn flows(file: &file::Scenario, links: &[Link]) -> Result<Vec<Flow>, Fault> {
    let key = Key::root("flows");
    if file.flows.is_empty() {
        return Err(key.fault("expected at least one flow, got none"));
    }
    let mut flows: Vec<Flow> = Vec::new();
    for (i, flow) in file.flows.iter().enumerate() {
        let key = key.index(i);
        if flow.name.is_empty() {
            return Err(key.key("name").fault("expected a name, got \"\""));
        }
        if flows.iter().any(|other| other.name == flow.name) {
            let message = format!("expected a name of its own, got {:?} again", flow.name);
            return Err(key.key("name").fault(message));
        }
        check_times(&key, flow)?;
        check_workload(&key.key("workload"), &flow.workload)?;
        flows.push(Flow {
            name: flow.name.clone(),
            count: flow.count,
            paths: paths(&key.key("paths"), &flow.paths, links)?,
            algorithm: algorithm(file, i)?,
            workload: flow.workload.clone(),
            start_s: flow.start_s,
            start_spread_s: flow.start_spread_s,
            stop_s: flow.stop_s,
        });
    }
    Ok(flows)
}

fn check_times(key: &Key, flow: &file::Flow) -> Result<(), Fault> {
    within(&key.key("start_s"), flow.start_s.get(), 0.0, 1e7, "s")?;
    within(
        &key.key("start_spread_s"),
        flow.start_spread_s.get(),
        0.0,
        1e7,
        "s",
    )?;
    let latest_start_s = flow.start_s.get() + flow.start_spread_s.get();
    if let Some(stop_s) = flow.stop_s {
        let key = key.key("stop_s");
        within(&key, stop_s.get(), 0.0, 1e7, "s")?;
        if stop_s.get() <= latest_start_s {
            return Err(key.fault(format!(
                "expected more than start_s + start_spread_s, which is {latest_start_s}, got {stop_s}"
            )));
        }
    }
    Ok(())
}

fn check_workload(key: &Key, workload: &Workload) -> Result<(), Fault> {
    match workload {
        Workload::Bulk | Workload::File { .. } => Ok(()),
        Workload::OnOff { on_s, off_s } => {
            let key = key.key("on_off");
            within(&key.key("on_s"), on_s.get(), 1e-6, 1e7, "s")?;
            within(&key.key("off_s"), off_s.get(), 1e-6, 1e7, "s")
        }
        Workload::Poisson { rate_per_s, .. } => within(
            &key.key("poisson").key("rate_per_s"),
            rate_per_s.get(),
            1e-6,
            1e6,
            "files per s",
        ),
    }
}

fn paths(key: &Key, paths: &[file::Path], links: &[Link]) -> Result<Vec<Path>, Fault> {
    if paths.is_empty() {
        return Err(key.fault("expected at least one path, such as [[\"R1\"]], got none"));
    }
    paths
        .iter()
        .enumerate()
        .map(|(i, written)| path(&key.index(i), written, links))
        .collect()
}

fn path(key: &Key, path: &file::Path, links: &[Link]) -> Result<Path, Fault> {
    let (names, key, return_delay_ms) = match path {
        file::Path::Links(links) => (links, key.clone(), None),
        file::Path::Full(path) => (&path.links, key.key("links"), path.return_delay_ms),
    };
    if names.is_empty() {
        return Err(key.fault("expected at least one link, got none"));
    }
    let mut route = Vec::new();
    for (i, name) in names.iter().enumerate() {
        let known = || links.iter().map(|link| link.name.as_str());
        let Some(index) = known().position(|link| link == name) else {
            let message = format!(
                "unknown link {name:?}{}, expected {}",
                suggestion(name, known()),
                list(known())
            );
            return Err(key.index(i).fault(message));
        };
        if route.contains(&index) {
            let message = format!("expected each link once in a path, got {name:?} again");
            return Err(key.index(i).fault(message));
        }
        route.push(index);
    }
    let forward_ms = || route.iter().map(|&link| delay_ms(&links[link])).sum();
    let return_delay_ms = match return_delay_ms {
        Some(written) => written,
        None => NonNegative::constant(forward_ms()),
    };
    Ok(Path {
        links: route,
        return_delay_ms,
    })
}

fn delay_ms(link: &Link) -> f64 {
    link.config.delay as f64 / anabranch_net::MILLISECOND as f64
}

/// The algorithm that flow `i` runs: its own, or the scenario's.
///
/// # Errors
/// If neither is given, or what is given is not known.
pub(crate) fn algorithm(file: &file::Scenario, i: usize) -> Result<Algorithm, Fault> {
    let flow = &file.flows[i];
    let flow_key = Key::root("flows").index(i);
    let (key, spec) = match (&flow.algorithm, &file.algorithm) {
        (Some(own), _) => (flow_key.key("algorithm"), own),
        (None, Some(shared)) => (Key::root("algorithm"), shared),
        (None, None) => {
            return Err(flow_key.key("algorithm").fault(
                "expected an algorithm, such as \"lia\", here or at the top of the file, got none",
            ));
        }
    };
    let alone = Algorithm::parse(spec).map_err(|message| key.fault(message))?;
    if flow.parameters.is_empty() {
        return Ok(alone);
    }
    let key = flow_key.key("parameters");
    if flow.algorithm.is_none() {
        return Err(key.fault("expected an algorithm of the flow's own beside its parameters"));
    }
    if spec.contains(':') {
        let message = format!("expected parameters here or in the algorithm, got {spec:?} as well");
        return Err(key.fault(message));
    }
    let parameters: Vec<(&str, f64)> = flow
        .parameters
        .iter()
        .map(|(name, &value)| (name.as_str(), value))
        .collect();
    for one in &parameters {
        Algorithm::new(spec, &[*one]).map_err(|message| key.key(one.0).fault(message))?;
    }
    Algorithm::new(spec, &parameters).map_err(|message| key.fault(message))
}
