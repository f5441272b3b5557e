//! Random small scenarios, as TOML.
//!
//! A few seconds of a few Mbps, so that thousands of them run in a minute. No link loses enough
//! packets for a connection to back off for minutes.

use anabranch_control::RULES;
use anabranch_scenario::Scheduler;
use proptest::prelude::*;
use proptest::{collection, option, sample};

/// When every user of a scenario that ends has stopped sending anything new, s.
const STOP_S: f64 = 3.0;

/// A scenario whose users stop, and which goes on until all that they sent must have arrived.
pub fn ending() -> impl Strategy<Value = String> {
    // Losses in a row double the timeout: up to ten of them in this time.
    scenario(Some(STOP_S), 600.0, workload().boxed(), false)
}

/// The same, with paths whose acknowledgements return over a link that carries data, too.
pub fn two_way() -> impl Strategy<Value = String> {
    scenario(Some(STOP_S), 600.0, workload().boxed(), true)
}

/// A scenario of endless transfers.
pub fn endless() -> impl Strategy<Value = String> {
    scenario(
        None,
        60.0,
        Just(String::from("workload = \"bulk\"")).boxed(),
        false,
    )
}

fn scenario(
    stop_s: Option<f64>,
    duration_s: f64,
    workload: BoxedStrategy<String>,
    over_links: bool,
) -> impl Strategy<Value = String> {
    let links = collection::vec(link(), 1..=4);
    let parts = links.prop_flat_map(move |links| {
        let flow = flow(links.len(), stop_s, workload.clone(), over_links);
        let flows = collection::vec(flow, 1..=5);
        (Just(links), tcp(), flows)
    });
    parts.prop_map(move |(links, tcp, flows)| {
        let links = links
            .iter()
            .enumerate()
            .map(|(i, link)| format!("[links.L{i}]\n{link}\n"));
        let flows = flows
            .iter()
            .enumerate()
            .map(|(i, flow)| format!("[[flows]]\nname = \"f{i}\"\n{flow}\n"));
        format!(
            "measure = {{ duration_s = {duration_s}, sample_ms = 200 }}\n[tcp]\n{tcp}\n{}{}",
            links.collect::<String>(),
            flows.collect::<String>(),
        )
    })
}

fn link() -> impl Strategy<Value = String> {
    let rate = prop_oneof![
        4 => (1.0..8.0).prop_map(|mbps: f64| format!("rate_mbps = {mbps}")),
        1 => Just(String::from("trace_file = \"lte.trace\"")),
    ];
    let parts = (rate, 0.0..60.0, queue(), loss(), outages(), impairments());
    parts.prop_map(|(rate, delay_ms, queue, loss, down, more)| {
        // CoDel, FQ-CoDel and DualPI2 have no links whose delay changes.
        let more = match queue.contains("codel") || queue.contains("dualpi2") {
            true => "",
            false => &more,
        };
        format!("{rate}\ndelay_ms = {delay_ms}\n{queue}\n{loss}\ndown = [{down}]\n{more}")
    })
}

/// None on half of the links.
fn impairments() -> impl Strategy<Value = String> {
    let reorder = prop_oneof![
        Just(String::new()),
        (0.0..0.3, 1..12u32, 1.0..80.0).prop_map(|(share, packets, hold_ms)| format!(
            "reorder = {{ share = {share}, packets = {packets}, hold_ms = {hold_ms} }}"
        )),
        (0.0..0.3, 1.0..60.0)
            .prop_map(|(share, by_ms)| format!("reorder = {{ share = {share}, by_ms = {by_ms} }}")),
    ];
    let arq = prop_oneof![
        Just(String::new()),
        (1..4u32, 0.0..30.0).prop_map(|(retries, delay_ms)| format!(
            "arq = {{ retries = {retries}, delay_ms = {delay_ms} }}"
        )),
    ];
    let all = (0.0..40.0, any::<bool>(), reorder, arq);
    let all = all.prop_map(|(jitter_ms, keeps_order, reorder, arq)| {
        format!("jitter_ms = {jitter_ms}\nkeeps_order = {keeps_order}\n{reorder}\n{arq}")
    });
    prop_oneof![Just(String::new()), all]
}

fn queue() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        (1..100).prop_map(|packets| format!("queue.drop_tail = {{ packets = {packets} }}")),
        (1500..100_000).prop_map(|bytes| format!("queue.drop_tail = {{ bytes = {bytes} }}")),
        Just(String::from("queue.red = {}")),
        Just(String::from(
            "queue.codel = { target_ms = 3, interval_ms = 40 }"
        )),
        (1..60).prop_map(|limit| {
            format!(
                "queue.fq_codel = {{ flows = 2, quantum_bytes = 300, limit_packets = {limit} }}"
            )
        }),
        any::<bool>().prop_map(|spaced| {
            format!("queue.pie = {{ target_ms = 5, max_burst_ms = 0, derandomize = {spaced} }}")
        }),
        (1..60, 0.5..3.0).prop_map(|(limit, coupling)| {
            format!(
                "queue.dualpi2 = {{ target_ms = 5, coupling = {coupling}, limit_packets = {limit} }}"
            )
        }),
        (1500..40_000).prop_map(|bytes| {
            format!("queue.policer = {{ rate_mbps = 1, burst_bytes = {bytes} }}")
        }),
        (0.002..1.0).prop_map(|weight| {
            format!(
                "queue.red = {{ min_packets = 5, mid_packets = 15, max_packets = 30, \
                 average_weight = {weight}, limit_packets = 50 }}"
            )
        }),
    ]
}

fn loss() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        (0.0..0.05).prop_map(|p| format!("loss.bernoulli = {{ probability = {p} }}")),
        (0.0..0.02, 0.6..1.0).prop_map(|(bad, good)| {
            format!("loss.gilbert_elliott = {{ good_to_bad = {bad}, bad_to_good = {good} }}")
        }),
    ]
}

fn outages() -> impl Strategy<Value = String> {
    let outage = |from_s: f64, length_s: f64| {
        format!("{{ from_s = {from_s}, to_s = {} }}", from_s + length_s)
    };
    let length = || prop_oneof![0.001..0.01, 0.01..0.9];
    prop_oneof![
        2 => Just(String::new()),
        1 => (0.0..3.0, length()).prop_map(move |(from_s, s)| outage(from_s, s)),
        1 => (0.0..1.0, length(), length()).prop_map(move |(from_s, first_s, second_s)| {
            format!("{}, {}", outage(from_s, first_s), outage(from_s + 1.0, second_s))
        }),
    ]
}

/// Any scheduler, by its name.
pub fn scheduler() -> impl Strategy<Value = &'static str> {
    sample::select(Scheduler::ALL).prop_map(|scheduler| scheduler.name())
}

fn tcp() -> impl Strategy<Value = String> {
    let buffer = prop_oneof![1u32..10, 10u32..200, Just(100_000)];
    let ssthresh = prop_oneof![Just("inf"), Just("8")];
    (
        100u32..=1500,
        1u32..=10,
        ssthresh,
        1u32..=2,
        any::<bool>(),
        sample::select(vec!["sack", "newreno", "rack"]),
        buffer,
        scheduler(),
        (
            sample::select(vec!["rfc", "linux"]),
            any::<bool>(),
            any::<bool>(),
            sample::select(vec![0, 100, 5000]),
            sample::select(vec!["false", "true", "\"accurate\""]),
        ),
    )
        .prop_map(
            |(bytes, initial, ssthresh, smallest, delayed, recovery, buffer, scheduler, more)| {
                let (profile, undo, quick, jitter, ecn) = more;
                format!(
                    "profile = \"{profile}\"\necn = {ecn}\nundo = {undo}\nquick_acks = {quick}\n\
                 host_jitter_us = {jitter}\npacket_bytes = {bytes}\ninitial_window_packets = {initial}\n\
                 initial_ssthresh_packets = {ssthresh}\nmin_ssthresh_packets = {smallest}\n\
                 delayed_acks = {delayed}\nrecovery = \"{recovery}\"\n\
                 receive_buffer_packets = {buffer}\nscheduler = \"{scheduler}\""
                )
            },
        )
}

fn flow(
    links: usize,
    stop_s: Option<f64>,
    workload: BoxedStrategy<String>,
    over_links: bool,
) -> impl Strategy<Value = String> {
    let names: Vec<String> = (0..links).map(|i| format!("L{i}")).collect();
    let path = (
        sample::subsequence(names.clone(), 1..=links.min(2)).prop_shuffle(),
        option::of(0.0..100.0),
    );
    let path = path.prop_map(
        move |(links, back_ms): (Vec<String>, Option<f64>)| match back_ms {
            Some(ms) if over_links => {
                let back = format!("L{}", ms as usize % names.len());
                format!("{{ links = {links:?}, back = [{back:?}] }}")
            }
            Some(ms) => format!("{{ links = {links:?}, return_delay_ms = {ms} }}"),
            None => format!("{links:?}"),
        },
    );
    let algorithms: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
    let users = (1u32..=2, 0.0..1.0, 0.0..1.0);
    (
        users,
        collection::vec(path, 1..=3),
        sample::select(algorithms),
        workload,
    )
        .prop_map(
            move |((count, start_s, spread_s), paths, algorithm, workload)| {
                let stop = stop_s.map_or(String::new(), |stop_s| format!("stop_s = {stop_s}"));
                format!(
                    "count = {count}\nstart_s = {start_s}\nstart_spread_s = {spread_s}\n{stop}\n\
                 paths = [{}]\nalgorithm = \"{algorithm}\"\n{workload}",
                    paths.join(", ")
                )
            },
        )
}

fn workload() -> impl Strategy<Value = String> {
    let size = prop_oneof![
        (100.0..30e3).prop_map(|mean| format!("exponential = {{ mean_bytes = {mean} }}")),
        (100.0..10e3).prop_map(|mean| format!("pareto = {{ mean_bytes = {mean}, shape = 1.8 }}")),
    ];
    prop_oneof![
        Just(String::from("workload = \"bulk\"")),
        prop_oneof![1u64..5000, 5000u64..300_000]
            .prop_map(|bytes| format!("workload.file = {{ bytes = {bytes} }}")),
        (0.05..1.0, 0.05..1.0)
            .prop_map(|(on, off)| format!("workload.on_off = {{ on_s = {on}, off_s = {off} }}")),
        (0.5..5.0, size).prop_map(|(rate, size)| format!(
            "workload.poisson = {{ rate_per_s = {rate}, size.{size} }}"
        )),
        // Little in all: one connection carries it, perhaps with a window of one short packet.
        (1u32..4, 0.5..2.0, 100.0..2000.0).prop_map(|(clients, rate, mean)| format!(
            "workload.gateway = {{ clients = {clients}, rate_per_s = {rate}, \
             size.exponential = {{ mean_bytes = {mean} }} }}"
        )),
        (1u64..3000, 40u32..500).prop_map(|(bytes, ms)| format!(
            "workload.messages = {{ size_bytes = {bytes}, interval_ms = {ms} }}"
        )),
    ]
}
