//! Hosts that are not clocks: users at one drop-tail queue meet the same loss per packet.
//!
//! Between clocks that send a packet per ACK a full queue has room for each packet that replaces
//! one, and for none that a window's growth adds: losses per packet are proportional to growth
//! (compare phase effects, Floyd and Jacobson 1992). Jitter of one packet time of the bottleneck
//! mixes a packet with its neighbours only. With ten users it takes several: without jitter, and
//! with jitter of 1, 2, 5 and 10 packet times, single-path users beside LIA at 100 Mbps lose 3.9,
//! 3.9, 3.1, 1.2 and 1.0 times as many of their packets.

use anabranch_control::RULES;

use crate::common::run;

/// Packet times of the bottleneck by which hosts delay packets at most.
const PACKET_TIMES: f64 = 10.0;

/// Five or ten two-path users on two links, and as many users of Reno on the second.
fn two_links(rule: &str, users: u32, mbps: f64, packet_times: f64, seconds: [f64; 2]) -> String {
    let [warmup_s, duration_s] = seconds;
    let rtt_s = if users == 5 { 0.08 } else { 0.15 };
    let packets = (mbps * rtt_s / 12e-3).round();
    let jitter_us = packet_times * 12e3 / mbps;
    let link = format!(
        "{{ rate_mbps = {mbps}, delay_ms = {}, queue.drop_tail.packets = {packets} }}",
        500.0 * rtt_s
    );
    format!(
        r#"
        measure = {{ warmup_s = {warmup_s}, duration_s = {duration_s}, sample_ms = 1e6 }}
        tcp = {{ min_ssthresh_packets = 2, host_jitter_us = {jitter_us}, join_handshake = false }}
        links = {{ A = {link}, B = {link} }}
        [[flows]]
        name = "two paths"
        count = {users}
        algorithm = "{rule}"
        paths = [["A"], ["B"]]
        start_spread_s = 1
        [[flows]]
        name = "one path"
        count = {users}
        algorithm = "reno"
        paths = [["B"]]
        start_spread_s = 1
        "#
    )
}

/// Losses per packet on the shared link: the ratio of the users with one path to the others.
fn losses_of_one_path(rule: &str, packet_times: f64) -> f64 {
    let text = two_links(rule, 5, 20.0, packet_times, [20.0, 620.0]);
    let (mut lost, mut sent) = ([0, 0], [0, 0]);
    for seed in 1..=4 {
        let paths = run(&text, seed).paths;
        for row in 0..paths.len() {
            let flow = paths.flow[row] as usize;
            if flow == 1 || paths.path[row] == 1 {
                lost[flow] += paths.lost_overflow[row];
                sent[flow] += paths.sent_packets[row];
            }
        }
    }
    let [two, one] = [0, 1].map(|flow| lost[flow] as f64 / sent[flow] as f64);
    println!(
        "{rule}, {packet_times} packet times: {:.3}, {lost:?} losses",
        one / two
    );
    one / two
}

fn check_same_share(rule: &str) {
    let ratio = losses_of_one_path(rule, PACKET_TIMES);
    assert!((0.8..1.2).contains(&ratio), "{rule}: {ratio}");
}

#[test]
fn with_jitter_users_at_one_queue_lose_the_same_share_of_their_packets_beside_lia() {
    check_same_share("lia");
}

/// The rules that have an equilibrium by loss: the others do not respond to each loss.
#[test]
#[ignore = "slow: make test-all"]
fn with_jitter_users_at_one_queue_lose_the_same_share_of_their_packets_beside_every_rule() {
    for rule in RULES.iter().filter(|rule| rule.equilibrium_by_loss) {
        check_same_share(rule.name);
    }
}

#[test]
fn without_jitter_users_with_one_path_lose_more_of_their_packets() {
    let clockwork = losses_of_one_path("lia", 0.0);
    assert!(clockwork > 2.0, "{clockwork}");
}

/// Ten users each, 100 Mbps, an RTT of 150 ms. Equilibrium: 68 Mbps for the users with one path.
#[test]
fn with_jitter_users_with_one_path_get_their_equilibrium_beside_lia() {
    let mbps = |packet_times| {
        let record = run(&two_links("lia", 10, 100.0, packet_times, [50.0, 400.0]), 1);
        let rates = record.flows.goodput_mbps.iter().zip(&record.flows.flow);
        let sum: f64 = rates.filter(|row| *row.1 == 1).map(|row| row.0).sum();
        println!("{packet_times} packet times: {sum:.1} Mbps");
        sum
    };
    assert!(mbps(0.0) < 50.0);
    assert!((65.0..71.0).contains(&mbps(PACKET_TIMES)));
}
