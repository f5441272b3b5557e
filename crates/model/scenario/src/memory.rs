//! How much memory a run could need; a scenario that needs too much is rejected before it runs.
//!
//! Sizes are those of the simulator's types; rings and tables have room for powers of two, because
//! they double when they are full. `crates/model/sim/tests/memory.rs` compares them with runs.

use std::collections::BTreeMap;

use anabranch_net::{Codel, Loss, Queue, SECOND};

use crate::file::key::{Fault, Key};
use crate::model::flows::{Flow, Path, Workload};
use crate::model::tcp::{Recovery, Scheduler};
use crate::scenario::Scenario;

/// A connection with its user, and their rows of totals, bytes.
const USER_BYTES: f64 = 1024.0;
/// Both ends of a path, the rule's state, and rows of totals now and at the last sample, bytes.
const PATH_BYTES: f64 = 2048.0;
/// Bytes that a rule by delivery rates adds to a path, RACK, and a program of the kernel.
const BY_RATE_BYTES: f64 = 1536.0;
const PROGRAM_BYTES: f64 = 512.0;
const RACK_BYTES: f64 = 800.0;
/// A packet or acknowledgement on its way, and when it arrives, bytes.
const MOVING_BYTES: f64 = 48.0;
/// A packet that waits, bytes: beside its place among those on their way, or in a queue that
/// decides later (CoDel, FQ-CoDel, DualPI2).
const WAITING_BYTES: f64 = 16.0;
const QUEUED_BYTES: f64 = 56.0;
/// A queue of FQ-CoDel, bytes.
const FQ_QUEUE_BYTES: f64 = 112.0;
/// Notes of an outstanding packet, bytes: its data, if there are several paths; its transmission,
/// for RACK or in the queue of Linux' scheduler; and for a rule by delivery rates its place and,
/// until it has arrived, its stamp, which a program of the kernel has, too.
const DATA_BYTES: f64 = 8.0;
const SENT_BYTES: f64 = 16.0;
const PLACE_BYTES: f64 = 4.0;
const STAMP_BYTES: f64 = 80.0;
/// An acknowledgement on links of its way back, and its SACK blocks, bytes.
const ACK_BYTES: f64 = 64.0;
const BLOCKS_BYTES: f64 = 48.0;
/// Rows of the samples of a user, a path and a link, and of the finished files, bytes.
const SAMPLE_BYTES: [f64; 3] = [48.0, 72.0, 44.0];
const FILE_ROW_BYTES: f64 = 32.0;
/// A file in the buffer of a gateway, in lists that grow by doubling, bytes.
const FILE_BYTES: f64 = 64.0;
/// The delay of a packet of media, in a list that grows by doubling, bytes.
const DELAY_BYTES: f64 = 16.0;
/// The event of a delayed acknowledgement, and for how long it waits, bytes and s.
const EVENT_BYTES: f64 = 24.0;
const ACK_DELAY_S: f64 = 0.04;
/// In slow start a window grows to this multiple of what the path can hold.
const OVERSHOOT: f64 = 2.0;
/// Notes of packets need this share more in all than of each user in the mean: each has its most
/// at another time.
const UNEVEN: f64 = 1.2;
const GIB: f64 = 1_073_741_824.0;

impl Scenario {
    /// Bytes that one run could need at most: the state of users and paths, the packets on the
    /// links, what the endpoints note of outstanding ones, samples and finished files. Packets are
    /// bounded by queues and rates, file sizes, receive buffers, the growth of windows during the
    /// run and, for rules that follow losses, by random loss. What a link holds counts once,
    /// however many flows cross it. A run of packets that could need more than
    /// `measure.max_memory_gib` is refused ([`Scenario::check_memory`]).
    pub fn memory_estimate(&self) -> u64 {
        estimate(self) as u64
    }
}

fn estimate(scenario: &Scenario) -> f64 {
    let flows = flows(scenario);
    samples(scenario) + flows.iter().map(|(_, bytes, _)| bytes).sum::<f64>()
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
    let by_rate = scenario.flows.iter().all(|flow| is_by_rate(scenario, flow));
    let held = |flow: &Flow| {
        let paths = flow.paths.iter();
        paths
            .map(|path| held(scenario, flow, path, by_rate))
            .collect()
    };
    let held: Vec<Vec<f64>> = scenario.flows.iter().map(held).collect();
    let mut network = in_network(scenario, &held);
    let mut crossing = vec![0.0; scenario.links.len()];
    for flow in &scenario.flows {
        let connections = connections(scenario, flow);
        let narrowest = flow.paths.iter().map(|path| narrowest(scenario, path));
        narrowest.for_each(|l| crossing[l] += connections);
    }
    let needs = |(i, flow): (usize, &Flow)| {
        let key = Key::root("flows").index(i);
        let connections = connections(scenario, flow);
        let narrowest = flow.paths.iter().map(|path| narrowest(scenario, path));
        let shares = narrowest.map(|l| (2.0 * connections / crossing[l]).min(1.0));
        let shares: Vec<f64> = shares.collect();
        let users = connections * connection_bytes(scenario, flow, connections, &held[i], &shares);
        let (kind, rate, remedy) = match flow.workload {
            Workload::Gateway { .. } => ("gateway", Some("rate_per_s"), "lower rate_per_s"),
            Workload::Messages(_) => ("messages", None, "send fewer messages"),
            Workload::Media(_) => ("media", None, "lower the rate"),
            _ => ("poisson", Some("rate_per_s"), "lower rate_per_s"),
        };
        let arrivals = key.key("workload").key(kind);
        let arrivals = rate.map_or(arrivals.clone(), |rate| arrivals.key(rate));
        let (users, of_files) = match flow.workload {
            Workload::Poisson { .. } => (0.0, users),
            _ => (users, 0.0),
        };
        let users = users + std::mem::take(&mut network[i]);
        let files = of_files + files_bytes(scenario, flow);
        [
            (key.key("count"), users, "lower count"),
            (arrivals, files, remedy),
        ]
    };
    scenario.flows.iter().enumerate().flat_map(needs).collect()
}

/// Room of a ring or table with `n` items, which begins with four and doubles.
fn room(n: f64) -> f64 {
    n.max(4.0).log2().ceil().exp2()
}

/// Room of the bits of a window of `n` numbers, bytes. Up to 64 are in place.
fn bits_bytes(n: f64) -> f64 {
    if n > 64.0 {
        8.0 * room(n / 64.0 + 1.0)
    } else {
        0.0
    }
}

/// Memory of a connection with what its ends note; `held` packets of each path of all connections
/// are in the network, of which they have these shares where others cross its narrowest link: twice
/// their part of the connections, since each has its most at another time. A packet that is lost
/// twice is found by RACK, or else by the timer; where many connections of a rule by delivery rates
/// keep a queue full, after several timeouts.
fn connection_bytes(
    scenario: &Scenario,
    flow: &Flow,
    connections: f64,
    held: &[f64],
    shares: &[f64],
) -> f64 {
    let tcp = &scenario.tcp;
    let several = flow.paths.len() > 1;
    let (rack, by_rate) = (tcp.recovery == Recovery::Rack, is_by_rate(scenario, flow));
    let program = tcp.runs_program(&flow.controller(tcp), flow.paths.len());
    let most = most_of_connection(scenario, flow);
    let first = f64::from(tcp.initial_window_packets.get()).min(most);
    let when = |is: bool, bytes: f64| if is { bytes } else { 0.0 };
    let (mut bytes, mut all) = (0.0, 0.0);
    for ((path, held), share) in flow.paths.iter().zip(held).zip(shares) {
        let each = share / connections;
        let timeouts = match (rack, by_rate) {
            (true, _) => 0.0,
            (_, true) => (4.0 / each).min(16.0),
            _ => 1.0,
        };
        let (window, per_s) = (held * each, per_s(scenario, flow, path) * each);
        let sent = (OVERSHOOT * window).clamp(first, most);
        let late = per_s * timeouts * tcp.min_rto_ms.get() / 1e3;
        let outstanding = (sent + late).min(most);
        all += outstanding;
        let notes = when(several, DATA_BYTES)
            + when(rack, 2.0 * SENT_BYTES) // also those from before a timeout
            + when(by_rate, PLACE_BYTES);
        let stamps = (STAMP_BYTES + PLACE_BYTES) * room(sent);
        let jitter = per_s * tcp.host_jitter_us.get() / 1e6;
        let buffer = f64::from(tcp.wmem_max_bytes.get()) / tcp.packet_memory() as f64;
        let scheduled = SENT_BYTES * room((OVERSHOOT * outstanding).min(buffer));
        let acks = ACK_BYTES * room(window) + BLOCKS_BYTES * window;
        bytes += 3.0 * bits_bytes(outstanding)
            + notes * room(outstanding)
            + when(by_rate, BY_RATE_BYTES + stamps)
            + when(program, PROGRAM_BYTES + STAMP_BYTES * room(outstanding))
            + when(rack, RACK_BYTES + 2.0 * SENT_BYTES * outstanding) // sent again, in trees
            + when(several, SENT_BYTES * window) // sent again over another path
            + when(several && tcp.scheduler == Scheduler::Linux, scheduled)
            + when(!path.back.is_empty(), acks)
            + when(jitter > 0.0, MOVING_BYTES * room(jitter.min(outstanding)))
            + when(
                tcp.delayed_acks,
                EVENT_BYTES * (per_s * ACK_DELAY_S).min(window),
            );
    }
    let state = USER_BYTES + PATH_BYTES * flow.paths.len() as f64;
    state + UNEVEN * (bytes + when(several, bits_bytes(all)))
}

/// Paths that share a link or a return line: the flow of each, and packets that it can have there.
#[derive(Default)]
struct Shared {
    held: Vec<(usize, f64)>,
    /// Packets per second that arrive over each link that is a path's narrowest.
    per_s: BTreeMap<usize, f64>,
    packet_bytes: f64,
    first_windows: f64,
}

impl Shared {
    /// All of them, packets.
    fn all(&self) -> f64 {
        self.held.iter().map(|(_, held)| held).sum()
    }

    fn arriving_per_s(&self) -> f64 {
        self.per_s.values().sum()
    }
}

/// A path: the number of its flow, and its own among those of the flow.
type PathOfFlow = (usize, usize);

/// These paths; data packets or, if so, acknowledgements cross them.
fn shared(scenario: &Scenario, held: &[Vec<f64>], paths: &[PathOfFlow], acks: bool) -> Shared {
    let mut shared = Shared {
        packet_bytes: f64::INFINITY,
        ..Shared::default()
    };
    for &(i, r) in paths {
        let (flow, held) = (&scenario.flows[i], held[i][r]);
        let path = &flow.paths[r];
        shared.held.push((i, held));
        let per_s = per_s(scenario, flow, path);
        let before = shared.per_s.entry(narrowest(scenario, path)).or_default();
        *before = before.max(per_s);
        let bytes = if acks {
            scenario.tcp.header_bytes
        } else {
            flow.packet_bytes.get()
        };
        shared.packet_bytes = shared.packet_bytes.min(bytes.into());
        let first = f64::from(scenario.tcp.initial_window_packets.get());
        shared.first_windows += f64::from(flow.count.get()) * first;
    }
    shared
}

/// Memory of the packets on the links and of the acknowledgements on their way back, by flow.
fn in_network(scenario: &Scenario, held: &[Vec<f64>]) -> Vec<f64> {
    let mut bytes = vec![0.0; scenario.flows.len()];
    let mut largest = (0.0_f64, 0);
    let mut spread = |shared: &Shared, ring: f64, other: f64| {
        let all = shared.all();
        for &(i, held) in &shared.held {
            bytes[i] += (ring + other) * held / all;
        }
        if let Some(&(i, _)) = shared.held.first().filter(|_| ring > largest.0) {
            largest = (ring, i);
        }
    };
    let (mut over, mut lines) = (BTreeMap::new(), BTreeMap::new());
    for (i, flow) in scenario.flows.iter().enumerate() {
        for (r, path) in flow.paths.iter().enumerate() {
            for (links, back) in [(&path.links, false), (&path.back, true)] {
                for &l in links {
                    let paths: &mut Vec<_> = over.entry((l, back)).or_default();
                    if paths.last() != Some(&(i, r)) {
                        paths.push((i, r));
                    }
                }
            }
            if path.back.is_empty() {
                let delay = path.return_delay_ms.get().to_bits();
                let paths: &mut Vec<_> = lines.entry(delay).or_default();
                paths.push((i, r));
            }
        }
    }
    for ((l, back), paths) in over {
        let shared = shared(scenario, held, &paths, back);
        let (ring, other) = link_bytes(scenario, l, &shared);
        spread(&shared, ring, other);
    }
    for (delay, paths) in lines {
        let shared = shared(scenario, held, &paths, true);
        let acks = shared.arriving_per_s() * f64::from_bits(delay) / 1e3 + 1.0;
        let acks = acks.min(shared.all());
        spread(&shared, MOVING_BYTES * room(acks), 0.0);
    }
    // A ring that grows is there twice, with half of its room before.
    bytes[largest.1] += largest.0 / 2.0;
    bytes
}

/// Memory of the packets of a link: its largest ring, and the rest.
fn link_bytes(scenario: &Scenario, l: usize, shared: &Shared) -> (f64, f64) {
    let (link, all) = (&scenario.links[l], shared.all());
    let own_per_s = link.rate_mbps() * 1e6 / 8.0 / shared.packet_bytes;
    let delay_s = link.config.longest_delay() as f64 / SECOND as f64;
    let moving = (shared.arriving_per_s().min(own_per_s) * delay_s + 1.0).min(all);
    // A link that is faster than what arrives has a queue after bursts only.
    let fills = OVERSHOOT * shared.arriving_per_s() >= own_per_s;
    let most = if fills {
        all
    } else {
        shared.first_windows.min(all)
    };
    let waiting = queue_packets(scenario, l, shared.packet_bytes).min(most);
    let (ring, wire) = (QUEUED_BYTES * room(waiting), MOVING_BYTES * room(moving));
    match &link.config.queue {
        Queue::Codel(_) | Queue::DualPi2(_) => (ring, wire),
        // Each queue has its most at another time.
        Queue::FqCodel(fq) => {
            let rings = 4.0 * QUEUED_BYTES * waiting;
            (rings, wire + f64::from(fq.flows) * FQ_QUEUE_BYTES)
        }
        _ => {
            let ring = MOVING_BYTES * room((moving + waiting).min(all));
            (ring, WAITING_BYTES * room(waiting))
        }
    }
}

/// Packets of a path that all users of a flow together can have in the network.
fn held(scenario: &Scenario, flow: &Flow, path: &Path, only_by_rate: bool) -> f64 {
    let users = f64::from(flow.count.get());
    let first = users * f64::from(scenario.tcp.initial_window_packets.get());
    let bytes = f64::from(flow.packet_bytes.get());
    let waiting: f64 = path
        .links
        .iter()
        .map(|&link| queue_packets(scenario, link, bytes))
        .sum();
    let (per_s, rtt_s) = (per_s(scenario, flow, path), rtt_s(scenario, path, bytes));
    let duration_s = scenario.measure.duration_s.get();
    // BBR holds at most 2.89 times its bandwidth-delay product, and several overestimate it.
    let by_rate = if only_by_rate {
        4.0 * per_s * rtt_s + 16.0 * users
    } else {
        f64::INFINITY
    };
    // A window grows by at most one packet for each that is acknowledged.
    let grown = (first + per_s * duration_s).min(first * (duration_s / rtt_s).exp2());
    (waiting + per_s * rtt_s + users)
        .min(users * most_of_connection(scenario, flow))
        .min(grown)
        .min(by_rate)
        .min(first + before_losses(scenario, flow, path))
}

/// Packets that a connection can have outstanding: its file, or a receive buffer.
fn most_of_connection(scenario: &Scenario, flow: &Flow) -> f64 {
    let buffer = f64::from(scenario.tcp.receive_packets());
    match flow.workload {
        Workload::File { bytes } => {
            let payload = flow.packet_bytes.get() - scenario.tcp.header_bytes;
            (bytes.get() as f64 / f64::from(payload)).ceil().min(buffer)
        }
        Workload::Poisson { .. } | Workload::Media(_) => f64::INFINITY,
        _ => buffer,
    }
}

/// Packets that random loss leaves in the windows of all users of a flow together: slow start ends
/// at the first loss, on average after 1/p packets, which by the time it is found are twice as many
/// as are in flight. Of 1000 runs of such losses the sum over n users is above (n + 4 sqrt n + 6)/p
/// in at most one; at equilibrium windows are near sqrt(2/p) and far below. No bound for rules that
/// do not follow losses.
fn before_losses(scenario: &Scenario, flow: &Flow, path: &Path) -> f64 {
    let one = matches!(
        flow.workload,
        Workload::Bulk | Workload::File { .. } | Workload::OnOff { .. }
    );
    if is_by_rate(scenario, flow) || !one {
        return f64::INFINITY;
    }
    let users = f64::from(flow.count.get());
    (users + 4.0 * users.sqrt() + 6.0) / loss(scenario, path)
}

fn is_by_rate(scenario: &Scenario, flow: &Flow) -> bool {
    flow.controller(&scenario.tcp).is_by_rate()
}

/// The link of a path with the least rate.
fn narrowest(scenario: &Scenario, path: &Path) -> usize {
    let rate = |link: &usize| carried_mbps(scenario, *link);
    let links = path.links.iter().copied();
    links
        .min_by(|a, b| rate(a).total_cmp(&rate(b)))
        .unwrap_or_default()
}

/// The rate of a link, or of its policer, Mbps.
fn carried_mbps(scenario: &Scenario, l: usize) -> f64 {
    let link = &scenario.links[l];
    match &link.config.queue {
        Queue::Policer(policer) => link.rate_mbps().min(policer.bits_per_second / 1e6),
        _ => link.rate_mbps(),
    }
}

/// Packets of a flow that a path carries in a second.
fn per_s(scenario: &Scenario, flow: &Flow, path: &Path) -> f64 {
    carried_mbps(scenario, narrowest(scenario, path)) * 1e6
        / 8.0
        / f64::from(flow.packet_bytes.get())
}

/// Round-trip time of a path without queues, s.
fn propagation_s(scenario: &Scenario, path: &Path) -> f64 {
    let links = path.links.iter();
    let delays = links.map(|&link| scenario.links[link].config.longest_delay());
    delays.sum::<u64>() as f64 / SECOND as f64 + path.return_delay_ms.get() / 1e3
}

/// The same with the queues of its way back, s.
fn rtt_s(scenario: &Scenario, path: &Path, packet_bytes: f64) -> f64 {
    let queues = path.back.iter();
    let queued_s = queues.map(|&link| queue_s(scenario, link, packet_bytes));
    propagation_s(scenario, path) + queued_s.sum::<f64>()
}

/// How long the last packet of a full queue waits, s.
fn queue_s(scenario: &Scenario, l: usize, packet_bytes: f64) -> f64 {
    let packets = queue_packets(scenario, l, packet_bytes);
    packets * packet_bytes * 8e-6 / scenario.links[l].rate_mbps()
}

fn queue_packets(scenario: &Scenario, l: usize, packet_bytes: f64) -> f64 {
    let link = &scenario.links[l];
    match &link.config.queue {
        Queue::DropTail { packets, bytes } => {
            let packets = packets.map_or(f64::INFINITY, f64::from);
            packets.min(bytes.map_or(f64::INFINITY, |bytes| bytes as f64 / packet_bytes))
        }
        Queue::Red(red) => f64::from(red.limit_packets),
        Queue::Policer(policer) => f64::from(policer.burst_bytes) / packet_bytes,
        Queue::Pie(pie) => f64::from(pie.limit_packets),
        Queue::Codel(codel) => of_codel(scenario, l, codel, false, packet_bytes),
        Queue::FqCodel(fq) => of_codel(scenario, l, &fq.codel, true, packet_bytes),
        Queue::DualPi2(dualpi2) => f64::from(dualpi2.limit_packets),
    }
}

/// Packets in a queue of CoDel, or in all of FQ-CoDel's. In slow start it grows by what the link
/// sends, for an interval before the first drop and the round trip until the sender knows. CoDel
/// slows down one of n connections with each drop, and n drops take 2 sqrt(n) intervals (RFC 8289);
/// FQ-CoDel drops packets of all of them. Rules by delivery rates and media may fill it.
fn of_codel(scenario: &Scenario, l: usize, codel: &Codel, fq: bool, packet_bytes: f64) -> f64 {
    let limit = f64::from(codel.limit_packets);
    let (mut users, mut longest_s) = (0.0, 0.0_f64);
    for flow in &scenario.flows {
        for path in flow.paths.iter().filter(|path| path.links.contains(&l)) {
            if matches!(flow.workload, Workload::Media(_)) || is_by_rate(scenario, flow) {
                return limit;
            }
            users += f64::from(flow.count.get());
            longest_s = longest_s.max(propagation_s(scenario, path));
        }
    }
    let intervals = if fq { 1.0 } else { 2.0 * f64::sqrt(users) };
    let interval_s = codel.interval as f64 / SECOND as f64;
    let per_s = scenario.links[l].rate_mbps() * 1e6 / 8.0 / packet_bytes;
    limit.min(per_s * (intervals * interval_s + longest_s) + 10.0 * users)
}

/// Memory of finished files, and of what waits in a buffer: a row or a delay each.
fn files_bytes(scenario: &Scenario, flow: &Flow) -> f64 {
    let duration_s = scenario.measure.duration_s.get();
    let users = f64::from(flow.count.get());
    if let Workload::Media(media) = &flow.workload {
        let payload = flow.packet_bytes.get() - scenario.tcp.header_bytes;
        let packets_per_s = media.largest_mbps() * 1e6 / 8.0 / f64::from(payload);
        let each = packets_per_s + media.frames_per_s.get();
        return users * each * duration_s * DELAY_BYTES;
    }
    let Some((per_s, mean_bytes)) = arrivals(scenario, flow) else {
        return 0.0;
    };
    let files = per_s * duration_s;
    let waiting = match flow.workload {
        Workload::Poisson { .. } => 0.0, // each has a connection
        _ => files * (1.0 - rate_mbps(scenario, flow) / (per_s * mean_bytes * 8e-6)).max(0.01),
    };
    FILE_ROW_BYTES * room(files) + FILE_BYTES * waiting
}

/// Files or messages of all users of a flow: how many per second, and their mean size in bytes.
fn arrivals(scenario: &Scenario, flow: &Flow) -> Option<(f64, f64)> {
    let users = f64::from(flow.count.get());
    let (per_s, mean_bytes) = match &flow.workload {
        Workload::Messages(messages) => {
            let duration_s = scenario.measure.duration_s.get();
            let (number, bytes) = messages.within(duration_s);
            (number / duration_s, bytes / number.max(1.0))
        }
        Workload::Poisson { rate_per_s, size } => (rate_per_s.get(), size.mean_bytes()),
        Workload::Gateway {
            clients,
            rate_per_s,
            size,
            ..
        } => (
            f64::from(clients.get()) * rate_per_s.get(),
            size.mean_bytes(),
        ),
        _ => return None,
    };
    Some((users * per_s, mean_bytes))
}

/// The rates of a flow's paths together, Mbps.
fn rate_mbps(scenario: &Scenario, flow: &Flow) -> f64 {
    let rate = |path: &Path| carried_mbps(scenario, narrowest(scenario, path));
    flow.paths.iter().map(rate).sum()
}

/// Connections of a flow that are open at once: one for each user, but for a Poisson workload one
/// for each file that has arrived and is not done. Those are what exceeds the paths' rate, or, if
/// nothing does, about those of a shared server beside `others` permanent customers, (others + 1)
/// load / (1 - load) in the mean, and those that wait for round trips. Three times as many at most.
fn connections(scenario: &Scenario, flow: &Flow) -> f64 {
    let users = f64::from(flow.count.get());
    let (Workload::Poisson { .. }, Some((per_s, mean_bytes))) =
        (&flow.workload, arrivals(scenario, flow))
    else {
        return users;
    };
    let crosses = |other: &&Flow| {
        let links = || flow.paths.iter().flat_map(|path| &path.links);
        let mut theirs = other.paths.iter().flat_map(|path| &path.links);
        theirs.any(|link| links().any(|own| own == link))
    };
    let same = scenario.flows.iter().filter(crosses);
    let others: f64 = same.map(|other| f64::from(other.count.get())).sum();
    let files = per_s * scenario.measure.duration_s.get();
    let load = per_s * mean_bytes * 8e-6 / rate_mbps(scenario, flow);
    let waiting = if load < 1.0 {
        (others + 1.0) * load / (1.0 - load)
    } else {
        f64::INFINITY
    };
    let packets = mean_bytes / f64::from(flow.packet_bytes.get() - scenario.tcp.header_bytes);
    let most_s = |path: &Path| {
        let rounds = (1.0 + packets).log2() + packets * loss(scenario, path).sqrt() + 2.0;
        rounds * rtt_s(scenario, path, f64::from(flow.packet_bytes.get()))
    };
    let longest_s = flow.paths.iter().map(most_s).fold(0.0, f64::max);
    let excess = files * (1.0 - 1.0 / load).max(0.0);
    let open = 3.0 * waiting.min(excess + files.sqrt() * (others + 1.0));
    (open + 3.0 * per_s * longest_s + 4.0 * users).min(files.max(users))
}

/// The probability that a packet is lost at random on the way of a path.
fn loss(scenario: &Scenario, path: &Path) -> f64 {
    let survive = path
        .links
        .iter()
        .map(|&link| match scenario.links[link].config.loss {
            Loss::Bernoulli { probability } => 1.0 - probability,
            _ => 1.0,
        });
    1.0 - survive.product::<f64>()
}

fn samples(scenario: &Scenario) -> f64 {
    let users = |flow: &Flow| f64::from(flow.count.get());
    let flows = || scenario.flows.iter();
    let series = [
        flows().map(users).sum(),
        flows()
            .map(|flow| users(flow) * flow.paths.len() as f64)
            .sum(),
        scenario.links.len() as f64,
    ];
    let times = scenario.measure.duration_s.get() * 1e3 / scenario.measure.sample_ms.get();
    let tables = series.iter().zip(SAMPLE_BYTES);
    let bytes: f64 = tables
        .map(|(series, bytes)| bytes * room(series * times))
        .sum();
    bytes + 4.0 * room(series[1] * times)
}
