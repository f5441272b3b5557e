//! How much memory a run could need; a scenario that needs too much is rejected before it runs.

use anabranch_net::{Queue, SECOND};

use crate::file::key::{Fault, Key};
use crate::model::flows::{Flow, Path, Workload};
use crate::model::links::Link;
use crate::scenario::Scenario;

/// State of a user, and of each of its paths, rows of the tables of totals included, bytes.
const USER_BYTES: f64 = 2048.0;
/// A packet in flight or waiting, with its place in the sender's and the receiver's lists, bytes.
const PACKET_BYTES: f64 = 64.0;
/// An acknowledgement on links of its way back, with SACK blocks, bytes.
const ACK_BYTES: f64 = 192.0;
/// A row of the samples or of the finished files, in vectors that grow by doubling, bytes.
const ROW_BYTES: f64 = 128.0;
/// A file in the buffer of a gateway, in lists that grow by doubling, bytes.
const FILE_BYTES: f64 = 64.0;
/// The delay of a packet of media, in a list that grows by doubling, bytes.
const DELAY_BYTES: f64 = 16.0;
/// A sender may detect losses this late: a timeout, s.
const TIMEOUT_S: f64 = 1.0;
/// In slow start a window grows to this multiple of what the path can hold.
const OVERSHOOT: f64 = 2.0;
const GIB: f64 = 1_073_741_824.0;

impl Scenario {
    /// Bytes that one run could need at most: 2 KiB for each user and each of its paths, 64 B for
    /// each packet that can be outstanding (bounded by file sizes, receive buffers and what the
    /// links hold over a round trip and a timeout), 128 B for each row of samples and finished
    /// files, and the connections of those files that a Poisson workload brings faster than its
    /// paths carry them. What a link holds counts once, however many flows cross it. A run of
    /// packets that could need more than `measure.max_memory_gib` is refused
    /// ([`Scenario::check_memory`]).
    pub fn memory_estimate(&self) -> u64 {
        estimate(self) as u64
    }
}

/// Bytes that a run of the scenario could need: for each user and path its state, the packets that
/// can be outstanding, the files that finish and the samples.
fn estimate(scenario: &Scenario) -> f64 {
    samples(scenario)
        + flows(scenario)
            .into_iter()
            .map(|(_, bytes, _)| bytes)
            .sum::<f64>()
}

/// Rejects a scenario that could need more than `measure.max_memory_gib`, at the key that matters.
pub(crate) fn check(scenario: &Scenario) -> Result<(), Fault> {
    let bytes = estimate(scenario);
    let limit_gib = scenario.measure.max_memory_gib.get();
    if bytes <= limit_gib * GIB {
        return Ok(());
    }
    let (key, _, remedy) = if bytes - samples(scenario) <= limit_gib * GIB {
        (
            Key::root("measure").key("sample_ms"),
            0.0,
            "raise sample_ms",
        )
    } else {
        flows(scenario)
            .into_iter()
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .expect("a scenario has flows")
    };
    Err(key.fault(format!(
        "expected a run that needs at most {limit_gib} GiB, got an estimate of {:.1} GiB: \
         {remedy} or raise measure.max_memory_gib",
        bytes / GIB
    )))
}

/// The needs of each flow: the key that causes them, bytes, and the remedy.
fn flows(scenario: &Scenario) -> Vec<(Key, f64, &'static str)> {
    let each: Vec<f64> = scenario
        .flows
        .iter()
        .map(|flow| outstanding_packets(scenario, flow))
        .collect();
    // Packets on the links are shared by all flows that cross them. Files are a group of their own,
    // since their sizes bound them too.
    let share = |file: bool| {
        let own = scenario.flows.iter().zip(&each);
        let together: f64 = own
            .filter(|(flow, _)| is_file(flow) == file)
            .map(|(_, packets)| packets)
            .sum();
        (packets_of_all(scenario, file) / together).min(1.0)
    };
    let (of_files, of_others) = (share(true), share(false));
    let needs = |(i, flow): (usize, &Flow)| {
        let key = Key::root("flows").index(i);
        let users = f64::from(flow.count.get());
        let state = users * (1.0 + flow.paths.len() as f64) * USER_BYTES;
        let share = if is_file(flow) { of_files } else { of_others };
        let packets = share * each[i] * packet_bytes(flow);
        let (kind, rate, remedy) = match flow.workload {
            Workload::Gateway { .. } => ("gateway", Some("rate_per_s"), "lower rate_per_s"),
            Workload::Messages(_) => ("messages", None, "send fewer messages"),
            Workload::Media(_) => ("media", None, "lower the rate"),
            _ => ("poisson", Some("rate_per_s"), "lower rate_per_s"),
        };
        let arrivals = key.key("workload").key(kind);
        let arrivals = rate.map_or(arrivals.clone(), |rate| arrivals.key(rate));
        [
            (key.key("count"), state + packets, "lower count"),
            (arrivals, files_bytes(scenario, flow), remedy),
        ]
    };
    scenario.flows.iter().enumerate().flat_map(needs).collect()
}

fn is_file(flow: &Flow) -> bool {
    matches!(flow.workload, Workload::File { .. })
}

/// Packets that all flows with files, or all others, can have outstanding together: first windows,
/// or what the links hold, each of them once.
fn packets_of_all(scenario: &Scenario, files: bool) -> f64 {
    let flows = || {
        scenario
            .flows
            .iter()
            .filter(move |flow| is_file(flow) == files)
    };
    let first = f64::from(scenario.tcp.initial_window_packets.get());
    let first_windows: f64 = flows()
        .map(|flow| f64::from(flow.count.get()) * first * flow.paths.len() as f64)
        .sum();
    let links = scenario.links.len();
    let (mut moving, mut waiting) = (vec![0.0_f64; links], vec![0.0_f64; links]);
    for flow in flows() {
        let bytes = f64::from(flow.packet_bytes.get());
        for path in &flow.paths {
            let rate = |link: &usize| scenario.links[*link].rate_mbps();
            let narrowest = path.links.iter().min_by(|a, b| rate(a).total_cmp(&rate(b)));
            if let Some(&link) = narrowest {
                let sent = rate(&link) * 1e6 / 8.0 / bytes * away_s(scenario, path, bytes);
                moving[link] = moving[link].max(sent);
            }
            for &link in &path.links {
                let packets = queue_packets(&scenario.links[link].config.queue, bytes);
                waiting[link] = waiting[link].max(packets);
            }
        }
    }
    let held: f64 = moving.iter().chain(&waiting).sum();
    first_windows.max(OVERSHOOT * held)
}

/// Memory of an outstanding packet, bytes.
fn packet_bytes(flow: &Flow) -> f64 {
    let delayed = flow.paths.iter().all(|path| path.back.is_empty());
    PACKET_BYTES + if delayed { 0.0 } else { ACK_BYTES }
}

/// Packets that all users of a flow together can have outstanding.
fn outstanding_packets(scenario: &Scenario, flow: &Flow) -> f64 {
    let tcp = &scenario.tcp;
    let buffer = f64::from(tcp.receive_buffer_packets.get());
    let per_user = match flow.workload {
        Workload::File { bytes } => {
            let payload = flow.packet_bytes.get() - tcp.header_bytes;
            (bytes.get() as f64 / f64::from(payload)).ceil().min(buffer)
        }
        _ => buffer,
    };
    let first_windows = f64::from(tcp.initial_window_packets.get()) * flow.paths.len() as f64;
    let network: f64 = flow
        .paths
        .iter()
        .map(|path| path_packets(scenario, path, f64::from(flow.packet_bytes.get())))
        .sum();
    let users = f64::from(flow.count.get());
    (users * per_user).min((users * first_windows).max(OVERSHOOT * network))
}

/// Packets that a path holds: those that its slowest link sends in a round trip and a timeout, and
/// those in its queues.
fn path_packets(scenario: &Scenario, path: &Path, packet_bytes: f64) -> f64 {
    let waiting: f64 = path
        .links
        .iter()
        .map(|&link| queue_packets(&scenario.links[link].config.queue, packet_bytes))
        .sum();
    let per_s = narrowest_mbps(scenario, path) * 1e6 / 8.0 / packet_bytes;
    per_s * away_s(scenario, path, packet_bytes) + waiting
}

/// How long a packet of a path may be outstanding, beside the wait in its queues, s.
fn away_s(scenario: &Scenario, path: &Path, packet_bytes: f64) -> f64 {
    let forward_s: f64 = path
        .links
        .iter()
        .map(|&link| scenario.links[link].config.longest_delay() as f64 / SECOND as f64)
        .sum();
    let queued_s: f64 = path
        .back
        .iter()
        .map(|&link| queue_s(&scenario.links[link], packet_bytes))
        .sum();
    forward_s + path.return_delay_ms.get() / 1e3 + queued_s + TIMEOUT_S
}

/// How long the last packet of a full queue waits, s.
fn queue_s(link: &Link, packet_bytes: f64) -> f64 {
    queue_packets(&link.config.queue, packet_bytes) * packet_bytes * 8e-6 / link.rate_mbps()
}

fn queue_packets(queue: &Queue, packet_bytes: f64) -> f64 {
    match queue {
        Queue::DropTail { packets, bytes } => {
            let packets = packets.map_or(f64::INFINITY, f64::from);
            packets.min(bytes.map_or(f64::INFINITY, |bytes| bytes as f64 / packet_bytes))
        }
        Queue::Red(red) => f64::from(red.limit_packets),
        Queue::Policer(policer) => f64::from(policer.burst_bytes) / packet_bytes,
        Queue::Pie(pie) => f64::from(pie.limit_packets),
        Queue::Codel(codel) => f64::from(codel.limit_packets),
        Queue::FqCodel(fq_codel) => f64::from(fq_codel.codel.limit_packets),
        Queue::DualPi2(dualpi2) => f64::from(dualpi2.limit_packets),
    }
}

/// Memory of the files of a Poisson workload or a gateway, or of messages: a row each when they are
/// done, and a connection, or a place in a buffer, for each that is open, which is at least one in
/// a hundred and the share that exceeds the paths' rate.
fn files_bytes(scenario: &Scenario, flow: &Flow) -> f64 {
    let connection_bytes = (1.0 + flow.paths.len() as f64) * USER_BYTES;
    let duration_s = scenario.measure.duration_s.get();
    let (rate_per_s, mean_bytes, open_bytes) = match &flow.workload {
        Workload::Media(media) => {
            let payload = flow.packet_bytes.get() - scenario.tcp.header_bytes;
            let packets_per_s = media.largest_mbps() * 1e6 / 8.0 / f64::from(payload);
            let each = packets_per_s + media.frames_per_s.get();
            return f64::from(flow.count.get()) * each * duration_s * DELAY_BYTES;
        }
        Workload::Messages(messages) => {
            let (number, bytes) = messages.within(duration_s);
            (number / duration_s, bytes / number.max(1.0), FILE_BYTES)
        }
        Workload::Poisson { rate_per_s, size } => {
            (rate_per_s.get(), size.mean_bytes(), connection_bytes)
        }
        Workload::Gateway {
            clients,
            rate_per_s,
            size,
            ..
        } => {
            let files_per_s = f64::from(clients.get()) * rate_per_s.get();
            (files_per_s, size.mean_bytes(), FILE_BYTES)
        }
        _ => return 0.0,
    };
    let files_per_s = f64::from(flow.count.get()) * rate_per_s;
    let offered_mbps = files_per_s * mean_bytes * 8.0 / 1e6;
    let rate_mbps: f64 = flow
        .paths
        .iter()
        .map(|path| narrowest_mbps(scenario, path))
        .sum();
    let open = (1.0 - rate_mbps / offered_mbps).max(0.01);
    let files = files_per_s * duration_s;
    files * (ROW_BYTES + open * open_bytes)
}

fn narrowest_mbps(scenario: &Scenario, path: &Path) -> f64 {
    let rates = path
        .links
        .iter()
        .map(|&link| scenario.links[link].rate_mbps());
    rates.fold(f64::INFINITY, f64::min)
}

fn samples(scenario: &Scenario) -> f64 {
    let series: f64 = scenario
        .flows
        .iter()
        .map(|flow| f64::from(flow.count.get()) * (1.0 + flow.paths.len() as f64))
        .sum();
    let times = scenario.measure.duration_s.get() * 1e3 / scenario.measure.sample_ms.get();
    (series + scenario.links.len() as f64) * times * ROW_BYTES
}
