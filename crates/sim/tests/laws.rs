//! What holds in every scenario: counters agree, everything sent arrives, windows stay in range,
//! and a seed determines every bit.

mod jitter;
mod random;
mod timeouts;

use std::thread;

use anabranch_net::Rate;
use anabranch_scenario::{Record, Recovery, Scenario, Workload};
use anabranch_sim::Simulation;
use proptest::prelude::*;

use crate::common::{bits, scenario};

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

fn run(scenario: &Scenario) -> Record {
    Simulation::new(scenario, 1).finish()
}

/// Every packet of data arrives: a file's packets make up its bytes, all others are full. What is
/// sent more than once is counted, and whatever is lost is sent again.
fn check_everything_arrived(scenario: &Scenario, record: &Record) {
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

/// What links and paths counted is the same: by cause, in packets, in bytes.
fn check_counters(scenario: &Scenario, record: &Record) {
    let (paths, links) = (&record.paths, &record.links);
    let sum = |column: &[u64]| column.iter().sum::<u64>();
    assert_eq!(sum(&paths.lost_overflow), sum(&links.dropped_overflow));
    assert_eq!(sum(&paths.lost_red), sum(&links.dropped_red));
    assert_eq!(sum(&paths.lost_random), sum(&links.dropped_random));
    assert_eq!(sum(&paths.lost_down), sum(&links.dropped_down));
    assert_eq!(sum(&paths.lost_aqm), sum(&links.dropped_aqm));
    // A marked packet may be marked again on the next link, or dropped there.
    assert!(sum(&paths.marked_packets) <= sum(&links.marked_packets));
    if !scenario.tcp.ecn {
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
fn check_rates(scenario: &Scenario, record: &Record) {
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

/// Whether a delay is not measured, or at least what propagation takes, but for a sum's rounding.
fn is_delay(delay_ms: f64, least_ms: f64) -> bool {
    delay_ms.is_nan() || (least_ms - 1e-6..f64::INFINITY).contains(&delay_ms)
}

/// Windows are at least 1 while there is a connection, in-flight packets and delays possible.
fn check_samples(scenario: &Scenario, record: &Record) {
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

/// 64 cases, unless `PROPTEST_CASES` chooses others, as in `make test-all`.
fn config() -> ProptestConfig {
    let mut config = ProptestConfig::default();
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 64;
    }
    config
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn everything_sent_arrives_once_and_the_counters_agree(text in random::ending()) {
        let scenario = scenario(&text);
        let record = run(&scenario);
        check_counters(&scenario, &record);
        check_samples(&scenario, &record);
        check_rates(&scenario, &record);
        check_everything_arrived(&scenario, &record);
    }

    #[test]
    fn everything_sent_arrives_once_where_acknowledgements_are_queued_and_lost(
        text in random::two_way(),
    ) {
        let scenario = scenario(&text);
        let record = run(&scenario);
        check_samples(&scenario, &record);
        check_rates(&scenario, &record);
        check_everything_arrived(&scenario, &record);
        let sum = |column: &[u64]| column.iter().sum::<u64>();
        let (paths, links) = (&record.paths, &record.links);
        prop_assert!(sum(&paths.lost_overflow) <= sum(&links.dropped_overflow));
        prop_assert!(sum(&paths.lost_random) <= sum(&links.dropped_random));
        let sent = sum(&paths.sent_packets);
        let hops = scenario.flows.iter().flat_map(|flow| &flow.paths).map(|path| path.links.len());
        let most = hops.max().unwrap_or(0) as u64 + 1;
        prop_assert!(sum(&links.arrived_packets) <= most * sent, "an ACK per packet at most");
    }

    #[test]
    fn endless_transfers_never_stop(text in random::endless()) {
        let scenario = scenario(&text);
        let record = run(&scenario);
        check_counters(&scenario, &record);
        check_samples(&scenario, &record);
        check_rates(&scenario, &record);
        let users = record.flows.len();
        let delivered = &record.flow_samples.delivered_bytes;
        let (half, end) = (&delivered[delivered.len() / 2..], &delivered[delivered.len() - users..]);
        for user in 0..users {
            prop_assert!(end[user] > half[user], "user {user} has stopped");
        }
    }

    #[test]
    fn without_a_late_sample_there_is_no_timeout(text in timeouts::bounded_delay()) {
        let scenario = scenario(&text);
        let record = run(&scenario);
        let flows = &record.flows;
        prop_assert!(flows.lost_packets.iter().all(|&lost| lost == 0));
        prop_assert!(flows.timeouts.iter().all(|&timeouts| timeouts == 0), "{:?}", flows.timeouts);
        let again = &flows.retransmitted_packets;
        prop_assert!(record.paths.loss_events.iter().all(|&losses| losses == 0));
        let probes = scenario.tcp.recovery == Recovery::Rack;
        let resends = probes || scenario.tcp.scheduler.repeats();
        prop_assert!(resends || again.iter().all(|&packets| packets == 0), "again: {again:?}");
    }

    #[test]
    fn every_timeout_without_a_loss_is_undone(text in timeouts::unbounded_delay()) {
        let scenario = scenario(&text);
        let paths = run(&scenario).paths;
        prop_assert_eq!(&paths.spurious_timeouts, &paths.timeouts);
        prop_assert!(paths.loss_events.iter().all(|&losses| losses == 0));
        for path in 0..paths.len() {
            // Each timeout sends one packet again, besides probes and data sent over another path.
            let alone = scenario.flows[paths.flow[path] as usize].paths.len() == 1;
            let exact = alone && scenario.tcp.recovery == Recovery::Sack;
            let (again, timeouts) = (paths.retransmitted_packets[path], paths.timeouts[path]);
            prop_assert!(again == timeouts || !exact, "path {path}: {again}");
            prop_assert!(again >= timeouts, "path {path}: {again}");
        }
    }

    #[test]
    fn slices_and_threads_change_no_bit(
        text in random::ending(),
        mut stops in prop::collection::vec(0.0..4.0, 0..20),
        seed in any::<u64>(),
    ) {
        let scenario = scenario(&text);
        let whole = || bits(Simulation::new(&scenario, seed).finish());
        let once = whole();
        stops.sort_by(f64::total_cmp);
        let mut sliced = Simulation::new(&scenario, seed);
        for time_s in stops {
            sliced.run_until(time_s);
            prop_assert!((sliced.now_s() - time_s).abs() < 1e-9);
        }
        prop_assert!(bits(sliced.finish()) == once, "cut into slices");
        let threads = thread::scope(|scope| {
            let threads = [(); 2].map(|()| scope.spawn(whole));
            threads.map(|thread| thread.join().expect("the run ends"))
        });
        prop_assert!(threads.iter().all(|other| *other == once), "in threads");
    }
}

#[test]
fn another_seed_is_another_run() {
    let text = |loss: &str, spread_s: f64| {
        format!(
            r#"
            algorithm = "olia"
            measure.duration_s = 5
            links.L = {{ rate_mbps = 10, delay_ms = 10, {loss} }}
            [[flows]]
            name = "users"
            paths = [["L"]]
            start_spread_s = {spread_s}
            "#
        )
    };
    let with = |text: &str, seed| bits(Simulation::new(&scenario(text), seed).finish());
    let calm = text("queue.drop_tail = { packets = 50 }", 0.0);
    assert!(with(&calm, 1) == with(&calm, 2), "nothing in it is random");
    let random = [
        text("loss.bernoulli = { probability = 0.01 }", 0.0),
        text("queue.red = {}", 0.0),
        text("queue.drop_tail = { packets = 50 }", 1.0),
    ];
    for text in &random {
        assert!(with(text, 1) != with(text, 2), "{text}");
        assert!(with(text, 1) == with(text, 1), "{text}");
    }
}
