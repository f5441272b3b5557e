//! Cost per data packet beside htsim, as ratios measured in one run. `HTSIM` is the path of a clone
//! of htsim: `HTSIM=~/csg-htsim cargo bench -p anabranch-sim --bench htsim`. Its Makefile builds
//! its library there; `htsim.cpp` calls it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anabranch_net::Queue;
use anabranch_scenario::Scenario;

use common::scenario;
use cost::measure;

mod common;
mod cost;

/// Runs of each figure; the fastest counts, because other load on the machine only adds time.
const RUNS: usize = 7;

fn main() {
    let Some(htsim) = std::env::var_os("HTSIM") else {
        println!("no ratio to htsim: HTSIM is not the path of a clone of");
        println!("  https://github.com/Broadcom/csg-htsim");
        return;
    };
    let driver = build(&Path::new(&htsim).join("sim"));
    println!("                                     ns per data packet");
    println!("  scenario                         anabranch    htsim   ratio");
    for (name, what) in [
        ("dumbbell", "10 flows"),
        ("two_links", "10 two-path lia, 10 single-path"),
    ] {
        let scenario = scenario(name, &[]);
        let (mut ours, mut theirs) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..RUNS {
            ours = ours.min(measure(&scenario).0);
            theirs = theirs.min(htsim_ns_per_packet(&driver, name, &scenario));
        }
        println!("  {what:32} {ours:9.1} {theirs:8.1}  {:6.2}", theirs / ours);
    }
}

/// Builds the library in the folder `sim` of htsim, and the driver with the library's flags.
fn build(sim: &Path) -> PathBuf {
    let driver = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("htsim");
    run(Command::new("make").arg("-C").arg(sim).arg("libhtsim.a"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/htsim.cpp");
    run(Command::new("g++")
        .args(["-std=c++11", "-O3", "-o"])
        .arg(&driver)
        .arg(source)
        .arg("-I")
        .arg(sim)
        .arg(sim.join("libhtsim.a")));
    driver
}

/// The scenario in htsim, with as many packets in each queue.
fn htsim_ns_per_packet(driver: &Path, name: &str, scenario: &Scenario) -> f64 {
    let Queue::DropTail {
        packets: Some(packets),
        ..
    } = scenario.links[0].config.queue
    else {
        panic!("{name} has a drop-tail queue");
    };
    let output = run(Command::new(driver).arg(name).arg(packets.to_string()));
    let last = output.lines().last().unwrap_or_default();
    let numbers: Vec<f64> = last.split(' ').flat_map(str::parse).collect();
    numbers[0] / numbers[1]
}

/// The output of a program. Ends the bench with the program's errors if it fails.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| {
        eprintln!("{}: {error}", command.get_program().display());
        std::process::exit(1);
    });
    if !output.status.success() {
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        eprintln!("{command:?}: {}", output.status);
        std::process::exit(1);
    }
    String::from_utf8_lossy(&output.stdout).into_owned()
}
