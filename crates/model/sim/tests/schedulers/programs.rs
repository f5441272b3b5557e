//! Linux hosts with the programs of `anabranch-kernel` (`tcp.kernel_programs`), on links for which
//! what they do is derived by hand.

use anabranch_control::RULES;
use anabranch_scenario::Record;

use crate::common::{PAYLOAD, bits, run};

/// 83 packets in 20 ms, and a queue of 100.
const FAST: &str = "rate_mbps = 50, delay_ms = 10, queue.drop_tail = { packets = 100 }";
/// A fragment of 22 packets takes 22 * 12 000 bits at 0.1 Mbps, 2.64 s, in which the fast path
/// sends 16 MB: four times what the connection's buffers hold.
const SLOW: &str = "rate_mbps = 0.1, delay_ms = 150, queue.drop_tail = { packets = 10 }";

/// A user with a path over each link, for 20 s.
fn user(links: &[&str], rule: &str, tcp: &str) -> Record {
    let tables = (0..)
        .zip(links)
        .map(|(i, link)| format!("links.L{i} = {{ {link} }}\n"));
    let paths: Vec<String> = (0..links.len()).map(|i| format!("['L{i}']")).collect();
    let text = format!(
        "algorithm = '{rule}'\nmeasure.duration_s = 20\ntcp = {{ {tcp} }}\n{}\
         flows = [{{ name = 'user', paths = [{}], start_spread_s = 0 }}]\n",
        tables.collect::<String>(),
        paths.join(", "),
    );
    run(&text, 1)
}

const LINUX: &str = "profile = 'linux'";
const WITHOUT: &str = "profile = 'linux', kernel_programs = false";

fn programs() -> impl Iterator<Item = &'static str> {
    let with = RULES.iter().filter(|info| info.has_program);
    with.map(|info| info.name)
}

/// The fast path has in 20 s what it has alone; without the programs it waits for each fragment.
/// `vegas` does not fill the fast path alone, so each rule is compared with itself.
#[test]
fn a_late_path_costs_no_rule_more_than_its_twentieth() {
    for rule in programs() {
        let alone = user(&[FAST], rule, LINUX).flows.goodput_mbps[0];
        let both = user(&[FAST, SLOW], rule, LINUX).flows.goodput_mbps[0];
        let without = user(&[FAST, SLOW], rule, WITHOUT).flows.goodput_mbps[0];
        println!("{rule}: {alone:.2} alone, {both:.2} beside a late path, {without:.2} without");
        assert!(both > 0.95 * alone, "{rule}");
        assert!(without < both, "{rule}");
    }
}

/// Nothing is lost on the fast path with a queue for all, so no timer sends data again over the
/// held one: it carries probes alone, one per second and round trip from 20 + 300 ms on, of 20 s.
#[test]
fn a_path_that_is_late_from_its_start_carries_probes_alone() {
    let fast = "rate_mbps = 50, delay_ms = 10";
    let record = user(&[fast, SLOW], "lia", LINUX);
    assert_eq!(record.paths.delivered_bytes[1], 0);
    let probes = record.paths.sent_packets[1];
    assert_eq!(record.paths.retransmitted_packets[1], probes);
    assert_eq!(probes, ((20.0 - 0.32) / 1.3_f64) as u64);
    let without = user(&[fast, SLOW], "lia", WITHOUT);
    assert!(without.paths.delivered_bytes[1] > 22 * PAYLOAD);
}

/// The fast path is down from 5 s on. Its window grows from 80 by one per round trip, at most to
/// sqrt(80^2 + 2 * 4167 * 5) = 220 packets then, so that nothing is lost before, and its RTT is at
/// most 53 ms. Its two timeouts, 200 ms and a round trip and twice that, are over after 0.8 s; the
/// held path is probed within a second, and answers 300 ms later: it has data within 2 s and a
/// round trip, and sends it until the end.
#[test]
fn a_held_path_takes_over_within_two_seconds_when_the_fast_one_dies() {
    let dies = "rate_mbps = 50, delay_ms = 10, queue.drop_tail = { packets = 1000 },
                down = [{ from_s = 5, to_s = 100 }]";
    let slow = "rate_mbps = 1, delay_ms = 150, queue.drop_tail = { packets = 50 }";
    let tcp = format!("{LINUX}, initial_ssthresh_packets = 80");
    for rule in programs() {
        let record = user(&[dies, slow], rule, &tcp);
        let samples = &record.path_samples;
        let rows = (0..samples.time_s.len()).filter(|&row| samples.path[row] == 1);
        let busy = rows.filter(|&row| samples.in_flight_packets[row] > 0);
        let times: Vec<f64> = busy.map(|row| samples.time_s[row]).collect();
        let (first, last) = (times.first().copied(), times.last().copied());
        println!("{rule}: from {first:?} to {last:?} s");
        assert!(
            first.is_some_and(|time| time > 5.0 && time <= 7.3),
            "{rule}: {first:?}"
        );
        assert!(last.is_some_and(|time| time > 19.0), "{rule}: {last:?}");
    }
}

/// The programs are those of rules that have one, on Linux' scheduler, over several paths.
#[test]
fn nothing_else_changes() {
    let both = &[FAST, SLOW][..];
    let same = |links: &[&str], rule: &str, tcp: &str| {
        let [on, off] = ["true", "false"].map(|value| {
            let tcp = format!("{tcp}, kernel_programs = {value}");
            bits(user(links, rule, &tcp))
        });
        on == off
    };
    for rule in ["reno", "cubic", "bbr", "olia-printed"] {
        assert!(same(both, rule, LINUX), "{rule}");
    }
    assert!(same(&[FAST], "wvegas", LINUX), "one path");
    assert!(same(both, "lia", "profile = 'rfc'"), "min-rtt");
    assert!(!same(both, "lia", LINUX), "lia");
    assert_eq!(
        bits(user(both, "lia", LINUX)),
        bits(user(
            both,
            "lia",
            "profile = 'linux', kernel_programs = true"
        )),
        "the default"
    );
}
