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

const SCENARIOS: [[&str; 2]; 2] = [
    [
        "dumbbell",
        "100 Mbps, 20 ms, drop-tail 100 packets, 10 flows",
    ],
    [
        "two_links",
        "two 100 Mbps links, 150 ms, 10 two-path lia, 10 single-path",
    ],
];

fn main() {
    // Cargo passes `--bench`; the runs under valgrind get a scenario and a duration.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [name, seconds] => println!("{}", packets(name, seconds)),
        _ => SCENARIOS.into_iter().for_each(compare),
    }
}

/// Data packets that reached the end of their path in a run of this many seconds.
fn packets(name: &str, seconds: &str) -> u64 {
    let scenario = scenario(name, &[("measure.duration_s", seconds)]);
    let flows = Simulation::new(&scenario, 1).finish().flows;
    flows.sent_packets.iter().sum::<u64>() - flows.lost_packets.iter().sum::<u64>()
}

fn compare([name, what]: [&str; 2]) {
    let [short, long] = DURATIONS_S.map(|seconds| counted(&[name, seconds]));
    let (packets, instructions) = (long.0 - short.0, long.1 - short.1);
    println!("{what}: {packets} packets");
    println!(
        "  anabranch                         {:7.1} instructions per data packet",
        instructions as f64 / packets as f64
    );
}
