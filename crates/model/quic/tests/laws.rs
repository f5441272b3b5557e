//! Laws of every scenario over QUIC: links are filled, counters agree, everything sent arrives, a
//! seed determines every bit, and each rule shares as it does in the simulator.

use std::ops::RangeInclusive;
use std::thread;

use anabranch_control::RULES;
use anabranch_quic::Simulation;
use anabranch_scenario::columns::Column;
use anabranch_scenario::{Inputs, Record, Scenario, Scheduler, Virtual};

fn scenario(text: &str) -> Scenario {
    Scenario::parse(text.as_bytes(), "a test", &[]).unwrap_or_else(|error| panic!("{error}"))
}

fn run(scenario: &Scenario, seed: u64) -> Record {
    let simulation = Simulation::new(scenario, seed);
    simulation.expect("it is supported").finish()
}

fn sum(column: &[u64]) -> u64 {
    column.iter().sum()
}

/// A receive window of 240 packets at 500 Mbps and 100 ms, which hold 4200: 240 are in flight, and
/// slow start, which may double what was used, ends at 480 and the two packets of tolerance twice.
#[test]
fn a_window_does_not_grow_while_the_receiver_limits() {
    let scenario = scenario(
        r#"
        algorithm = "lia"
        measure = { duration_s = 20, sample_ms = 100 }
        tcp.receive_buffer_packets = 240
        links.L = { rate_mbps = 500, delay_ms = 50 }
        [[flows]]
        name = "user"
        paths = [["L"]]
        "#,
    );
    let windows = run(&scenario, 1).path_samples.window_packets;
    let largest = windows.into_iter().fold(0.0, f64::max);
    assert!((240.0..=500.0).contains(&largest), "{largest} packets");
}

/// Every number of a record, bit by bit.
fn bits(record: Record) -> Vec<u64> {
    let tables = record.tables().into_iter();
    let columns = tables.flat_map(|(_, columns)| columns.into_iter().map(|(_, column)| column));
    columns
        .flat_map(|column| match column {
            Column::U32(values) => values.into_iter().map(u64::from).collect(),
            Column::U64(values) => values,
            Column::F64(values) => values.into_iter().map(f64::to_bits).collect::<Vec<_>>(),
        })
        .collect()
}

const TWO_LINKS: &str = "
    algorithm = 'lia'
    measure = { duration_s = 20, warmup_s = 5 }
    links.R1 = { rate_mbps = 40, delay_ms = 10 }
    links.R2 = { rate_mbps = 20, delay_ms = 30 }
    flows = [{ name = 'user', paths = [['R1'], ['R2']] }]
";

/// A full packet of 1500 bytes has 28 of IP and UDP, 9 to 13 of QUIC's short header, 16 of its tag
/// and 3 to 11 of the head of a STREAM frame: 1432 to 1444 are payload, 0.955 to 0.963.
fn check_goodput(goodput_mbps: f64, rate_mbps: f64) {
    let share = goodput_mbps / rate_mbps;
    assert!((0.945..0.963).contains(&share), "{goodput_mbps} Mbps");
}

#[test]
fn one_path_reaches_the_rate_of_its_link_with_every_rule() {
    let one = scenario(
        "
        algorithm = 'reno'
        measure = { duration_s = 12, warmup_s = 5 }
        links.R1 = { rate_mbps = 10, delay_ms = 20 }
        flows = [{ name = 'user', paths = [['R1']] }]
        ",
    );
    for rule in RULES {
        let record = run(&one.with_algorithm(rule.name).expect("a rule"), 1);
        println!("{}: {} Mbps", rule.name, record.flows.goodput_mbps[0]);
        if rule.by_rate {
            // BBR paces 1 % below the bandwidth, and ProbeRTT takes up to 4 % of the time: 200 ms
            // and some round trips of half a window in every 5 s.
            let share = record.flows.goodput_mbps[0] / 10.0;
            assert!((0.95 * 0.945..0.963).contains(&share), "{share}");
        } else {
            check_goodput(record.flows.goodput_mbps[0], 10.0);
        }
    }
}

#[test]
fn two_paths_fill_both_links() {
    let record = run(&scenario(TWO_LINKS), 1);
    check_goodput(record.flows.goodput_mbps[0], 60.0);
    check_goodput(record.paths.goodput_mbps[0], 40.0);
    check_goodput(record.paths.goodput_mbps[1], 20.0);
}

/// The library sends the acknowledgements of every path back over path 0, n0-computer/noq issue
/// 799: the smallest RTT of path 1 is 30 ms forward and 10 ms back, not 60 ms. When this fails the
/// library has been mended: say so in docs/reference/quic.md.
#[test]
fn acknowledgements_of_all_paths_return_over_path_0() {
    let record = run(&scenario(TWO_LINKS), 1);
    let back_ms = |path: usize| record.paths.rtt_ms[path] - record.paths.one_way_delay_ms[path];
    assert!((back_ms(0) - 10.0).abs() < 0.5, "{}", back_ms(0));
    assert!((back_ms(1) - 10.0).abs() < 0.5, "{}", back_ms(1));
}

#[test]
fn the_same_seed_gives_the_same_bits_on_two_threads_and_in_slices() {
    let lossy = format!("{TWO_LINKS}\nlinks.R1.loss.bernoulli = {{ probability = 0.001 }}");
    let lossy = lossy.replace("links.R1 = { rate_mbps = 40, delay_ms = 10 }", "");
    let lossy = lossy + "\nlinks.R1.rate_mbps = 40\nlinks.R1.delay_ms = 10";
    let scenario = scenario(&lossy);
    let other = thread::spawn({
        let scenario = scenario.clone();
        move || bits(run(&scenario, 1))
    });
    let mut sliced = Simulation::new(&scenario, 1).expect("it is supported");
    while sliced.now_s() < sliced.duration_s() {
        let next = sliced.now_s() + 0.37;
        sliced.run_until(next);
    }
    let first = bits(sliced.finish());
    assert_eq!(first, other.join().expect("no panic"));
    assert_ne!(first, bits(run(&scenario, 2)));
}

#[test]
fn links_and_paths_count_the_same_losses() {
    let text = "
        algorithm = 'reno'
        measure = { duration_s = 10, sample_ms = 1000 }
        links.R1 = { rate_mbps = 10, delay_ms = 20, queue.drop_tail = { packets = 20 } }
        links.R2 = { rate_mbps = 10, delay_ms = 10, loss.bernoulli = { probability = 0.01 } }
        flows = [{ name = 'user', count = 2, paths = [['R1', 'R2'], ['R2']] }]
    ";
    let record = run(&scenario(text), 1);
    let (paths, links) = (&record.paths, &record.links);
    assert!(sum(&paths.lost_overflow) > 0 && sum(&paths.lost_random) > 0);
    assert_eq!(sum(&paths.lost_overflow), sum(&links.dropped_overflow));
    assert_eq!(sum(&paths.lost_random), sum(&links.dropped_random));
    assert_eq!(sum(&paths.sent_packets), sum(&record.flows.sent_packets));
}

/// The library discards packets with old keys that arrive over a slower path than the first with
/// new ones, so that the keys must change before the second path opens.
#[test]
fn a_change_of_keys_loses_no_packet() {
    let scenario = scenario(
        "
        algorithm = 'reno'
        measure = { duration_s = 5, warmup_s = 0 }
        links.R1 = { rate_mbps = 40, delay_ms = 10, queue = { drop_tail = { packets = 4000 } } }
        links.R2 = { rate_mbps = 40, delay_ms = 40, queue = { drop_tail = { packets = 4000 } } }
        flows = [{ name = 'user', paths = [['R1'], ['R2']], workload.file.bytes = 3_000_000 }]
        ",
    );
    for seed in 1..=10 {
        let record = run(&scenario, seed);
        assert_eq!(record.transfers.bytes, [3_000_000]);
        assert!(
            record.paths.sent_packets[1] > 100,
            "{:?}",
            record.paths.sent_packets
        );
        assert_eq!(record.paths.retransmitted_packets, [0, 0], "seed {seed}");
    }
}

#[test]
fn every_file_arrives_whole() {
    let text = "
        algorithm = 'lia'
        measure = { duration_s = 20 }
        links.R1 = { rate_mbps = 10, delay_ms = 20, loss.bernoulli = { probability = 0.02 } }
        links.R2 = { rate_mbps = 5, delay_ms = 40 }
        [[flows]]
        name = 'one'
        paths = [['R1'], ['R2']]
        workload.file = { bytes = 3e6 }
        [[flows]]
        name = 'many'
        paths = [['R1'], ['R2']]
        stop_s = 10
        workload.poisson = { rate_per_s = 5, size.exponential = { mean_bytes = 3e4 } }
    ";
    let record = run(&scenario(text), 1);
    assert_eq!(
        record.transfers.len() as u64,
        sum(&record.flows.transfers_done)
    );
    assert!(record.transfers.len() > 30);
    assert_eq!(
        sum(&record.transfers.bytes),
        sum(&record.flows.delivered_bytes)
    );
    let mut sizes = record.transfers.flow.iter().zip(&record.transfers.bytes);
    assert!(sizes.any(|file| file == (&0, &3_000_000)));
    // 3 MB at 15 Mbps take 1.6 s.
    assert!(record.transfers.duration_s.iter().all(|&s| s < 6.0));
}

#[test]
fn a_user_is_silent_while_it_is_off() {
    let text = "
        algorithm = 'reno'
        measure = { duration_s = 8, sample_ms = 1000 }
        links.R1 = { rate_mbps = 10, delay_ms = 20 }
        flows = [{ name = 'user', paths = [['R1']], workload.on_off = { on_s = 2, off_s = 2 } }]
    ";
    let record = run(&scenario(text), 1);
    // The seconds 3 and 7 to 8 are silent; in the third the queue is emptied.
    let goodput = &record.flow_samples.goodput_mbps;
    assert!(goodput[1] > 9.0 && goodput[5] > 9.0, "{goodput:?}");
    assert_eq!((goodput[3], goodput[7]), (0.0, 0.0));
}

#[test]
fn a_dead_link_stops_a_connection_for_at_most_one_second() {
    check_dead_links(1..=1);
}

#[test]
#[ignore = "slow: make test-all"]
fn a_dead_link_stops_a_connection_for_at_most_one_second_with_other_seeds() {
    check_dead_links(2..=3);
}

/// The links are killed in turn. After 0.5 s of silence a path is closed and its data sent again
/// over the other; 0.1 s passes between looks, three round trips of at most 0.12 s until the path
/// is discarded.
fn check_dead_links(seeds: RangeInclusive<u64>) {
    let text = "
        algorithm = 'lia'
        measure = { duration_s = 40, warmup_s = 2, sample_ms = 100 }
        flows = [{ name = 'user', paths = [['R1'], ['R2']] }]
        [links.R1]
        rate_mbps = 20
        delay_ms = 10
        down = [{ from_s = 5, to_s = 10 }, { from_s = 25, to_s = 26 }]
        [links.R2]
        rate_mbps = 20
        delay_ms = 10
        down = [{ from_s = 15, to_s = 20 }, { from_s = 35, to_s = 35.3 }]
    ";
    for seed in seeds {
        let record = run(&scenario(text), seed);
        let (mut stall, mut longest) = (0, 0);
        for &goodput in &record.flow_samples.goodput_mbps[10..] {
            stall = if goodput == 0.0 { stall + 1 } else { 0 };
            longest = longest.max(stall);
        }
        println!("longest stall: {} s", f64::from(longest) / 10.0);
        assert!(longest <= 10, "{longest} samples of 0.1 s");
        // Both links are used again within a second of their return: R1 is down for 6 s of 38, R2
        // for 5.3 s.
        let used = |path: usize, down: f64| record.paths.goodput_mbps[path] * 38.0 / (38.0 - down);
        assert!(used(0, 6.0) > 0.9 * 19.1, "{}", used(0, 6.0));
        assert!(used(1, 5.3) > 0.9 * 19.1, "{}", used(1, 5.3));
    }
}

#[test]
fn what_is_not_available_is_refused() {
    let refused = |set: &[(String, String)]| {
        let scenario = Scenario::parse(TWO_LINKS.as_bytes(), "a test", set).expect("valid");
        let error = Simulation::new(&scenario, 1).err();
        error.map(|error| error.to_string()).unwrap_or_default()
    };
    let set = |key: &str, value: &str| [(key.to_owned(), value.to_owned())];
    assert_eq!(
        refused(&set("tcp.packet_bytes", "1000")),
        "tcp.packet_bytes: less than 1228 bytes is not available on quic; run it with --on sim"
    );
    for scheduler in Scheduler::ALL {
        let refusal = scheduler.refusal("quic").unwrap_or_default();
        assert_eq!(refused(&set("tcp.scheduler", scheduler.name())), refusal);
    }
    assert_eq!(
        refused(&set("tcp.scheduler", "round-robin")),
        "tcp.scheduler: round-robin is not available on quic; run it with --on sim"
    );
    let gateway =
        "{ gateway = { clients = 2, rate_per_s = 1, size.exponential.mean_bytes = 1e4 } }";
    assert_eq!(
        refused(&set("flows[0].workload", gateway)),
        "flows.user.workload: a gateway is not available on quic; run it with --on sim"
    );
    assert_eq!(
        refused(&set("tcp.recovery", "newreno")),
        "tcp.recovery: newreno is not available on quic; run it with --on sim or kernel"
    );
    assert_eq!(
        refused(&set("flows[0].packet_bytes", "1300")),
        "flows.user.packet_bytes: a packet size of its own is not available on quic; run it with --on sim"
    );
    assert_eq!(refused(&set("links.R1.queue.pie", "{}")), "");
    assert_eq!(refused(&set("tcp.packet_bytes", "1228")), "");
}

/// A tenth of the datagrams are up to 20 ms late, at a round trip of 70 ms. RFC 9002's thresholds,
/// three packets and an eighth of a round trip, declare lost what arrives later. Measured: 10.3
/// Mbit/s; 5.1 if the reductions of the window are not undone.
#[test]
fn spurious_losses_by_reordering_do_not_reduce_the_window() {
    let one = scenario(
        "
        algorithm = 'reno'
        measure = { duration_s = 20, warmup_s = 5 }
        links.R1 = { rate_mbps = 12, delay_ms = 35 }
        flows = [{ name = 'user', paths = [['R1']] }]
        ",
    );
    let mut simulation = Simulation::new(&one, 1).expect("it is supported");
    simulation.reorder(0.1, 0.02);
    let goodput = simulation.finish().flows.goodput_mbps[0];
    assert!(goodput > 0.8 * 12.0, "{goodput} Mbps");
}

/// Packets that overtake one another, arrive late, or are sent again by the link: the file arrives,
/// and nothing of it is lost.
#[test]
fn a_file_arrives_over_links_that_reorder_packets() {
    for keys in [
        "reorder = { share = 0.05, packets = 5 }",
        "reorder = { share = 0.05, by_ms = 15 }",
        "jitter_ms = 15, keeps_order = false",
        "loss.bernoulli.probability = 0.05, arq = { retries = 9, delay_ms = 8 }",
    ] {
        let record = run(
            &scenario(&format!(
                "
                algorithm = 'reno'
                measure.duration_s = 60
                links.R1 = {{ rate_mbps = 10, delay_ms = 20, {keys} }}
                flows = [{{ name = 'user', paths = [['R1']], workload.file.bytes = 5e6 }}]
                "
            )),
            1,
        );
        assert_eq!(record.transfers.bytes, [5_000_000], "{keys}");
        assert_eq!(sum(&record.paths.lost_random), 0, "{keys}");
    }
}

/// A delay that a trace changes: 20 ms, and 60 from 5 s on.
#[test]
fn a_round_trip_follows_the_delay_of_a_trace() {
    let text = "
        algorithm = 'reno'
        measure = { duration_s = 12, sample_ms = 100 }
        links.R1 = { rate_mbps = 10, delay_ms = 20, trace_file = 't.csv',
                     queue.drop_tail.packets = 10 }
        flows = [{ name = 'user', paths = [['R1']] }]
        ";
    let trace = b"time_s,delay_ms\n0,0\n5,40\n";
    let inputs = Inputs::from([("t.csv".to_owned(), trace[..].into())]);
    let scenario = Scenario::parse_with(text.as_bytes(), "a test", &[], &inputs, None);
    let samples = run(&scenario.expect("valid"), 1).path_samples;
    let smallest = |from_s: f64, to_s: f64| {
        let within = (0..samples.len()).filter(|&i| (from_s..to_s).contains(&samples.time_s[i]));
        within
            .map(|i| samples.rtt_ms[i])
            .fold(f64::INFINITY, f64::min)
    };
    assert!(
        (41.0..55.0).contains(&smallest(1.0, 5.0)),
        "{}",
        smallest(1.0, 5.0)
    );
    assert!(
        (81.0..95.0).contains(&smallest(7.0, 12.0)),
        "{}",
        smallest(7.0, 12.0)
    );
}
