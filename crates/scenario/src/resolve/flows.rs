//! Flows: names turned into indexes, algorithms looked up.

use anabranch_control::{Algorithm, RULES};
use indexmap::{IndexMap, IndexSet};

use crate::error::{self, expected_one_of, with_suggestion};
use crate::file::key::{Fault, Key};
use crate::file::written;
use crate::model::adjust::Adjust;
use crate::model::flows::{Flow, Path, Workload};
use crate::model::number::NonNegative;
use crate::model::size::Size;
use crate::resolve::range::within;

type Links = IndexMap<String, written::Link>;

pub(super) fn flows(file: &written::Scenario) -> Result<Vec<Flow>, Fault> {
    let key = Key::root("flows");
    if file.flows.is_empty() {
        return Err(key.fault("expected at least one flow, got none"));
    }
    let mut names = IndexSet::new();
    let mut flows = Vec::new();
    for (i, flow) in file.flows.iter().enumerate() {
        let key = key.index(i);
        if flow.name.is_empty() {
            return Err(key.key("name").fault("expected a name, got \"\""));
        }
        if !names.insert(&flow.name) {
            let message = format!("expected a unique name, got {:?} again", flow.name);
            return Err(key.key("name").fault(message));
        }
        check_times(&key, flow)?;
        check_workload(&key.key("workload"), &flow.workload)?;
        flows.push(Flow {
            name: flow.name.clone(),
            count: flow.count,
            paths: paths(&key.key("paths"), flow, &file.links)?,
            algorithm: algorithm(file, i)?,
            workload: flow.workload.clone(),
            start_s: flow.start_s,
            start_spread_s: flow.start_spread_s,
            stop_s: flow.stop_s,
        });
    }
    Ok(flows)
}

fn check_times(key: &Key, flow: &written::Flow) -> Result<(), Fault> {
    let (start_s, spread_s) = (flow.start_s.get(), flow.start_spread_s.get());
    within(&key.key("start_s"), start_s, 0.0..=1e7, "s")?;
    within(&key.key("start_spread_s"), spread_s, 0.0..=1e7, "s")?;
    let Some(stop_s) = flow.stop_s else {
        return Ok(());
    };
    let key = key.key("stop_s");
    within(&key, stop_s.get(), 0.0..=1e7, "s")?;
    let latest_s = start_s + spread_s;
    if stop_s.get() <= latest_s {
        return Err(key.fault(format!(
            "expected more than start_s + start_spread_s, which is {latest_s}, got {stop_s}"
        )));
    }
    Ok(())
}

fn check_workload(key: &Key, workload: &Workload) -> Result<(), Fault> {
    match workload {
        Workload::Bulk | Workload::File { .. } => Ok(()),
        Workload::OnOff { on_s, off_s } => {
            let key = key.key("on_off");
            within(&key.key("on_s"), on_s.get(), 1e-6..=1e7, "s")?;
            within(&key.key("off_s"), off_s.get(), 1e-6..=1e7, "s")
        }
        Workload::Poisson { rate_per_s, size } => {
            check_files(&key.key("poisson"), rate_per_s.get(), size)
        }
        Workload::Gateway {
            rate_per_s,
            size,
            adjust,
            ..
        } => {
            let key = key.key("gateway");
            check_files(&key, rate_per_s.get(), size)?;
            adjust
                .as_ref()
                .map_or(Ok(()), |adjust| check_adjust(&key.key("adjust"), adjust))
        }
    }
}

fn check_files(key: &Key, rate_per_s: f64, size: &Size) -> Result<(), Fault> {
    within(&key.key("rate_per_s"), rate_per_s, 1e-6..=1e6, "per s")?;
    let (name, mean_bytes) = match size {
        Size::Pareto { mean_bytes, .. } => ("pareto", mean_bytes),
        Size::Exponential { mean_bytes } => ("exponential", mean_bytes),
    };
    let key = key.key("size").key(name).key("mean_bytes");
    within(&key, mean_bytes.get(), 1.0..=1e15, "bytes")
}

/// Checks the ranges of a rate adjustment that the types of its numbers leave open.
///
/// # Errors
/// The first number out of range, with its key below `key`.
pub fn check_adjust(key: &Key, adjust: &Adjust) -> Result<(), Fault> {
    let samples = f64::from(adjust.samples.get());
    within(&key.key("samples"), samples, 2.0..=1e6, "samples")?;
    within(&key.key("period_s"), adjust.period_s.get(), 1e-6..=1e7, "s")?;
    let max_kappa = adjust.max_kappa.get();
    within(&key.key("max_kappa"), max_kappa, 1.0..=1e6, "packets")
}

fn paths(key: &Key, flow: &written::Flow, links: &Links) -> Result<Vec<Path>, Fault> {
    if flow.paths.is_empty() {
        return Err(key.fault("expected at least one path, such as [[\"R1\"]], got none"));
    }
    let numbered = flow.paths.iter().enumerate();
    let paths: Vec<Path> = numbered
        .map(|(i, written)| path(&key.index(i), written, links))
        .collect::<Result<_, _>>()?;
    check_starts(key, &paths, flow.start_s)?;
    Ok(paths)
}

/// A user always has an open path, and open paths come before closed ones.
fn check_starts(key: &Key, paths: &[Path], flow_start_s: NonNegative) -> Result<(), Fault> {
    let key_of = |i: usize| key.index(i).key("start_s");
    let first_s = paths[0].start_s;
    if first_s > flow_start_s {
        return Err(key_of(0).fault(format!(
            "expected at most the flow's start_s, which is {flow_start_s}, got {first_s}: \
             the first path opens with its user"
        )));
    }
    let earlier = paths
        .windows(2)
        .position(|pair| pair[1].start_s < pair[0].start_s);
    earlier.map_or(Ok(()), |i| {
        let (before_s, this_s) = (paths[i].start_s, paths[i + 1].start_s);
        Err(key_of(i + 1).fault(format!(
            "expected at least {before_s}, the start_s of the path before it, got {this_s}: \
             list the paths in the order in which they open"
        )))
    })
}

fn path(key: &Key, path: &written::Path, links: &Links) -> Result<Path, Fault> {
    let at_once = NonNegative::constant(0.0);
    let (key_of_links, names, written_ms, start_s) = match path {
        written::Path::Links(names) => (key.clone(), names, None, at_once),
        written::Path::Full(path) => {
            let key_of_links = key.key("links");
            (
                key_of_links,
                &path.links,
                path.return_delay_ms,
                path.start_s,
            )
        }
    };
    within(&key.key("start_s"), start_s.get(), 0.0..=1e7, "s")?;
    let route = route(&key_of_links, names, links)?;
    let forward_ms: f64 = route.iter().map(|&link| links[link].delay_ms.get()).sum();
    let return_delay_ms = written_ms.unwrap_or(NonNegative::constant(forward_ms));
    within(
        &key.key("return_delay_ms"),
        return_delay_ms.get(),
        0.0..=1e6,
        "ms",
    )?;
    Ok(Path {
        links: route,
        return_delay_ms,
        start_s,
    })
}

/// The indexes of the links of a path.
fn route(key: &Key, names: &[String], links: &Links) -> Result<Vec<usize>, Fault> {
    if names.is_empty() {
        return Err(key.fault("expected at least one link, got none"));
    }
    let mut route = IndexSet::new();
    for (i, name) in names.iter().enumerate() {
        let Some(link) = links.get_index_of(name) else {
            let known: Vec<&str> = links.keys().map(String::as_str).collect();
            let expected = expected_one_of(name, &known);
            return Err(key
                .index(i)
                .fault(format!("unknown link {name:?}, {expected}")));
        };
        if !route.insert(link) {
            let message = format!("expected each link once in a path, got {name:?} again");
            return Err(key.index(i).fault(message));
        }
    }
    Ok(route.into_iter().collect())
}

/// The algorithm that flow `i` runs: its own, or the scenario's.
///
/// # Errors
/// If neither is given, the given one is unknown, or it has no kappa for the gateway to adjust.
pub(crate) fn algorithm(file: &written::Scenario, i: usize) -> Result<Algorithm, Fault> {
    let algorithm = named_algorithm(file, i)?;
    let flow = &file.flows[i];
    let key = Key::root("flows").index(i);
    if let Workload::Gateway {
        adjust: Some(_), ..
    } = flow.workload
    {
        let (name, paths) = (algorithm.name(), flow.paths.len());
        if algorithm.info().weight.is_none() || paths != 1 {
            return Err(key
                .key("workload")
                .key("gateway")
                .key("adjust")
                .fault(format!(
                    "expected a flow that runs {} over one path, got {name} over {paths}",
                    weighted().join(" or ")
                )));
        }
    }
    Ok(algorithm)
}

/// The rules whose weight a gateway can adjust.
fn weighted() -> Vec<&'static str> {
    let weighted = RULES.iter().filter(|info| info.weight.is_some());
    weighted.map(|info| info.name).collect()
}

fn named_algorithm(file: &written::Scenario, i: usize) -> Result<Algorithm, Fault> {
    let flow = &file.flows[i];
    let flow_key = Key::root("flows").index(i);
    let (key, spec) = match (&flow.algorithm, &file.algorithm) {
        (Some(own), _) => (flow_key.key("algorithm"), own),
        (None, Some(shared)) => (Key::root("algorithm"), shared),
        (None, None) => {
            return Err(flow_key.key("algorithm").fault(
                "expected an algorithm, such as \"lia\", here, at the top of the file or with \
                 --algorithm, got none",
            ));
        }
    };
    let alone = error::algorithm(spec).map_err(|message| key.fault(message))?;
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
        Algorithm::new(spec, &[*one])
            .map_err(|error| key.key(one.0).fault(with_suggestion(&error)))?;
    }
    Algorithm::new(spec, &parameters).map_err(|error| key.fault(with_suggestion(&error)))
}
