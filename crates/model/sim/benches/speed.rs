//! Cost per packet: ratios measured in one run. `make bench` prints them; no test asserts them.

use std::path::Path;
use std::process::Command;

use common::{fields, scenario};
use cost::measure;

mod common;
mod cost;

/// Runs of each figure; the fastest counts, because other load on the machine only adds time.
const RUNS: usize = 7;

fn main() {
    let dumbbell = scenario("dumbbell", &[]);
    let lia = scenario("two_links", &[]);
    let (mut ours, mut theirs, mut coupled) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
    for _ in 0..RUNS {
        ours = ours.min(measure(&dumbbell).0);
        theirs = theirs.min(ns2_ns_per_packet().unwrap_or(f64::INFINITY));
        coupled = coupled.min(measure(&lia).0);
    }
    println!("100 Mbps, 20 ms, drop-tail 100 packets, 10 flows, 100 s");
    println!("  anabranch                         {ours:7.1} ns per data packet");
    if theirs.is_finite() {
        println!("  ns-2, Sack1                       {theirs:7.1} ns per data packet");
        println!(
            "  ratio                             {:7.2} (wanted: at least 12)",
            theirs / ours
        );
    } else {
        println!("  ns-2 is not installed (Debian: apt-get install ns2): no ratio");
    }
    println!("two 100 Mbps links, 150 ms, 10 two-path lia users, 10 single-path users");
    println!("  anabranch                         {coupled:7.1} ns per data packet (at most 70)");
}

/// The same scenario in ns-2, its start included (some 20 ms of 300); `None` if there is none.
fn ns2_ns_per_packet() -> Option<f64> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/dumbbell.tcl");
    let start = children_ns();
    let output = Command::new("ns").arg(script).output().ok()?;
    let elapsed_ns = children_ns() - start;
    let packets: f64 = String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse()
        .ok()?;
    Some(elapsed_ns / packets)
}

/// Processor time of the programs that this one started and that have ended, ns.
fn children_ns() -> f64 {
    // After the program's name in parentheses: `cutime` and `cstime`, in hundredths of a second.
    let fields = fields("/proc/self/stat");
    (fields[13] + fields[14]) * 1e7
}
