//! The cost of the algorithms on fast paths: goodput over unshaped links beside the kernel's Reno,
//! in paired runs, and time per call from the kernel's own statistics over two links of 50 Mbps,
//! where the rule is limiting. CUBIC and Reno are timed in the same way, by programs that only call
//! the kernel's functions. Ratios from one run.
//!
//! ```text
//! cargo bench -p anabranch-kernel                      # all, 3 pairs of 2 s each
//! cargo bench -p anabranch-kernel -- wvegas:drain=0 5  # one algorithm, 5 pairs
//! ```

#[path = "../tests/common/network.rs"]
#[allow(dead_code, reason = "tests take more of it")]
mod network;

use std::env;
use std::fs;
use std::time::{Duration, Instant};

use anabranch_kernel::{Choice, Cost, PROGRAMS, costs, load, registered};
use libbpf_rs::{MapCore, ObjectBuilder};
use network::{Host, Network, Sink, connect, send_for};

const STATISTICS: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// The kernel's own algorithms. `peers.bpf.c` has them as `cubic_timed` and `reno_timed`.
const PEERS: [&str; 2] = ["cubic", "reno"];

fn main() {
    let mut arguments = env::args().skip(1).filter(|text| text != "--bench");
    let only = arguments.next();
    let pairs = arguments
        .next()
        .map_or(3, |text| text.parse().expect("a number of pairs"));
    println!(
        "| algorithm        | Mbps    | reno's  | ratio  | pkts_acked ns  | cong_avoid ns  | calls   |"
    );
    println!(
        "| ---              | --:     | --:     | --:    | --:            | --:            | --:     |"
    );
    match only {
        Some(name) if PEERS.contains(&name.as_str()) => peer(&name, pairs),
        Some(choice) => ours(&choice, pairs),
        None => {
            for program in PROGRAMS {
                ours(program.name, pairs);
            }
            PEERS.iter().for_each(|name| peer(name, pairs));
        }
    }
}

fn ours(text: &str, pairs: u32) {
    let choice: Choice = text.parse().unwrap();
    let name = choice.program.name;
    if registered().unwrap().iter().any(|other| other == name) {
        let ratio = ratio(name, pairs);
        println!("| {text:16} | {ratio} | not timed: registered by another |");
        return;
    }
    let loaded = load(&choice).unwrap();
    let ratio = ratio(name, pairs);
    println!(
        "| {text:16} | {ratio} | {} |",
        times(name, || loaded.costs().unwrap())
    );
}

fn peer(name: &str, pairs: u32) {
    let timed = format!("{name}_timed");
    let object = include_bytes!(concat!(env!("OUT_DIR"), "/peers.o"));
    let mut object = ObjectBuilder::default()
        .open_memory(object)
        .unwrap()
        .load()
        .unwrap();
    let algorithm = object.maps_mut().find(|map| map.name() == timed.as_str());
    let _link = algorithm.unwrap().attach_struct_ops().unwrap();
    let ratio = ratio(name, pairs);
    println!(
        "| {name:16} | {ratio} | {} |",
        times(&timed, || costs(&object).unwrap())
    );
}

/// Goodput with an algorithm, with the kernel's Reno, and the ratio.
fn ratio(algorithm: &str, pairs: u32) -> String {
    let network = Network::new(2, None);
    let sink = network.sink();
    let (mut ours, mut reno) = (0.0, 0.0);
    for _ in 0..pairs {
        reno += goodput_mbps(&network, &sink, "reno") / f64::from(pairs);
        ours += goodput_mbps(&network, &sink, algorithm) / f64::from(pairs);
    }
    format!("{ours:7.0} | {reno:7.0} | {:6.2}", ours / reno)
}

fn goodput_mbps(network: &Network, sink: &Sink, algorithm: &str) -> f64 {
    let (start, before) = (Instant::now(), sink.received());
    let algorithm = algorithm.to_string();
    network.inside(Host::Client, move || {
        send_for(&mut connect(&algorithm, true), Duration::from_secs(2));
    });
    (sink.received() - before) as f64 * 8e-6 / start.elapsed().as_secs_f64()
}

/// The cost of the hooks that run for every acknowledgement. In a separate run, because the
/// statistics themselves cost time.
fn times(algorithm: &str, costs: impl Fn() -> Vec<Cost>) -> String {
    let network = Network::new(2, Some(50));
    let sink = network.sink();
    let setting = fs::read_to_string(STATISTICS).unwrap();
    fs::write(STATISTICS, "1").unwrap();
    let before = costs();
    goodput_mbps(&network, &sink, algorithm);
    let after = costs();
    fs::write(STATISTICS, setting).unwrap();
    let spent = |hook: &str| {
        let both = before.iter().zip(&after);
        let of_hook = both.filter(|(_, cost)| cost.program.ends_with(hook));
        of_hook
            .map(|(then, now)| (now.calls - then.calls, now.time_ns - then.time_ns))
            .find(|&(calls, _)| calls > 0)
    };
    let ns = |hook| spent(hook).map_or("-".into(), |(calls, ns)| (ns / calls).to_string());
    let calls = spent("cong_avoid").map_or(0, |(calls, _)| calls);
    format!(
        "{:>14} | {:>14} | {calls:7}",
        ns("pkts_acked"),
        ns("cong_avoid")
    )
}
