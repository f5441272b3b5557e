//! Instructions per packet, counted by valgrind: the same on every run, whatever else the machine
//! does. `make instructions` prints them.

use anabranch_scenario::Virtual;
use anabranch_sim::Simulation;

use common::scenario;
use valgrind::counted;

#[allow(dead_code, reason = "the other benchmarks' clock")]
mod common;
#[path = "common/valgrind.rs"]
mod valgrind;

/// Durations of the two runs, s: their difference has no start of the program and of the run.
const DURATIONS_S: [&str; 2] = ["20", "40"];

fn main() {
    // Cargo passes `--bench`; the runs under valgrind get a duration.
    match std::env::args().nth(1).as_deref() {
        Some(seconds) if seconds != "--bench" => println!("{}", packets(seconds)),
        _ => compare(),
    }
}

/// Data packets that reached the end of their path in a run of this many seconds.
fn packets(seconds: &str) -> u64 {
    let scenario = scenario("dumbbell", &[("measure.duration_s", seconds)]);
    let flows = Simulation::new(&scenario, 1).finish().flows;
    flows.sent_packets.iter().sum::<u64>() - flows.lost_packets.iter().sum::<u64>()
}

fn compare() {
    let [short, long] = DURATIONS_S.map(|seconds| counted(&[seconds]));
    let (packets, instructions) = (long.0 - short.0, long.1 - short.1);
    println!("100 Mbps, 20 ms, drop-tail 100 packets, 10 flows: {packets} packets");
    println!(
        "  anabranch                         {:7.1} instructions per data packet",
        instructions as f64 / packets as f64
    );
}
