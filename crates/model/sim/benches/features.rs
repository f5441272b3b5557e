//! Cost per data packet of queues, ECN, ways back and rules: the dumbbell of `speed` with one thing
//! changed, beside the dumbbell itself. `make bench` prints the ratios; no test asserts them.
//! `cargo bench -p anabranch-sim --bench features -- bbr pie` measures these rows only.

use anabranch_scenario::{Record, Scenario};

use common::scenario;
use cost::measure;

mod common;
mod cost;

/// Runs of each figure; the fastest counts, because other load on the machine only adds time.
const RUNS: usize = 7;

/// The row to which the others are compared.
const PLAIN: &str = "plain";

/// A row: its name, and what it changes.
type Feature = (&'static str, &'static [(&'static str, &'static str)]);

const ECN: (&str, &str) = ("tcp.ecn", "true");
const CODEL: (&str, &str) = ("links.bottleneck.queue", "{ codel = {} }");
const FQ_CODEL: (&str, &str) = ("links.bottleneck.queue", "{ fq_codel = {} }");
const PIE: (&str, &str) = ("links.bottleneck.queue", "{ pie = {} }");
const DUALPI2: (&str, &str) = ("links.bottleneck.queue", "{ dualpi2 = {} }");
const BACK: (&str, &str) = (
    "flows.reno.paths",
    "[{ links = ['bottleneck'], back = ['back'] }]",
);

/// The way back carries 8333 ACKs/s of 40 bytes or, with SACK blocks, more: 2.7 Mbps.
const FEATURES: [Feature; 15] = [
    (PLAIN, &[]),
    ("codel", &[CODEL]),
    ("codel, ECN", &[CODEL, ECN]),
    ("fq_codel", &[FQ_CODEL]),
    ("fq_codel, ECN", &[FQ_CODEL, ECN]),
    ("pie", &[PIE]),
    ("pie, ECN", &[PIE, ECN]),
    ("dualpi2, ECN", &[DUALPI2, ECN]),
    (
        "dualpi2, dctcp",
        &[
            DUALPI2,
            ("tcp.ecn", "accurate"),
            ("flows.reno.algorithm", "dctcp"),
        ],
    ),
    (
        "way back of 100 Mbps",
        &[BACK, ("links.back", "{ rate_mbps = 100, delay_ms = 10 }")],
    ),
    (
        "way back of 2 Mbps",
        &[
            BACK,
            (
                "links.back",
                "{ rate_mbps = 2, delay_ms = 10, queue.drop_tail.packets = 100 }",
            ),
        ],
    ),
    ("profile linux", &[("tcp.profile", "linux")]),
    ("cubic", &[("flows.reno.algorithm", "cubic")]),
    ("bbr", &[("flows.reno.algorithm", "bbr")]),
    ("bbr3", &[("flows.reno.algorithm", "bbr3")]),
];

fn main() {
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    let is_asked = |name: &str| {
        asked.is_empty() || name == PLAIN || asked.iter().any(|word| name.contains(word.as_str()))
    };
    let features: Vec<Feature> = FEATURES.into_iter().filter(|row| is_asked(row.0)).collect();
    let scenarios: Vec<Scenario> = features
        .iter()
        .map(|(_, changes)| scenario("dumbbell", changes))
        .collect();
    let mut best: Vec<(f64, Record)> = scenarios.iter().map(measure).collect();
    for _ in 1..RUNS {
        for ((best_ns, _), scenario) in best.iter_mut().zip(&scenarios) {
            *best_ns = best_ns.min(measure(scenario).0);
        }
    }
    let plain_ns = best[0].0;
    println!("100 Mbps, 20 ms, 10 flows, 100 s; ns per data packet that arrived");
    println!("                                ns  ratio   Mbps   lost  marked   ACKs   lost");
    for ((name, _), (ns, record)) in features.iter().zip(&best) {
        let sent = sum(&record.flows.sent_packets);
        // The links after the bottleneck carry nothing but ACKs.
        let acks = sum(&record.links.arrived_packets[1..]);
        println!(
            "  {name:24} {ns:7.1} {:6.2} {:6.1} {:5.2}% {:6.2}% {:6.2} {:5.1}%",
            ns / plain_ns,
            record.flows.goodput_mbps.iter().sum::<f64>(),
            100.0 * sum(&record.flows.lost_packets) / sent,
            100.0 * sum(&record.flows.marked_packets) / sent,
            acks / sent,
            100.0 * sum(&record.links.dropped_overflow[1..]) / acks.max(1.0),
        );
    }
}

fn sum(counts: &[u64]) -> f64 {
    counts.iter().sum::<u64>() as f64
}
