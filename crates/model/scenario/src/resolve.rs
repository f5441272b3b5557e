//! From the file as written to a complete scenario: defaults resolved, names turned into indexes,
//! values without a meaning rejected.

use anabranch_control::{Algorithm, RULES};
use anabranch_net::{Queue, SECOND};
use indexmap::{IndexMap, IndexSet};

use crate::error;
use crate::error::{expected_one_of, with_suggestion};
use crate::file::key::{Fault, Key};
use crate::file::written;
use crate::model::flows::{
    Flow, Media, Message, Messages, Path, Workload, first_out_of_order, parse,
};
use crate::model::links::{Link, Measure};
use crate::model::number::{DelayMs, PacketBytes, TimeS};
use crate::model::tcp::{Scheduler, Tcp};
use crate::scenario::Files;

mod links;

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
    let flows = flows(file, &tcp, &links, files)?;
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

// Flows: names turned into indexes, algorithms looked up.

type Links = IndexMap<String, written::Link>;

pub(super) fn flows(
    file: &written::Scenario,
    tcp: &Tcp,
    links: &[Link],
    files: &mut Files<'_>,
) -> Result<Vec<Flow>, Fault> {
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
        let paths = paths(&key.key("paths"), flow, &file.links)?;
        check_media_paths(&key.key("paths"), flow, &paths)?;
        let start_spread_s = match flow.start_spread_s {
            Some(written_s) => written_s,
            None => {
                let duration_s = file.measure.duration_s.get();
                default_spread_s(&key, flow, duration_s, tcp, links, &paths[0])?
            }
        };
        check_times(&key, flow, start_spread_s)?;
        flows.push(Flow {
            name: flow.name.clone(),
            count: flow.count,
            packet_bytes: packet_bytes(&key.key("packet_bytes"), flow, &paths, tcp, links)?,
            paths,
            algorithm: algorithm(file, i)?,
            workload: workload(&key.key("workload"), &flow.workload, files)?,
            start_s: flow.start_s,
            start_spread_s,
            stop_s: flow.stop_s,
        });
    }
    Ok(flows)
}

/// The size of a flow's packets: its own, or the scenario's.
fn packet_bytes(
    key: &Key,
    flow: &written::Flow,
    paths: &[Path],
    tcp: &Tcp,
    links: &[Link],
) -> Result<PacketBytes, Fault> {
    let Some(own) = flow.packet_bytes else {
        return Ok(tcp.packet_bytes);
    };
    if own.get() <= tcp.header_bytes {
        return Err(key.fault(format!(
            "expected more than tcp.header_bytes, which is {}, got {own}",
            tcp.header_bytes
        )));
    }
    if paths.len() > 1 && tcp.scheduler == Scheduler::Linux {
        return Err(key.fault(
            "expected a flow of one path, or another tcp.scheduler: Linux' scheduler counts its \
             buffers in packets of tcp.packet_bytes",
        ));
    }
    for &link in paths.iter().flat_map(|path| &path.links) {
        let Link { name, config } = &links[link];
        if let Queue::Policer(policer) = &config.queue
            && policer.burst_bytes < own.get()
        {
            return Err(key.fault(format!(
                "expected at most links.{name}.queue.policer.burst_bytes, which is {}, got {own}: \
                 no full packet would ever pass",
                policer.burst_bytes
            )));
        }
    }
    Ok(own)
}

fn check_media(key: &Key, media: &Media) -> Result<(), Fault> {
    match (&media.rate_mbps, &media.nada) {
        (None, None) => Err(key.fault("expected rate_mbps or nada, got neither")),
        (Some(_), Some(_)) => Err(key.fault("expected rate_mbps or nada, got both")),
        (None, Some(nada)) if nada.min_mbps > nada.max_mbps => {
            Err(key.key("nada").key("min_mbps").fault(format!(
                "expected at most max_mbps, which is {}, got {}",
                nada.max_mbps, nada.min_mbps
            )))
        }
        _ => Ok(()),
    }
}

/// A media source sends over one path, and its reports return after a delay.
fn check_media_paths(key: &Key, flow: &written::Flow, paths: &[Path]) -> Result<(), Fault> {
    if !matches!(flow.workload, Workload::Media(_)) {
        return Ok(());
    }
    match paths {
        [path] if path.back.is_empty() => Ok(()),
        [_] => Err(key.index(0).key("back").fault(
            "expected no links of a way back: the reports of a media source return after a delay",
        )),
        more => Err(key.fault(format!(
            "expected one path of a media source, got {}",
            more.len()
        ))),
    }
}

/// Workload of a user, with the messages of a file.
fn workload(key: &Key, written: &Workload, files: &mut Files<'_>) -> Result<Workload, Fault> {
    match written {
        Workload::Media(media) => {
            check_media(&key.key("media"), media)?;
            Ok(written.clone())
        }
        Workload::Messages(written) => {
            messages(&key.key("messages"), written, files).map(Workload::Messages)
        }
        other => Ok(other.clone()),
    }
}

/// Base RTTs over which the users of a flow start: an RTT with a queue of three bandwidth-delay
/// products. Spread over one base RTT, two flows through a drop-tail queue may keep in step
/// whatever the seed.
const SPREAD_RTTS: f64 = 4.0;

/// The share of a flow's time in which its users start at most.
const SPREAD_SHARE: f64 = 0.1;

/// The spread of a flow that states none, so that no result is one trajectory by accident.
fn default_spread_s(
    key: &Key,
    flow: &written::Flow,
    duration_s: f64,
    tcp: &Tcp,
    links: &[Link],
    first: &Path,
) -> Result<TimeS, Fault> {
    if matches!(
        flow.workload,
        Workload::Poisson { .. } | Workload::Gateway { .. }
    ) {
        return Ok(TimeS::constant(0.0));
    }
    let packet_bits = 8.0 * f64::from(tcp.packet_bytes.get());
    let there_s = first.links.iter().map(|&index| {
        let link = &links[index];
        link.config.delay as f64 / SECOND as f64 + packet_bits / (1e6 * link.rate_mbps())
    });
    let rtt_s = there_s.sum::<f64>() + first.return_delay_ms.get() / 1000.0;
    let stop_s = flow
        .stop_s
        .map_or(duration_s, |stop_s| stop_s.get().min(duration_s));
    let has_s = (stop_s - flow.start_s.get()).max(0.0);
    TimeS::try_from((SPREAD_RTTS * rtt_s).min(SPREAD_SHARE * has_s))
        .map_err(|message| key.key("start_spread_s").fault(message))
}

fn check_times(key: &Key, flow: &written::Flow, spread_s: TimeS) -> Result<(), Fault> {
    let latest_s = flow.start_s.get() + spread_s.get();
    match flow.stop_s {
        Some(stop_s) if stop_s.get() <= latest_s => Err(key.key("stop_s").fault(format!(
            "expected more than start_s + start_spread_s, which is {latest_s}, got {stop_s}"
        ))),
        _ => Ok(()),
    }
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
fn check_starts(key: &Key, paths: &[Path], flow_start_s: TimeS) -> Result<(), Fault> {
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
    let at_once = TimeS::constant(0.0);
    let (route, back, written_ms, start_s) = match path {
        written::Path::Links(names) => (route(key, names, links)?, Vec::new(), None, at_once),
        written::Path::Full(path) => (
            route(&key.key("links"), &path.links, links)?,
            way_back(key, path, links)?,
            path.return_delay_ms,
            path.start_s,
        ),
    };
    let return_delay_ms = match written_ms {
        Some(delay_ms) => delay_ms,
        None => {
            let over = if back.is_empty() { &route } else { &back };
            let sum_ms: f64 = over.iter().map(|&link| links[link].delay_ms.get()).sum();
            DelayMs::try_from(sum_ms)
                .map_err(|message| key.key("return_delay_ms").fault(message))?
        }
    };
    Ok(Path {
        links: route,
        back,
        return_delay_ms,
        start_s,
    })
}

/// The indexes of the links that bring a path's ACKs back; none if they return after a delay.
fn way_back(key: &Key, path: &written::FullPath, links: &Links) -> Result<Vec<usize>, Fault> {
    if path.back.is_empty() {
        return Ok(Vec::new());
    }
    if path.return_delay_ms.is_some() {
        return Err(key.key("return_delay_ms").fault(
            "expected either return_delay_ms or back, got both: the links of back have delays of \
             their own",
        ));
    }
    route(&key.key("back"), &path.back, links)
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

// Messages: one of their three forms, and those of a file.

/// Phrase for the three forms.
const FORMS: &str = "expected size_bytes and interval_ms, or list, or file";

/// The messages as written, with those of a list or a file in `read`.
///
/// # Errors
/// If they are written in no form or in several, there is none, or they are out of order.
pub(super) fn messages(
    key: &Key,
    written: &Messages,
    files: &mut Files<'_>,
) -> Result<Messages, Fault> {
    let mut messages = written.clone();
    let periodic = [written.size_bytes.is_some(), written.interval_ms.is_some()];
    let (listed, file) = (!written.list.is_empty(), &written.file);
    match (periodic, listed, file) {
        ([true, true], false, None) => {}
        ([false, false], true, None) => {
            messages.read.clone_from(&written.list);
            if let Some(i) = first_out_of_order(&messages.read) {
                let (before, this) = (messages.read[i - 1].time_s, messages.read[i].time_s);
                let key = key.key("list").index(i).key("time_s");
                return Err(key.fault(out_of_order(before.get(), this.get())));
            }
        }
        ([false, false], false, Some(file)) => {
            messages.read = read(&key.key("file"), file, files)?;
        }
        ([false, false], false, None) => return Err(key.fault(format!("{FORMS}, got none"))),
        ([true, false], false, None) => {
            return Err(key.fault(format!("{FORMS}, got size_bytes without interval_ms")));
        }
        ([false, true], false, None) => {
            return Err(key.fault(format!("{FORMS}, got interval_ms without size_bytes")));
        }
        _ => return Err(key.fault(format!("{FORMS}, got more than one of them"))),
    }
    Ok(messages)
}

fn read(key: &Key, file: &str, files: &mut Files<'_>) -> Result<Vec<Message>, Fault> {
    let content = files
        .content(file)
        .map_err(|reason| key.fault(format!("{file}: {reason}")))?;
    let messages = parse(&String::from_utf8_lossy(&content))
        .map_err(|(line, fault)| key.fault(format!("{file}: line {line}: {fault}")))?;
    if let Some(i) = first_out_of_order(&messages) {
        let (before, this) = (messages[i - 1].time_s, messages[i].time_s);
        let fault = out_of_order(before.get(), this.get());
        return Err(key.fault(format!("{file}: message {}: {fault}", i + 1)));
    }
    if messages.is_empty() {
        return Err(key.fault(format!(
            "{file}: expected a message, got none after the header"
        )));
    }
    Ok(messages)
}

fn out_of_order(before_s: f64, this_s: f64) -> String {
    format!("expected at least {before_s}, the time_s of the message before, got {this_s}")
}
