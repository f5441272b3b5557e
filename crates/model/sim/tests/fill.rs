//! Alone on clean paths, every rule fills them; and BBR alone where Linux' behaviour is known.
//!
//! Queues are drop-tail, of one bandwidth-delay product and at least 20 packets, so even halving a
//! window at a full queue leaves the link busy. Of the fastest and longest paths only one or the
//! other is here: at 1000 Mbps and 300 ms a delay-based rule, which adds one packet per round trip,
//! needs two hours to the first of 25 000.

use anabranch_control::RULES;
use anabranch_scenario::{Record, Scenario, Virtual};
use anabranch_sim::Simulation;

use crate::common::run;

/// Rate (Mbps) and RTT (ms) of each path.
type Paths = &'static [(f64, f64)];

/// The paths, and when the run is over, s. wVegas takes longest to its steady state: it leaves slow
/// start with about 2 sqrt(b) of b packets in flight and adds one packet per RTT, so at 1000 Mbps
/// and 5 ms (b = 417) it needs 1.9 s. The last quarter of the run is measured.
const CASES: [(Paths, f64); 6] = [
    (&[(1.0, 5.0)], 40.0),
    (&[(1.0, 300.0)], 400.0),
    (&[(20.0, 60.0)], 80.0),
    (&[(1000.0, 5.0)], 4.0),
    (&[(20.0, 20.0), (20.0, 60.0)], 120.0),
    (&[(10.0, 50.0), (35.0, 50.0)], 120.0),
];

/// The share of the paths' capacity that one connection uses.
fn used(algorithm: &str, paths: Paths, duration_s: f64) -> f64 {
    let (mut links, mut names) = (String::new(), Vec::new());
    for (i, (mbps, rtt_ms)) in paths.iter().enumerate() {
        let packets = (mbps * 1e3 * rtt_ms / 12_000.0).ceil().max(20.0); // of 1500 bytes
        links += &format!(
            "links.L{i} = {{ rate_mbps = {mbps}, delay_ms = {}, \
             queue.drop_tail = {{ packets = {packets} }} }}\n",
            rtt_ms / 2.0
        );
        names.push(format!("[\"L{i}\"]"));
    }
    let text = format!(
        "algorithm = \"{algorithm}\"\n\
         measure = {{ duration_s = {duration_s}, warmup_s = {}, sample_ms = 1e6 }}\n\
         {links}\
         [[flows]]\nname = \"flow\"\npaths = [{}]\n",
        0.75 * duration_s,
        names.join(", ")
    );
    let scenario: Scenario = crate::common::scenario(&text);
    let record = Simulation::new(&scenario, 1).finish();
    let busy = paths.iter().zip(&record.links.utilization);
    let capacity: f64 = paths.iter().map(|(mbps, _)| mbps).sum();
    busy.map(|((mbps, _), used)| mbps * used).sum::<f64>() / capacity
}

#[test]
fn every_rule_fills_clean_paths_unless_it_says_why_not() {
    for info in RULES {
        let shares = CASES.map(|(paths, duration_s)| used(info.name, paths, duration_s));
        println!("{:14} {shares:.3?}", info.name);
        let fills = shares.iter().all(|&share| share >= 0.95);
        assert_eq!(
            fills,
            info.leaves_capacity.is_none(),
            "{}: {shares:.3?} of the capacity; LEAVES_CAPACITY: {:?}",
            info.name,
            info.leaves_capacity
        );
    }
}

/// As printed, wVegas backs off when its second packet is queued: alone it goes from half a window,
/// b/2, to b + 2 and never queues its alpha of 10. The mean is at most three quarters.
#[test]
fn wvegas_as_printed_leaves_a_quarter_and_more() {
    let shares = CASES.map(|(paths, duration_s)| used("wvegas:drain=0", paths, duration_s));
    assert!(shares[1..].iter().all(|&share| share < 0.8), "{shares:.3?}");
}

/// A user of BBR alone over a link, with Linux' endpoint.
fn bbr_alone(link: &str, duration_s: f64, jitter_us: f64) -> Record {
    let text = format!(
        r#"
        algorithm = "bbr"
        measure = {{ duration_s = {duration_s}, warmup_s = 15, sample_ms = 50 }}
        tcp = {{ profile = "linux", host_jitter_us = {jitter_us} }}
        links.L = {{ {link} }}
        [[flows]]
        name = "user"
        paths = [["L"]]
        "#
    );
    run(&text, 1)
}

/// A path that loses 15 % at random: at a gain of 1.25 x 0.99 a sample is 1.05 times the rate
/// before, so that the model keeps the link's rate unless the window or the detection of policers
/// prevents it. Linux 6.18 delivers 5.6 of 10 Mbps; an endpoint that conserves packets anew after
/// each of the recoveries that follow one another delivers 2.5.
#[test]
fn bbr_holds_half_of_a_link_that_loses_15_percent() {
    let link = "rate_mbps = 10, delay_ms = 50, loss.bernoulli = { probability = 0.15 }";
    let goodput = bbr_alone(link, 95.0, 100.0).flows.goodput_mbps[0];
    println!("{goodput} Mbps");
    assert!((4.5..7.0).contains(&goodput), "{goodput} Mbps");
}

/// Alone, without jitter: RTTs equal the smallest one again and again, and do not postpone
/// ProbeRTT, in which the window is 4 packets for 200 ms, every 10 s (Linux since 5.10).
#[test]
fn bbr_probes_the_rtt_every_ten_seconds_although_it_measures_the_smallest_again() {
    let link = "rate_mbps = 50, delay_ms = 20, queue.drop_tail = { packets = 200 }";
    let samples = bbr_alone(link, 46.0, 0.0).path_samples;
    let small = |i: &usize| samples.window_packets[*i] <= 4.0 && samples.time_s[*i] > 5.0;
    let probing = (0..samples.len()).filter(small);
    let times: Vec<f64> = probing.map(|i| samples.time_s[i]).collect();
    let begins = times.iter().enumerate();
    let begins = begins.filter(|&(i, time)| i == 0 || time - times[i - 1] > 1.0);
    assert_eq!(begins.count(), 4, "{times:?}");
}
