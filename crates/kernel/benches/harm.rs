//! What the algorithms cost on fast paths: goodput over unshaped links beside the kernel's Reno, in
//! paired runs, and time per call from the kernel's own statistics over two links of 50 Mbps, where the
//! rule decides. Ratios from one run.
//!
//! ```text
//! cargo bench -p anabranch-kernel            # 3 pairs of 2 s each
//! cargo bench -p anabranch-kernel -- lia 5   # one algorithm, 5 pairs
//! ```

#[path = "../tests/common/network.rs"]
#[allow(dead_code, reason = "tests take more of it")]
mod network;

use std::env;
use std::fs;
use std::time::{Duration, Instant};

use anabranch_kernel::{Loaded, PROGRAMS, load};
use network::{Host, Network, Sink, connect, send_for};

const STATISTICS: &str = "/proc/sys/kernel/bpf_stats_enabled";

fn main() {
    let arguments: Vec<String> = env::args()
        .skip(1)
        .filter(|text| text != "--bench")
        .collect();
    let only = arguments.first();
    let pairs = arguments
        .get(1)
        .map_or(3, |text| text.parse().expect("a number of pairs"));

    println!(
        "{:12} {:>9} {:>9} {:>6}   ns per call (calls)",
        "algorithm", "Mbps", "reno", "ratio"
    );
    for program in PROGRAMS
        .iter()
        .filter(|program| only.is_none_or(|name| name == program.name))
    {
        let network = Network::new(2, None);
        let sink = network.sink();
        let loaded = load(&program.name.parse().unwrap()).unwrap();
        let (mut ours, mut reno) = (0.0, 0.0);
        for _ in 0..pairs {
            reno += goodput_mbps(&network, &sink, "reno");
            ours += goodput_mbps(&network, &sink, program.name);
        }
        let cost = costs(&loaded);
        let (ours, reno) = (ours / f64::from(pairs), reno / f64::from(pairs));
        println!(
            "{:12} {ours:9.0} {reno:9.0} {:6.2}   {cost}",
            program.name,
            ours / reno
        );
    }
}

fn goodput_mbps(network: &Network, sink: &Sink, algorithm: &'static str) -> f64 {
    let (start, before) = (Instant::now(), sink.received());
    network.inside(Host::Client, move || {
        send_for(&mut connect(algorithm, true), Duration::from_secs(2));
    });
    (sink.received() - before) as f64 * 8e-6 / start.elapsed().as_secs_f64()
}

/// In a run of its own: counting costs time too.
fn costs(loaded: &Loaded) -> String {
    let network = Network::new(2, Some(50));
    let sink = network.sink();
    let before = fs::read_to_string(STATISTICS).unwrap();
    fs::write(STATISTICS, "1").unwrap();
    goodput_mbps(&network, &sink, loaded.choice().program.name);
    let costs = loaded.costs().unwrap();
    fs::write(STATISTICS, before).unwrap();
    let often = costs.iter().filter(|cost| cost.calls > 100);
    let texts = often.map(|cost| {
        format!(
            "{} {} ({})",
            cost.program,
            cost.time_ns / cost.calls,
            cost.calls
        )
    });
    texts.collect::<Vec<_>>().join(", ")
}
