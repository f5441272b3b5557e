//! BBR over links for which Linux' behaviour is known.

use crate::common::run;
use anabranch_scenario::Record;

/// A user of `algorithm` over a link, with Linux' endpoint.
fn alone(algorithm: &str, link: &str, duration_s: f64, jitter_us: f64) -> Record {
    let text = format!(
        r#"
        algorithm = "{algorithm}"
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
/// prevents it. Linux 6.18 delivers 5.6 of 10 Mbps; one that conserves packets anew after each of
/// the recoveries that follow one another delivers 2.5.
#[test]
fn bbr_holds_more_than_half_of_a_link_that_loses_15_percent() {
    let link = "rate_mbps = 10, delay_ms = 50, loss.bernoulli = { probability = 0.15 }";
    let goodput = alone("bbr", link, 95.0, 100.0).flows.goodput_mbps[0];
    println!("{goodput} Mbps");
    assert!((4.5..7.0).contains(&goodput), "{goodput} Mbps");
}

/// A path that loses 15 % at random: at a gain of 1.25 x 0.99 a sample is 1.05 times the rate
/// before, so that the model keeps the link's rate unless the window or the detection of policers
/// prevents it. Linux 6.18 delivers 5.6 of 10 Mbps; an endpoint that conserves packets anew after
/// each of the recoveries that follow one another delivers 2.5.
#[test]
fn bbr_holds_half_of_a_link_that_loses_15_percent() {
    let link = "rate_mbps = 10, delay_ms = 50, loss.bernoulli = { probability = 0.15 }";
    let goodput = alone("bbr", link, 95.0, 100.0).flows.goodput_mbps[0];
    println!("{goodput} Mbps");
    assert!((4.5..7.0).contains(&goodput), "{goodput} Mbps");
}

/// Alone, without jitter: RTTs equal the smallest one again and again, and do not postpone
/// ProbeRTT, in which the window is 4 packets for 200 ms, every 10 s (Linux since 5.10).
#[test]
fn bbr_probes_the_rtt_every_ten_seconds_although_it_measures_the_smallest_again() {
    let link = "rate_mbps = 50, delay_ms = 20, queue.drop_tail = { packets = 200 }";
    let samples = alone("bbr", link, 46.0, 0.0).path_samples;
    let small = |i: &usize| samples.window_packets[*i] <= 4.0 && samples.time_s[*i] > 5.0;
    let probing = (0..samples.len()).filter(small);
    let times: Vec<f64> = probing.map(|i| samples.time_s[i]).collect();
    let begins = times.iter().enumerate();
    let begins = begins.filter(|&(i, time)| i == 0 || time - times[i - 1] > 1.0);
    assert_eq!(begins.count(), 4, "{times:?}");
}
