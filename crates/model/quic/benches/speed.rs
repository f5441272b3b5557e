//! Simulated seconds per second of processor time over QUIC, and the ratio to the simulator's,
//! measured in one run. `cargo bench -p anabranch-quic` prints them; no test asserts them.

use std::path::Path;

use anabranch_scenario::{Record, Scenario, Virtual};

/// Runs of each figure; the fastest counts, because other load on the machine only adds time.
const RUNS: usize = 5;

fn main() {
    for name in ["two_against_one", "two_links"] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../../examples")
            .join(name)
            .with_extension("toml");
        let scenario = Scenario::load(&file, &[]).unwrap_or_else(|error| panic!("{error}"));
        let quic = |scenario: &Scenario| {
            let simulation = anabranch_quic::Simulation::new(scenario, 1);
            simulation.expect("it is supported").finish()
        };
        let sim = |scenario: &Scenario| anabranch_sim::Simulation::new(scenario, 1).finish();
        let (mut over_quic, mut simulated) = (Cost::MOST, Cost::MOST);
        for _ in 0..RUNS {
            over_quic = over_quic.least(cost(&scenario, quic));
            simulated = simulated.least(cost(&scenario, sim));
        }
        let duration_s = scenario.measure.duration_s.get();
        println!("{}, {duration_s} s", scenario.name);
        for (backend, cost) in [("quic", &over_quic), ("sim", &simulated)] {
            println!(
                "  {backend:4} {:8.0} simulated s per s, {:7.0} ns per packet",
                duration_s / cost.total_s,
                cost.per_packet_ns
            );
        }
        println!("  ratio {:6.1}", over_quic.total_s / simulated.total_s);
    }
}

/// Processor time of a run, in total and per packet; packets are counted after the warm-up and
/// extrapolated to the whole run.
#[derive(Clone, Copy)]
struct Cost {
    total_s: f64,
    per_packet_ns: f64,
}

impl Cost {
    const MOST: Cost = Cost {
        total_s: f64::INFINITY,
        per_packet_ns: f64::INFINITY,
    };

    fn least(self, other: Cost) -> Cost {
        Cost {
            total_s: self.total_s.min(other.total_s),
            per_packet_ns: self.per_packet_ns.min(other.per_packet_ns),
        }
    }
}

fn cost(scenario: &Scenario, run: impl Fn(&Scenario) -> Record) -> Cost {
    let start = thread_s();
    let record = run(scenario);
    let total_s = thread_s() - start;
    let measured = 1.0 - scenario.measure.warmup_s.get() / scenario.measure.duration_s.get();
    let packets = record.flows.sent_packets.iter().sum::<u64>() as f64 / measured;
    Cost {
        total_s,
        per_packet_ns: total_s * 1e9 / packets,
    }
}

/// Processor time of this thread, s.
fn thread_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("this is Linux");
    let first = text
        .split_whitespace()
        .next()
        .and_then(|ns| ns.parse().ok());
    first.map_or(f64::NAN, |ns: f64| ns * 1e-9)
}
