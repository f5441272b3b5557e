//! Cost and memory of a flow, from 10 to 100 000 flows on one link of 10 Gbps, and of 100 000 on
//! 100 Gbps, where their windows are ten times as large and few time out. `make bench` prints them;
//! `cargo bench --bench scale -- 10 1000000@100` measures only these numbers of flows, on 10 Gbps
//! or those named.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use anabranch_scenario::{Scenario, Virtual};
use anabranch_sim::Simulation;

use common::{scenario, thread_ns};

mod common;

/// Runs of each figure; the fastest counts, because other load on the machine only adds time.
const RUNS: usize = 3;

/// One number of flows: processor time and packets after the warm-up, and memory.
#[derive(Clone, Copy)]
struct Cost {
    time_ns: f64,
    sent: f64,
    delivered: f64,
    /// Memory that the simulation holds at its end, B.
    held: f64,
    /// The most that it held until its tables were made, B.
    peak: f64,
}

fn main() {
    let mut rows: Vec<(u32, u32)> = std::env::args().filter_map(|word| asked(&word)).collect();
    if rows.is_empty() {
        let counts = [10, 100, 1000, 10_000, 100_000].map(|count| (count, 10));
        rows.extend(counts.into_iter().chain([(100_000, 100)]));
    }
    let crowds = rows.iter().map(|&(count, gbps)| crowd(count, gbps));
    let scenarios: Vec<Scenario> = crowds.collect();
    let mut best: Vec<Cost> = scenarios.iter().map(measure).collect();
    for _ in 1..RUNS {
        for (best, scenario) in best.iter_mut().zip(&scenarios) {
            best.time_ns = best.time_ns.min(measure(scenario).time_ns);
        }
    }
    println!("20 ms, drop-tail 100 ms; after a warm-up of 5 s");
    println!(
        "    flows  Gbps  ns/sent  ns/delivered   ratio   lost  peak GiB  B/flow  with tables"
    );
    let (first, fewest) = (best[0], f64::from(rows[0].0));
    for (cost, &(count, gbps)) in best.iter().zip(&rows) {
        print!(
            "  {count:7}  {gbps:4}  {:7.1}  {:12.1}  {:6.2}  {:4.1}%  {:8.3}",
            cost.time_ns / cost.sent,
            cost.time_ns / cost.delivered,
            cost.time_ns / cost.sent / (first.time_ns / first.sent),
            100.0 * (1.0 - cost.delivered / cost.sent),
            cost.peak / f64::from(1 << 30),
        );
        // Memory of what is more than in the first row.
        let more = f64::from(count) - fewest;
        if more > 0.0 {
            let per_flow = |bytes: f64| (bytes - first.held) / more;
            print!(
                "  {:6.0}  {:11.0}",
                per_flow(cost.held),
                per_flow(cost.peak)
            );
        }
        println!();
    }
}

/// An argument: COUNT or COUNT@GBPS.
fn asked(word: &str) -> Option<(u32, u32)> {
    let (count, gbps) = word.split_once('@').unwrap_or((word, "10"));
    Some((count.parse().ok()?, gbps.parse().ok()?))
}

/// At 10 Gbps 833 333 packets/s, 20 ms and a queue of 100 ms.
fn crowd(flows: u32, gbps: u32) -> Scenario {
    let (count, mbps) = (flows.to_string(), (1000 * gbps).to_string());
    let overrides = [
        ("flows.crowd.count", count.as_str()),
        ("links.bottleneck.rate_mbps", mbps.as_str()),
        ("measure.warmup_s", "5"),
        ("measure.duration_s", "10"),
        ("measure.max_memory_gib", "64"),
    ];
    scenario("crowd", &overrides)
}

fn measure(scenario: &Scenario) -> Cost {
    let before = held();
    take_peak();
    let mut simulation = Simulation::new(scenario, 1);
    simulation.run_until(scenario.measure.warmup_s.get());
    let start = thread_ns();
    simulation.run_until(scenario.measure.duration_s.get());
    let time_ns = thread_ns() - start;
    let at_end = (held() - before) as f64;
    let record = simulation.finish();
    let links = &record.links;
    let sent = links.arrived_packets[0] as f64;
    Cost {
        time_ns,
        sent,
        delivered: sent - (links.dropped_overflow[0] + links.dropped_red[0]) as f64,
        held: at_end,
        peak: (take_peak() - before) as f64,
    }
}

/// Bytes that the program holds now.
fn held() -> usize {
    HELD.load(Ordering::Relaxed)
}

/// The most that it held since the last call.
fn take_peak() -> usize {
    PEAK.swap(held(), Ordering::Relaxed)
}

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, counting what is held.
struct Counting;

// SAFETY: every call goes to the system's allocator unchanged; the counters touch no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(held, Ordering::Relaxed);
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
