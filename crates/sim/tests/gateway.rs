//! Gateways: files pooled into one persistent connection.
//!
//! At 8 Mbps a packet of 1000 bytes takes 1 ms, and there is no header. A file of n bytes has
//! ceil(n / 1000) packets. Acknowledgements take no time to transmit.

mod common;

use anabranch_scenario::Record;
use common::run;

const LINK: &str = "rate_mbps = 8, delay_ms = 10, queue.drop_tail = { packets = 1000000 }";

/// One gateway with `clients`, each with files at `rate_per_s`, of this size.
fn gateway(workload: &str, flow: &str, duration_s: f64) -> Record {
    let text = format!(
        r#"
        algorithm = "vegas:kappa=10"
        measure = {{ duration_s = {duration_s}, sample_ms = 1000 }}
        tcp = {{ packet_bytes = 1000, header_bytes = 0 }}
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
    assert_eq!(record.flows.transfers_done[0], record.transfers.len() as u64);
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

/// Two files of 10 packets each come while the first packets are under way. Alone, 10 packets take
/// 10 ms to transmit and 10 ms to travel; the initial window of 10 lets them go at once.
#[test]
fn a_file_alone_takes_transmission_and_travel() {
    let rare = "clients = 1, rate_per_s = 0.01, size.exponential = { mean_bytes = 2000 }";
    let record = gateway(rare, "", 20_000.0);
    assert!(record.transfers.len() > 100);
    for (bytes, duration_s) in record.transfers.bytes.iter().zip(&record.transfers.duration_s) {
        let expected_s = 0.010 + *bytes as f64 * 1e-6;
        assert!((duration_s - expected_s).abs() < 1e-9, "{bytes} bytes in {duration_s} s");
    }
}
