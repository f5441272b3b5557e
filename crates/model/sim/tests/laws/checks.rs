//! Properties of the record of any run.

use anabranch_net::{Queue, Rate};
use anabranch_scenario::time::from_seconds;
use anabranch_scenario::{Ecn, Record, Scenario, Workload};

/// The longest time that a packet of these scenarios is on its way behind a link's transmission, s.
const SHIFT_S: f64 = 1.0;

/// A user's rows in the tables of a record.
struct User<'a> {
    record: &'a Record,
    row: usize,
}

impl User<'_> {
    fn all(record: &Record) -> impl Iterator<Item = User<'_>> {
        (0..record.flows.len()).map(move |row| User { record, row })
    }

    fn flow(&self) -> usize {
        self.record.flows.flow[self.row] as usize
    }

    fn is(&self, flow: u32, user: u32) -> bool {
        let flows = &self.record.flows;
        (flow, user) == (flows.flow[self.row], flows.user[self.row])
    }

    fn paths(&self) -> impl Iterator<Item = usize> {
        let paths = &self.record.paths;
        (0..paths.len()).filter(|&path| self.is(paths.flow[path], paths.user[path]))
    }

    fn sum(&self, column: &[u64]) -> u64 {
        self.paths().map(|path| column[path]).sum()
    }

    /// The packets lost after two fifths of the run: a timeout in the first 24 of 60 s that doubles
    /// ends before the run does.
    fn lost_late(&self) -> u64 {
        let samples = &self.record.path_samples;
        let late = samples.len() * 2 / 5..samples.len();
        let mine = late.filter(|&i| self.is(samples.flow[i], samples.user[i]));
        mine.map(|i| samples.lost_packets[i]).sum()
    }

    /// The sizes of the files it has finished, bytes.
    fn files(&self) -> Vec<u64> {
        let transfers = &self.record.transfers;
        let mine = (0..transfers.len()).filter(|&i| self.is(transfers.flow[i], transfers.user[i]));
        mine.map(|i| transfers.bytes[i]).collect()
    }
}

fn payload(scenario: &Scenario) -> u64 {
    u64::from(scenario.tcp.packet_bytes.get() - scenario.tcp.header_bytes)
}

/// Every user of an endless transfer delivers in the second half of the run, or loses late what its
/// timeouts send. Others can lock it out for longer than half a run, because its timeouts double:
/// with windows that stay, a drop-tail queue is full whenever it sends, and a queue that marks
/// nearly all packets drops retransmissions, which are not ECN-capable (RFC 3168 section 6.1.5).
/// Nobody locks all out.
pub fn check_nobody_stops(record: &Record) {
    let delivered = &record.flow_samples.delivered_bytes;
    let end = &delivered[delivered.len() - record.flows.len()..];
    let half = &delivered[delivered.len() / 2..];
    let (deliver, stand): (Vec<_>, Vec<_>) =
        User::all(record).partition(|user| end[user.row] > half[user.row]);
    assert!(!deliver.is_empty(), "all have stopped");
    for user in stand {
        let name = format!("user {} of flow {}", user.row, user.flow());
        assert!(user.lost_late() > 0, "{name} has stopped");
    }
}

/// Every packet of data arrives: a file's packets make up its bytes, all others are full. What is
/// sent more than once is counted, and whatever is lost is sent again.
pub fn check_everything_arrived(scenario: &Scenario, record: &Record) {
    let payload = payload(scenario);
    for user in User::all(record) {
        let bytes = record.flows.delivered_bytes[user.row];
        let packets = match scenario.flows[user.flow()].workload {
            Workload::Bulk | Workload::OnOff { .. } => {
                assert_eq!(bytes % payload, 0);
                bytes / payload
            }
            Workload::File { .. }
            | Workload::Poisson { .. }
            | Workload::Gateway { .. }
            | Workload::Messages(_)
            | Workload::Media(_) => {
                assert_eq!(user.files().iter().sum::<u64>(), bytes, "bytes of files");
                user.files().iter().map(|file| file.div_ceil(payload)).sum()
            }
        };
        let (sent, again) = (
            &record.paths.sent_packets,
            &record.paths.retransmitted_packets,
        );
        assert_eq!(
            user.sum(&record.paths.delivered_bytes),
            bytes,
            "bytes over paths"
        );
        assert_eq!(
            user.sum(sent) - user.sum(again),
            packets,
            "packets sent once"
        );
        assert_eq!(user.sum(sent), record.flows.sent_packets[user.row]);
        assert!(
            record.flows.lost_packets[user.row] <= user.sum(again),
            "lost and not sent again"
        );
        if let Workload::File { bytes } = scenario.flows[user.flow()].workload {
            assert_eq!(user.files(), [bytes.get()], "the file");
            assert_eq!(record.flows.transfers_done[user.row], 1);
        }
    }
    let in_flight = in_flight_at_the_end(record);
    assert!(
        in_flight.iter().all(|&packets| packets == 0),
        "in flight at the end: {in_flight:?}"
    );
}

fn in_flight_at_the_end(record: &Record) -> &[u64] {
    let in_flight = &record.path_samples.in_flight_packets;
    &in_flight[in_flight.len() - record.paths.len()..]
}

/// The counts of links and of paths are equal: by cause, in packets, in bytes.
pub fn check_counters(scenario: &Scenario, record: &Record) {
    let (paths, links) = (&record.paths, &record.links);
    let sum = |column: &[u64]| column.iter().sum::<u64>();
    assert_eq!(sum(&paths.lost_overflow), sum(&links.dropped_overflow));
    assert_eq!(sum(&paths.lost_red), sum(&links.dropped_red));
    assert_eq!(sum(&paths.lost_random), sum(&links.dropped_random));
    assert_eq!(sum(&paths.lost_down), sum(&links.dropped_down));
    assert_eq!(sum(&paths.lost_aqm), sum(&links.dropped_aqm));
    // A marked packet may be marked again on the next link, or dropped there.
    assert!(sum(&paths.marked_packets) <= sum(&links.marked_packets));
    if scenario.tcp.ecn == Ecn::Off {
        assert_eq!(sum(&links.marked_packets), 0);
    }

    let lost = |p: usize| {
        paths.lost_overflow[p]
            + paths.lost_red[p]
            + paths.lost_random[p]
            + paths.lost_down[p]
            + paths.lost_aqm[p]
    };
    for p in 0..paths.len() {
        let arrived = paths.sent_packets[p] - lost(p);
        assert!(
            paths.delivered_bytes[p] <= arrived * payload(scenario),
            "path {p}"
        );
    }
    let duration_s = scenario.measure.duration_s.get();
    for link in 0..links.len() {
        let hop = |p: usize| {
            let route = &scenario.flows[paths.flow[p] as usize].paths[paths.path[p] as usize];
            route.links.iter().position(|&other| other == link)
        };
        let through: Vec<usize> = (0..paths.len()).filter(|&p| hop(p).is_some()).collect();
        let total = |column: &[u64]| through.iter().map(|&p| column[p]).sum::<u64>();
        let at_first: u64 = through
            .iter()
            .filter(|&&p| hop(p) == Some(0))
            .map(|&p| paths.sent_packets[p])
            .sum();
        let arrived = links.arrived_packets[link];
        // With jitter, some wait in their hosts.
        let waiting = match scenario.tcp.host_jitter_us.get() {
            0.0 => 0,
            _ => in_flight_at_the_end(record).iter().sum(),
        };
        let possible = at_first - waiting.min(at_first)..=total(&paths.sent_packets);
        assert!(
            possible.contains(&arrived),
            "{arrived} packets at link {link}, not {possible:?}"
        );
        let dropped = links.dropped_overflow[link]
            + links.dropped_red[link]
            + links.dropped_random[link]
            + links.dropped_down[link]
            + links.dropped_aqm[link];
        let delivered = (links.throughput_mbps[link] * duration_s / 8e-6).round() as u64;
        let packet_bytes = u64::from(scenario.tcp.packet_bytes.get());
        assert!(
            delivered <= (arrived - dropped) * packet_bytes,
            "bytes of link {link}"
        );
        assert!(
            total(&paths.delivered_bytes) <= delivered,
            "goodput of link {link}"
        );
    }
    for user in User::all(record) {
        let bytes = record.flows.delivered_bytes[user.row];
        assert!(
            bytes <= user.sum(&paths.delivered_bytes),
            "user {}",
            user.row
        );
    }
}

/// No link delivers more than its rate, in any sample and in all. A scenario's rate and the link's
/// differ by less than a millionth of a bit per second. (A trace has opportunities, not a rate.)
pub fn check_rates(scenario: &Scenario, record: &Record) {
    for utilization in &record.links.utilization {
        assert!((0.0..=1.0 + 1e-12).contains(utilization), "{utilization}");
    }
    let samples = &record.link_samples;
    let all = (0..record.links.len()).map(|i| (i, record.links.throughput_mbps[i]));
    let each = (0..samples.len()).map(|i| (samples.link[i] as usize, samples.throughput_mbps[i]));
    for (link, mbps) in all.chain(each) {
        let rate_mbps = record.links.rate_mbps[link];
        let constant = matches!(scenario.links[link].config.rate, Rate::Constant { .. });
        assert!(
            mbps <= rate_mbps + 1e-12 || !constant,
            "{mbps} of {rate_mbps} Mbps"
        );
    }
}

/// Paths over a link deliver within the window at most what the link transmits in
/// that time and in the `SHIFT_S` before it, the longest time on the way behind it, and a packet;
/// and a user's goodput at most what arrived over its paths.
pub fn check_capacity(scenario: &Scenario, record: &Record) {
    let paths = &record.paths;
    let (warmup_s, end_s) = (
        scenario.measure.warmup_s.get(),
        scenario.measure.duration_s.get(),
    );
    for (index, link) in scenario.links.iter().enumerate() {
        let crosses = |p: &usize| {
            let flow = &scenario.flows[paths.flow[*p] as usize];
            flow.paths[paths.path[*p] as usize].links.contains(&index)
        };
        let over = (0..paths.len()).filter(crosses);
        let bytes: u64 = over.map(|p| paths.delivered_bytes[p]).sum();
        let from_s = (warmup_s - SHIFT_S).max(0.0);
        let mbps = link
            .config
            .rate
            .mbps_between(from_seconds(from_s), from_seconds(end_s));
        let packet = f64::from(scenario.tcp.packet_bytes.get());
        let most = mbps * (end_s - from_s) / 8e-6 + packet;
        assert!(
            bytes as f64 <= most,
            "{bytes} of {most} bytes: {}",
            link.name
        );
    }
    for user in User::all(record) {
        let goodput = record.flows.delivered_bytes[user.row];
        let arrived = user.sum(&paths.delivered_bytes);
        assert!(
            goodput <= arrived,
            "{goodput} of {arrived} bytes: {}",
            user.row
        );
    }
}

/// True if a delay is not measured (NaN), or no less than propagation up to the rounding of a sum.
fn is_delay(delay_ms: f64, least_ms: f64) -> bool {
    delay_ms.is_nan() || (least_ms - 1e-6..f64::INFINITY).contains(&delay_ms)
}

/// Windows are at least 1 while there is a connection, in-flight packets and delays possible.
pub fn check_samples(scenario: &Scenario, record: &Record) {
    let samples = &record.path_samples;
    for i in 0..samples.len() {
        let flow = &scenario.flows[samples.flow[i] as usize];
        let path = &flow.paths[samples.path[i] as usize];
        let forward_ps: u64 = path
            .links
            .iter()
            .map(|&link| scenario.links[link].config.delay)
            .sum();
        let forward_ms = forward_ps as f64 * 1e-9;
        let round_ms = forward_ms + path.return_delay_ms.get();
        let (window, one_way_ms) = (samples.window_packets[i], samples.one_way_delay_ms[i]);
        assert!(
            window == 0.0 || (1.0..f64::INFINITY).contains(&window),
            "window {window}"
        );
        assert!(is_delay(one_way_ms, forward_ms), "{one_way_ms} ms one way");
        assert!(
            is_delay(samples.rtt_ms[i], round_ms),
            "RTT of {} ms",
            samples.rtt_ms[i]
        );
        if matches!(flow.workload, Workload::Bulk) && flow.paths.len() == 1 {
            let buffer = u64::from(scenario.tcp.receive_buffer_packets.get());
            assert!(samples.in_flight_packets[i] <= buffer);
        }
    }
}

/// No queue with a limit in packets holds more.
pub fn check_queues(scenario: &Scenario, record: &Record) {
    let samples = &record.link_samples;
    for i in 0..samples.len() {
        let link = &scenario.links[samples.link[i] as usize].config;
        let limit = match &link.queue {
            Queue::DropTail { packets, .. } => *packets,
            Queue::Red(red) => Some(red.limit_packets),
            Queue::Codel(codel) => Some(codel.limit_packets),
            Queue::FqCodel(queues) => Some(queues.codel.limit_packets),
            Queue::DualPi2(queues) => Some(queues.limit_packets),
            Queue::Pie(_) | Queue::Policer(_) => None,
        };
        if let Some(limit) = limit {
            assert!(samples.queue_packets[i] <= limit.into(), "queue of {limit}");
        }
    }
}
