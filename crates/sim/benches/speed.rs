//! Cost per packet: ratios measured in one run. `make bench` prints them; no test asserts them.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anabranch_scenario::Scenario;
use anabranch_sim::Simulation;

/// Runs of each figure; the fastest counts, because other load on the machine only adds time.
const RUNS: usize = 7;

fn main() {
    let dumbbell = scenario("dumbbell", &[]);
    let lia = scenario("two_links", &[]);
    let (mut ours, mut theirs, mut coupled) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
    for _ in 0..RUNS {
        ours = ours.min(ns_per_packet(&dumbbell));
        theirs = theirs.min(ns2_ns_per_packet().unwrap_or(f64::INFINITY));
        coupled = coupled.min(ns_per_packet(&lia));
    }
    println!("100 Mbps, 20 ms, drop-tail 100 packets, 10 flows, 100 s");
    println!("  anabranch                         {ours:7.1} ns per data packet");
    if theirs.is_finite() {
        println!("  ns-2, Sack1                       {theirs:7.1} ns per data packet");
        println!(
            "  ratio                             {:7.2} (wanted: at least 7)",
            theirs / ours
        );
    } else {
        println!("  ns-2 is not installed (Debian: apt-get install ns2): no ratio");
    }
    println!("two 100 Mbps links, 150 ms, 10 two-path lia users, 10 single-path users");
    println!("  anabranch                         {coupled:7.1} ns per data packet (at most 70)");
    scaling();
    memory();
}

/// From 10 to 1000 flows on a link of 1 Gbps.
fn scaling() {
    let counts = [10, 100, 1000];
    let scenarios = counts.map(crowd);
    let mut best = [f64::INFINITY; 3];
    for _ in 0..RUNS {
        for (best, scenario) in best.iter_mut().zip(&scenarios) {
            *best = best.min(ns_per_packet(scenario));
        }
    }
    println!("1 Gbps, 20 ms, drop-tail 100 ms");
    for (count, ns) in counts.iter().zip(best) {
        println!("  {count:4} flows                        {ns:7.1} ns per data packet");
    }
    println!(
        "  1000 flows against 10             {:7.2} (at most 1.6)",
        best[2] / best[0]
    );
}

/// Memory of a flow: what 1000 flows hold more than 10, while the link holds the same packets.
fn memory() {
    let [few, many] = [10, 1000].map(|count| {
        let scenario = crowd(count);
        let before = HELD.load(Ordering::Relaxed);
        let mut simulation = Simulation::new(&scenario, 1);
        simulation.run_until(scenario.measure.duration_s.get());
        HELD.load(Ordering::Relaxed) - before
    });
    let each = (many - few) as f64 / 990.0;
    println!("  memory per flow                   {each:7.0} B (at most 2048)");
}

fn crowd(flows: u32) -> Scenario {
    scenario("crowd", &[("flows.crowd.count", flows)])
}

fn scenario(name: &str, overrides: &[(&str, u32)]) -> Scenario {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("benches/{name}.toml"));
    let overrides: Vec<(String, String)> = overrides
        .iter()
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect();
    Scenario::load(&file, &overrides).unwrap_or_else(|error| panic!("{error}"))
}

/// Packets that reach the end of their path count, once each.
fn ns_per_packet(scenario: &Scenario) -> f64 {
    let start = Instant::now();
    let record = Simulation::new(scenario, 1).finish();
    let elapsed = start.elapsed();
    let dropped = |link: usize| {
        let links = &record.links;
        links.dropped_overflow[link] + links.dropped_red[link] + links.dropped_random[link]
    };
    let delivered: u64 = (0..record.links.len())
        .map(|link| record.links.arrived_packets[link] - dropped(link))
        .sum();
    elapsed.as_secs_f64() * 1e9 / delivered as f64
}

/// The same scenario in ns-2, its start included (some 20 ms of 300); `None` if there is none.
fn ns2_ns_per_packet() -> Option<f64> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/dumbbell.tcl");
    let start = Instant::now();
    let output = Command::new("ns").arg(script).output().ok()?;
    let elapsed = start.elapsed();
    let packets: f64 = String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse()
        .ok()?;
    Some(elapsed.as_secs_f64() * 1e9 / packets)
}

/// The system's allocator, counting what is held.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged; the counter touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: `pointer` came from `alloc` above with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
