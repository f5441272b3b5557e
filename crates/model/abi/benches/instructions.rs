//! Instructions per packet of the simulator with a controller in C beside the same rule built in,
//! counted by valgrind. `make instructions` prints them.

use std::path::Path;
use std::sync::Arc;

use anabranch::Loaded;
use anabranch_scenario::users::Outside;
use anabranch_scenario::{Scenario, Virtual};
use anabranch_sim::Simulation;
use tempfile::TempDir;

#[path = "../tests/compiled.rs"]
mod compiled;
#[path = "../../sim/benches/common/valgrind.rs"]
mod valgrind;

/// Durations of the two runs, s: their difference has no start of the program and of the run.
const DURATIONS_S: [&str; 2] = ["20", "40"];

/// A rule of the table, and the example that is equal to it to the bit.
const PAIRS: [(&str, &str); 2] = [("reno", "newreno"), ("cubic", "cubic")];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [seconds, rule, file, name] => println!("{}", packets(seconds, rule, file, name)),
        _ => compare(),
    }
}

/// Data packets that reached the end of their path, with the rule, or a library's controller if
/// there is a file.
fn packets(seconds: &str, rule: &str, file: &str, name: &str) -> u64 {
    let link = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sim/benches/dumbbell.toml");
    let keys = [
        ("measure.duration_s".to_owned(), seconds.to_owned()),
        ("algorithm".to_owned(), format!("\"{rule}\"")),
    ];
    let scenario = Scenario::load(&link, &keys).unwrap_or_else(|error| panic!("{error}"));
    let simulation = match file {
        "" => Simulation::new(&scenario, 1),
        _ => {
            let loaded = Loaded::open(Path::new(file), name).expect("it is one");
            let outside = Outside::Controllers(Arc::new(loaded));
            Simulation::with_custom(&scenario, 1, &outside)
        }
    };
    let flows = simulation.finish().flows;
    flows.sent_packets.iter().sum::<u64>() - flows.lost_packets.iter().sum::<u64>()
}

fn compare() {
    let folder = TempDir::new().expect("a folder");
    println!("rule,packets,instructions per packet,in C");
    for (rule, name) in PAIRS {
        let file = folder.path().join(format!("lib{name}.so"));
        compiled::library(&compiled::example(&format!("{name}.c")), &file);
        let file = file.to_str().expect("the path is text");
        let [own, in_c] = ["", file].map(|file| {
            let [short, long] =
                DURATIONS_S.map(|seconds| valgrind::counted(&[seconds, rule, file, name]));
            (long.0 - short.0, long.1 - short.1)
        });
        assert_eq!(own.0, in_c.0, "the example is equal to the rule");
        let each = |(packets, instructions): (u64, u64)| instructions as f64 / packets as f64;
        println!("{rule},{},{:.0},{:.0}", own.0, each(own), each(in_c));
    }
}
