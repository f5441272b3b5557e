//! When users start where a flow does not say over how many seconds.

use anabranch_scenario::Scenario;

fn spread_s(links: &str, flow: &str) -> f64 {
    let text = format!(
        "algorithm = 'reno'\nmeasure.duration_s = 60\n{links}\n[[flows]]\nname = 'user'\n{flow}\n"
    );
    let scenario = Scenario::parse(text.as_bytes(), "starts", &[]).expect("valid");
    scenario.flows[0].start_spread_s.get()
}

/// A packet of 1500 bytes takes 1 ms on each link, and travels 20 and 30 ms.
const TWO: &str = "links.A = { rate_mbps = 12, delay_ms = 20 }\n\
                   links.B = { rate_mbps = 12, delay_ms = 30 }";

fn assert_spread(flow: &str, expected_s: f64) {
    let found_s = spread_s(TWO, flow);
    assert!(
        (found_s - expected_s).abs() < 1e-12,
        "{flow}: {found_s} s, expected {expected_s} s"
    );
}

#[test]
fn users_start_within_four_round_trips_of_the_first_path() {
    // There 21 ms and back 20 ms.
    assert_spread("paths = [['A']]", 4.0 * 0.041);
    assert_spread("paths = [['A'], ['B']]", 4.0 * 0.041);
    // 21 + 31 ms, and 50 ms.
    assert_spread("paths = [['A', 'B']]", 4.0 * 0.102);
    let path = "paths = [{ links = ['A'], return_delay_ms = 5 }]";
    assert_spread(path, 4.0 * 0.026);
    let path = "paths = [{ links = ['A'], back = ['B'] }]";
    assert_spread(path, 4.0 * 0.051);
}

#[test]
fn users_start_in_the_first_tenth_of_their_flow() {
    // From 59 s to the end at 60 s, and from 0 to 0.5 s.
    assert_spread("paths = [['A']]\nstart_s = 59", 0.1);
    assert_spread("paths = [['A']]\nstop_s = 0.5", 0.05);
    assert_spread("paths = [['A']]\nstart_s = 90", 0.0);
}

#[test]
fn what_is_written_counts_and_random_arrivals_need_no_spread() {
    assert_spread("paths = [['A']]\nstart_spread_s = 0", 0.0);
    assert_spread("paths = [['A']]\nstart_spread_s = 7", 7.0);
    let size = "rate_per_s = 2, size.exponential.mean_bytes = 30000";
    assert_spread(
        &format!("paths = [['A']]\nworkload.poisson = {{ {size} }}"),
        0.0,
    );
    assert_spread(
        &format!("paths = [['A']]\nworkload.gateway = {{ clients = 2, {size} }}"),
        0.0,
    );
}

#[test]
fn a_link_without_delay_has_a_spread_too() {
    // There 1 ms, and back at once.
    let link = "links.A = { rate_mbps = 12, delay_ms = 0 }";
    assert_eq!(spread_s(link, "paths = [['A']]"), 4.0 * 0.001);
}
