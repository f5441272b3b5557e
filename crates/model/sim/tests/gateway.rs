//! Gateways: files pooled into one persistent connection.
//!
//! At 8 Mbps a packet of 1000 bytes takes 1 ms, and there is no header. A file of n bytes has
//! ceil(n / 1000) packets. Acknowledgements take no time to transmit.

use crate::common::run;
use anabranch_scenario::Record;

const LINK: &str = "rate_mbps = 8, delay_ms = 10, queue.drop_tail = { packets = 1000000 }";

/// One gateway with `clients`, each with files at `rate_per_s`, of this size.
fn gateway(workload: &str, flow: &str, duration_s: f64) -> Record {
    let text = format!(
        r#"
        algorithm = "vegas:kappa=10"
        measure = {{ duration_s = {duration_s}, sample_ms = 1000 }}
        tcp = {{ packet_bytes = 1000, header_bytes = 0, initial_window_packets = 100 }}
        links.L = {{ {LINK} }}
        [[flows]]
        name = "subnet"
        paths = [["L"]]
        workload.gateway = {{ {workload} }}
        {flow}
        "#
    );
    run(&text, 1)
}

const EXPONENTIAL: &str = "clients = 10, rate_per_s = 0.5, size.exponential = { mean_bytes = 1e5 }";

/// Offered are 10 x 0.5 x 1e5 bytes/s = 4 Mbps: 2500 files in 500 s, with a standard deviation of
/// 50, or 2 %; the standard error of the mean size is 2 % as well.
#[test]
fn a_gateway_carries_what_its_clients_bring() {
    let record = gateway(EXPONENTIAL, "", 500.0);
    let files = record.transfers.len() as f64;
    assert!((files - 2500.0).abs() < 200.0, "{files}");
    let mbps = record.flows.goodput_mbps[0];
    assert!((mbps - 4.0).abs() < 0.48, "{mbps}");
}

/// Whatever was delivered belongs to a file; files that are not whole are still in the gateway.
#[test]
fn every_byte_of_every_file_is_delivered_once() {
    let record = gateway(EXPONENTIAL, "stop_s = 100", 200.0);
    let bytes: u64 = record.transfers.bytes.iter().sum();
    assert_eq!(record.flows.delivered_bytes[0], bytes);
    assert_eq!(record.paths.delivered_bytes[0], bytes);
    assert_eq!(
        record.flows.transfers_done[0],
        record.transfers.len() as u64
    );
    assert_eq!(record.flow_samples.buffer_packets.last(), Some(&0));
}

/// The same over a link that loses packets: what is sent again keeps its size.
#[test]
fn losses_do_not_change_what_is_delivered() {
    let text = format!(
        r#"
        algorithm = "reno"
        measure.duration_s = 300
        tcp = {{ packet_bytes = 1000, header_bytes = 0 }}
        links.L = {{ {LINK}, loss.bernoulli = {{ probability = 0.02 }} }}
        [[flows]]
        name = "subnet"
        paths = [["L"]]
        workload.gateway = {{ {EXPONENTIAL} }}
        stop_s = 50
        "#
    );
    let record = run(&text, 1);
    let bytes: u64 = record.transfers.bytes.iter().sum();
    assert!(record.flows.retransmitted_packets[0] > 100);
    assert_eq!(record.flows.delivered_bytes[0], bytes);
    assert_eq!(record.paths.delivered_bytes[0], bytes);
}

/// Files come 100 s apart and are smaller than the window of 100 packets, which stays what it was.
#[test]
fn a_file_alone_takes_transmission_and_travel() {
    let rare = "clients = 1, rate_per_s = 0.01, size.exponential = { mean_bytes = 2000 }";
    let record = gateway(rare, "", 20_000.0);
    assert!(record.transfers.len() > 100);
    for (bytes, duration_s) in files(&record) {
        let expected_s = 0.010 + bytes as f64 * 1e-6;
        assert!(
            (duration_s - expected_s).abs() < 1e-9,
            "{bytes} B: {duration_s} s"
        );
    }
}

/// The capacity is 1e6 bytes/s, and 2e6 come in: with n files in the buffer each gets 1/n. What
/// took long is not the largest file alone, as it would be if files were sent one after the other.
#[test]
fn small_files_overtake_large_ones() {
    let busy = "clients = 10, rate_per_s = 2, size.pareto = { mean_bytes = 1e5, shape = 1.2 }";
    let record = gateway(busy, "", 20.0);
    let mean = |pick: &dyn Fn(u64) -> bool| {
        let chosen: Vec<f64> = files(&record).filter(|f| pick(f.0)).map(|f| f.1).collect();
        assert!(chosen.len() > 20, "{}", chosen.len());
        chosen.iter().sum::<f64>() / chosen.len() as f64
    };
    let (small, large) = (mean(&|bytes| bytes < 20_000), mean(&|bytes| bytes > 60_000));
    assert!(2.0 * small < large, "{small} {large}");
}

/// 200 files/s come in. A file of exponential size, 10 packets on average, has 1/(1 - exp(-1/10)) =
/// 10.508 packets: 2101.7 packets/s, with a standard deviation of 141 in 1 s. The link carries half
/// of that: 100 s leave what was not sent in the buffer, within three standard deviations, 4200
/// packets.
#[test]
fn the_buffer_holds_what_was_not_sent() {
    let busy = "clients = 10, rate_per_s = 20, size.exponential = { mean_bytes = 1e4 }";
    let record = gateway(busy, "", 100.0);
    let buffer = *record.flow_samples.buffer_packets.last().expect("samples") as f64;
    let sent = record.flows.sent_packets[0] as f64;
    assert!(
        (buffer + sent - 210_170.0).abs() < 4200.0,
        "{buffer} {sent}"
    );
    assert!(buffer > 0.5 * 210_170.0, "{buffer}");
}

/// Rounds of 1 s, and thresholds of 400 and 2000 packets.
const ADJUST: &str = "adjust = { samples = 10, period_s = 0.1, max_queue_packets = 2000";

/// Half of what the link carries: now and then the slope is negative in two rounds, until kappa is
/// 1. Twice that: the buffer is above every threshold and grows, until kappa is 6.
#[test]
fn kappa_follows_the_buffer() {
    let start = "algorithm = \"vegas:kappa=4\"";
    for (rate_per_s, extreme) in [(5.0, 1.0), (20.0, 6.0)] {
        let load = format!(
            "clients = 10, rate_per_s = {rate_per_s}, size.exponential = {{ mean_bytes = 1e4 }}"
        );
        let adjusted = gateway(&format!("{load}, {ADJUST}, max_kappa = 6 }}"), start, 100.0);
        assert!(adjusted.flow_samples.kappa.contains(&extreme));
        let fixed = gateway(&load, start, 100.0);
        assert!(fixed.flow_samples.kappa.iter().all(|kappa| *kappa == 4.0));
    }
}

/// Two files of 2000 bytes in 100 s never meet, so that no round ends with a file in the buffer: M
/// counts as 1, where with M = 6 a slope of 0 leaves kappa at 4. 200 files/s of which the link
/// carries half leave thousands in the buffer, so that kappa passes the usual M = 10.
#[test]
fn the_largest_kappa_can_be_the_number_of_active_files() {
    let kappas = |load: &str, max_kappa: &str| {
        let load = format!("{load}, {ADJUST}, max_kappa = {max_kappa} }}");
        let record = gateway(&load, "algorithm = \"vegas:kappa=4\"", 100.0);
        record.flow_samples.kappa
    };
    let rare = "clients = 1, rate_per_s = 0.02, size.exponential = { mean_bytes = 2000 }";
    assert_eq!(kappas(rare, "6").last(), Some(&4.0));
    assert_eq!(kappas(rare, "'active'").last(), Some(&1.0));
    let busy = "clients = 10, rate_per_s = 20, size.exponential = { mean_bytes = 1e4 }";
    assert_eq!(kappas(busy, "10").last(), Some(&10.0));
    let last = *kappas(busy, "'active'").last().expect("samples");
    assert!(last > 100.0 && last < 20_000.0, "{last}");
}

/// Twice what the link carries, 2101.7 packets/s: without back-pressure the buffer has 110 000
/// packets after 100 s. With it the buffer is filled up to 2000 packets at each sample, once a
/// round's mean was above, and by one more file, of at most 37 times the mean of 10 packets. It is
/// never empty, and the last files have waited half of the 100 s, in the buffer or at their
/// clients.
#[test]
fn back_pressure_keeps_the_buffer_at_the_high_threshold() {
    let busy = "clients = 10, rate_per_s = 20, size.exponential = { mean_bytes = 1e4 }";
    let held = gateway(
        &format!("{busy}, {ADJUST}, back_pressure = true }}"),
        "",
        100.0,
    );
    let buffers = &held.flow_samples.buffer_packets[20..];
    assert!(
        buffers.iter().all(|&it| 0 < it && it <= 2370),
        "{buffers:?}"
    );
    let free = gateway(&format!("{busy}, {ADJUST} }}"), "", 100.0);
    assert!(free.flow_samples.buffer_packets.last() > Some(&90_000));
    let durations = held.transfers.duration_s.iter();
    let longest = durations.fold(0.0_f64, |a, &b| a.max(b));
    assert!(longest > 45.0, "{longest}");
}

#[test]
fn the_same_files_arrive_whether_kappa_is_adjusted_or_not() {
    let starts = |workload: &str| {
        let mut starts = gateway(workload, "", 100.0).transfers.start_s;
        starts.sort_by(f64::total_cmp);
        starts.truncate(400);
        starts
    };
    let adjusted = format!("{EXPONENTIAL}, {ADJUST} }}");
    assert_eq!(starts(EXPONENTIAL), starts(&adjusted));
}

#[test]
fn kappa_and_buffer_are_of_gateways_and_vegas_only() {
    let text = format!(
        r#"
        algorithm = "reno"
        measure.duration_s = 1
        links.L = {{ {LINK} }}
        [[flows]]
        name = "user"
        paths = [["L"]]
        "#
    );
    let samples = run(&text, 1).flow_samples;
    assert!(samples.kappa.iter().all(|&kappa| kappa == 0.0));
    assert!(samples.buffer_packets.iter().all(|&packets| packets == 0));
}

/// Bytes and duration, s, of each file.
fn files(record: &Record) -> impl Iterator<Item = (u64, f64)> {
    let files = &record.transfers;
    files
        .bytes
        .iter()
        .copied()
        .zip(files.duration_s.iter().copied())
}
