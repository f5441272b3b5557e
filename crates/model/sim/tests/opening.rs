//! Paths that open after their user has begun.

use crate::common::{PAYLOAD, bits, run};
use anabranch_scenario::Record;

/// A user of two paths of 12 Mbps, which is 1 packet per ms, and 20 ms. Windows that start to grow
/// slowly at 50 do not overflow the queues, of 100, in the first second.
fn user(paths: &str, rest: &str) -> Record {
    let text = format!(
        r#"
        algorithm = "lia"
        measure = {{ duration_s = 30, sample_ms = 1000 }}
        tcp = {{ initial_ssthresh_packets = 50, min_ssthresh_packets = 2 }}
        links.A = {{ rate_mbps = 12, delay_ms = 10 }}
        links.B = {{ rate_mbps = 12, delay_ms = 10 }}
        [[flows]]
        name = "user"
        paths = [{paths}]
        {rest}
        "#
    );
    run(&text, 1)
}

#[test]
fn a_path_carries_nothing_until_it_opens_and_its_share_from_then_on() {
    let record = user(r#"["A"], { links = ["B"], start_s = 10.5 }"#, "");
    let samples = &record.path_samples;
    let of_b = (0..samples.len()).filter(|&i| samples.path[i] == 1);
    for i in of_b {
        let (time_s, share) = (
            samples.time_s[i],
            samples.goodput_mbps[i] / 12.0 * 1500.0 / 1448.0,
        );
        if time_s < 10.5 {
            assert_eq!(
                (share, samples.in_flight_packets[i]),
                (0.0, 0),
                "at {time_s} s"
            );
        } else if time_s > 12.0 {
            assert!((0.98..1.02).contains(&share), "{share} at {time_s} s");
        }
    }
    assert_eq!(record.paths.loss_events[1], 0);
}

/// With the same smallest ssthresh, the second path changes nothing but the tables' rows.
#[test]
fn no_rule_sees_a_path_before_it_opens() {
    for algorithm in ["lia", "ewtcp", "coupled", "olia", "wvegas"] {
        let rest = format!("algorithm = \"{algorithm}\"");
        let one = user(r#"["A"]"#, &rest);
        let two = user(r#"["A"], { links = ["B"], start_s = 100 }"#, &rest);
        assert_eq!(one.flows, two.flows, "{algorithm}");
        assert_eq!(one.flow_samples, two.flow_samples, "{algorithm}");
        assert_eq!(
            one.paths.window_packets[0], two.paths.window_packets[0],
            "{algorithm}"
        );
    }
}

#[test]
fn a_path_that_opens_before_its_user_begins_opens_with_it() {
    let start = "start_s = 5";
    let at_once = user(r#"["A"], ["B"]"#, start);
    let opened = user(r#"["A"], { links = ["B"], start_s = 3 }"#, start);
    assert_eq!(bits(at_once), bits(opened));
}

/// 1000 packets over A in the first second, then 2000 per s: 4000 take 2.5 s, and hardly more.
#[test]
fn a_file_under_way_takes_the_path_that_opens() {
    let file = format!("workload.file = {{ bytes = {} }}", 4000 * PAYLOAD);
    let record = user(r#"["A"], { links = ["B"], start_s = 1 }"#, &file);
    let duration_s = record.transfers.duration_s[0];
    assert!((2.5..2.7).contains(&duration_s), "{duration_s} s");
    assert_eq!(record.flows.delivered_bytes, [4000 * PAYLOAD]);
}

/// 10 files per s of 41 packets are less than half of A, so that hardly any is under way when B
/// opens.
#[test]
fn connections_opened_later_have_the_path_from_the_start() {
    let files = "workload.poisson = { rate_per_s = 10, size.exponential = { mean_bytes = 6e4 } }";
    let record = user(r#"["A"], { links = ["B"], start_s = 10 }"#, files);
    let samples = &record.path_samples;
    let over_b = |from_s: f64, to_s: f64| -> f64 {
        let rows = (0..samples.len()).filter(|&i| samples.path[i] == 1);
        rows.filter(|&i| (from_s..to_s).contains(&samples.time_s[i]))
            .map(|i| samples.goodput_mbps[i])
            .sum()
    };
    assert_eq!(over_b(0.0, 10.5), 0.0);
    assert!(over_b(10.5, 31.0) > 1.0);
}

/// B opens a round trip of A after the start and two of its own: 20 + 2 * 40 = 100 ms. The window
/// of A, which starts at 10, would take all 100 packets in 5 round trips. A file that is over
/// before that uses A alone; with `join_handshake = false` B carries a part of it.
#[test]
fn a_second_path_opens_after_the_handshakes_of_mp_join() {
    let packets_over_b = |packets: u64, join: bool| {
        let text = format!(
            r#"
            algorithm = "lia"
            measure = {{ duration_s = 5, sample_ms = 1000 }}
            tcp = {{ join_handshake = {join}, scheduler = "round-robin" }}
            links.A = {{ rate_mbps = 12, delay_ms = 10 }}
            links.B = {{ rate_mbps = 12, delay_ms = 20 }}
            [[flows]]
            name = "user"
            paths = [["A"], ["B"]]
            workload.file = {{ bytes = {} }}
            "#,
            packets * PAYLOAD
        );
        run(&text, 1).paths.sent_packets[1]
    };
    // 10 packets are sent at 0, 20 from 21 ms, 40 from 42 ms: 70 of them before 83 ms. B's first
    // window is 10, too.
    assert_eq!(packets_over_b(70, true), 0);
    assert!(packets_over_b(70, false) >= 10);
    // After 100 ms 80 packets are acknowledged over A, so that 170 are sent: 130 are left of 300. B
    // has its first window at once, and half of what A has from then on.
    let over_b = packets_over_b(300, true);
    assert!((10..65).contains(&over_b), "{over_b}");
}
