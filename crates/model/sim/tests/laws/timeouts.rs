//! Random scenarios in which nothing is lost, reordered or down, as TOML.
//!
//! The timeout of every profile exceeds the smoothed RTT, and so the smallest RTT, by at least 200
//! ms, or is at least 1 s. A tail loss probe may be a retransmission before any timeout, so half of
//! `linux`'s scenarios detect losses without it.

use anabranch_control::RULES;
use proptest::prelude::*;
use proptest::{collection, sample};

use super::random;

/// Longest wait of packets in all queues of a path, s: with 40 ms for a delayed acknowledgement
/// less than the 200 ms by which the shortest timeout of any profile exceeds the smoothed RTT.
const LONGEST_WAIT_S: f64 = 0.15;
const PATH_LINKS: usize = 2;
const PACKET_BITS: f64 = 12e3;

/// Scenarios in which no RTT sample can come later than the timeout. Every queue is unlimited, and
/// receive buffers bound what can wait in it.
pub fn bounded_delay() -> impl Strategy<Value = String> {
    let profile = sample::select(vec!["rfc", "linux"]);
    (1usize..=3, 5u32..100, profile).prop_flat_map(|(flows, buffer, profile)| {
        // Two users per flow; each link can hold all buffers at once.
        let packets = (2 * flows) as f64 * f64::from(buffer);
        let slowest = PATH_LINKS as f64 * packets * PACKET_BITS * 1e-6 / LONGEST_WAIT_S;
        scenario(flows, buffer, slowest, profile)
    })
}

/// Scenarios in which slow links meet bursts, so that some RTT samples come later than the timeout.
/// The profile undoes it. All packets are acknowledged before the run ends: a timeout is known to
/// be spurious only then.
pub fn unbounded_delay() -> impl Strategy<Value = String> {
    (1usize..=3).prop_flat_map(|flows| scenario(flows, 100_000, 0.5, "linux"))
}

fn scenario(
    flows: usize,
    buffer: u32,
    slowest_mbps: f64,
    profile: &'static str,
) -> impl Strategy<Value = String> {
    let rate = (1.0..4.0).prop_map(move |times| slowest_mbps * times);
    let link = (rate, 1.0..150.0).prop_map(|(mbps, delay_ms)| {
        format!(
            "{{ rate_mbps = {mbps}, delay_ms = {delay_ms}, \
             queue.drop_tail.packets = 100000 }}"
        )
    });
    let links = collection::vec(link, PATH_LINKS);
    let flows = collection::vec(flow(), flows);
    let recovery = sample::select(vec!["sack", "rack"]);
    (links, flows, random::scheduler(), recovery).prop_map(
        move |(links, flows, scheduler, recovery)| {
            let links = links.iter().enumerate();
            let links = links.map(|(i, link)| format!("links.L{i} = {link}\n"));
            format!(
                "measure.duration_s = 120\n\
             tcp = {{ profile = \"{profile}\", receive_buffer_packets = {buffer}, \
             scheduler = \"{scheduler}\", recovery = \"{recovery}\" }}\n{}{}",
                links.collect::<String>(),
                flows.concat(),
            )
        },
    )
}

fn flow() -> impl Strategy<Value = String> {
    let routes = vec![r#"["L0"]"#, r#"["L1"]"#, r#"["L0", "L1"]"#];
    let paths = collection::vec(sample::select(routes), 1..=2);
    let rules: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
    let workload = prop_oneof![
        Just(String::from("workload = \"bulk\"")),
        (1u64..300_000).prop_map(|bytes| format!("workload.file = {{ bytes = {bytes} }}")),
        (0.05..1.0, 0.05..1.0)
            .prop_map(|(on, off)| format!("workload.on_off = {{ on_s = {on}, off_s = {off} }}")),
    ];
    (paths, sample::select(rules), workload, 0.0..2.0).prop_map(
        |(paths, rule, workload, start_s)| {
            format!(
                "[[flows]]\nname = \"{rule} from {start_s}\"\ncount = 2\nstart_s = {start_s}\n\
             start_spread_s = 1\nstop_s = 6\npaths = [{}]\nalgorithm = \"{rule}\"\n{workload}\n",
                paths.join(", ")
            )
        },
    )
}
