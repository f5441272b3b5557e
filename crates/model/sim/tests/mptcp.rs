//! One connection over several paths: one data sequence, one receive buffer, one scheduler.

use crate::common::{PAYLOAD, run};
use anabranch_scenario::Record;

/// A user with a path over each of two links, and what else the scenario says.
fn two_paths(links: [&str; 2], duration: &str, tcp: &str, user: &str) -> Record {
    let [a, b] = links;
    let text = format!(
        r#"
        algorithm = "lia"
        measure = {{ {duration} }}
        tcp = {{ {tcp} }}
        links.A = {{ {a} }}
        links.B = {{ {b} }}
        [[flows]]
        name = "user"
        paths = [["A"], ["B"]]
        {user}
        "#
    );
    run(&text, 1)
}

/// The goodput of the only user, Mbps.
fn goodput(record: &Record) -> f64 {
    record.flows.goodput_mbps[0]
}

/// The goodput of a link that is never idle, Mbps.
fn full(rate_mbps: f64) -> f64 {
    rate_mbps * PAYLOAD as f64 / 1500.0
}

const QUICK: &str = "rate_mbps = 40, delay_ms = 5";
const SLOW: &str = "rate_mbps = 4, delay_ms = 150";

#[test]
fn two_paths_add_up() {
    let measure = "duration_s = 60, warmup_s = 20";
    let record = two_paths([QUICK, SLOW], measure, "", "");
    let share = goodput(&record) / full(44.0);
    assert!((0.97..=1.01).contains(&share), "{share} of both links");
}

#[test]
fn a_small_receive_buffer_waits_for_the_slow_path() {
    // The quick path holds 33 packets in flight and 20 in its queue. Of a buffer of 100 the rest
    // goes over the slow path, and all wait for it: 100 packets per 300 ms and more, of 3300 per
    // second.
    let quick = format!("{QUICK}, queue.drop_tail = {{ packets = 20 }}");
    let measure = "duration_s = 60, warmup_s = 20";
    let alone = |buffer: u32, slow: &str| {
        goodput(&two_paths(
            [&quick, slow],
            measure,
            &format!("receive_buffer_packets = {buffer}"),
            "",
        ))
    };
    let (small, large) = (alone(100, SLOW), alone(10_000, SLOW));
    println!("{small} {large}");
    assert!(small < 0.3 * full(40.0), "{small} Mbps");
    assert!(large > 0.9 * full(44.0), "{large} Mbps");
}

/// A packet takes 240 ms on the starved path, and up to 10 wait before it: 2.4 s, in which the
/// quick path sends 20 000. A buffer of 6 MB holds 2730 of them (2304 bytes each, as Linux
/// accounts), so the quick path stands most of the time, though less often where each packet waits
/// for its turn. 300 MB hold all that is sent meanwhile.
#[test]
fn linux_receive_buffer_waits_for_a_starved_path() {
    let links = [
        "rate_mbps = 100, delay_ms = 0.5",
        "rate_mbps = 0.05, delay_ms = 100, queue.drop_tail = { packets = 10 }",
    ];
    let with = |scheduler: &str, more: &str| {
        let tcp = format!("profile = \"linux\", scheduler = \"{scheduler}\"{more}");
        goodput(&two_paths(
            links,
            "duration_s = 60, warmup_s = 10",
            &tcp,
            "",
        )) / full(100.0)
    };
    for scheduler in ["min-rtt", "linux"] {
        let share = with(scheduler, ", kernel_programs = false");
        println!("{scheduler} {share}");
        assert!(share < 0.5, "{scheduler}: {share} of the quick path");
    }
    let share = with("min-rtt", ", rmem_max_bytes = 300e6");
    assert!(share > 0.9, "{share} of the quick path with 300 MB");
}

/// 12 Mbps and 10 ms: 1 packet per ms, and 20 in flight. With windows that start to grow slowly at
/// 50 the queue, of 100, does not overflow in the first second.
const LINK: &str = "rate_mbps = 12, delay_ms = 10";
/// The timeout is Linux': 200 ms more than the smoothed RTT.
const CALM: &str = "initial_ssthresh_packets = 50, min_rto_ms = 200, rto_floor = \"variance\"";

/// A file of `packets`, as a user's workload.
fn file(packets: u64) -> String {
    format!("workload.file = {{ bytes = {} }}", packets * PAYLOAD)
}

#[test]
fn a_file_whose_path_goes_down_finishes_over_the_other() {
    // Each path carries 1000 packets per second until 1 s, when A goes down for good: 2000 are left
    // for B, and less than 100 of those sent so far. When A's timer runs out, after 0.2 to 0.3 s,
    // what was outstanding there goes over B too. So it takes 2 s of B, and hardly more.
    let down = format!("{LINK}, down = [{{ from_s = 1, to_s = 100 }}]");
    for recovery in ["sack", "newreno"] {
        for scheduler in ["min-rtt", "round-robin", "blest", "ecf"] {
            let tcp = format!("{CALM}, recovery = \"{recovery}\", scheduler = \"{scheduler}\"");
            let record = two_paths([&down, LINK], "duration_s = 50", &tcp, &file(4000));
            assert_eq!(record.transfers.len(), 1, "with {tcp}");
            let duration_s = record.transfers.duration_s[0];
            println!("{duration_s} s with {tcp}");
            assert!(
                (3.0..3.2).contains(&duration_s),
                "{duration_s} s with {tcp}"
            );
            assert_eq!(record.flows.delivered_bytes, [4000 * PAYLOAD]);
        }
    }
}

#[test]
fn what_arrives_over_both_paths_counts_once() {
    // A is down until shortly after 1 s; its timer runs out after that, so that what is reinjected
    // over B is also sent again over A.
    let outage = format!("{LINK}, down = [{{ from_s = 1, to_s = 1.1 }}]");
    let record = two_paths([&outage, LINK], "duration_s = 50", CALM, &file(3000));
    let arrived = record.flows.sent_packets[0] - record.flows.lost_packets[0];
    assert!(arrived > 3000, "{arrived}: nothing arrives twice");
    assert_eq!(record.flows.delivered_bytes, [3000 * PAYLOAD]);
    assert_eq!(
        record.paths.delivered_bytes.iter().sum::<u64>(),
        3000 * PAYLOAD
    );
}

#[test]
fn what_is_reinjected_goes_over_a_path_once() {
    // A has some 400 packets in flight when it goes down for good. B takes seconds for them, and
    // meanwhile A times out again and again.
    let quick = "rate_mbps = 40, delay_ms = 50, down = [{ from_s = 2, to_s = 200 }]";
    let slow = "rate_mbps = 1.2, delay_ms = 10, queue.drop_tail = { packets = 1000 }";
    let tcp = "initial_ssthresh_packets = 400";
    let record = two_paths([quick, slow], "duration_s = 100", tcp, &file(8000));
    println!("{:?} {:?}", record.transfers, record.paths);
    assert_eq!(record.transfers.len(), 1);
    assert!(record.paths.timeouts[0] > 3);
    // All that B delivers is new: the sender knows what arrived over A.
    let arrived = record.paths.sent_packets[1] - record.paths.lost_overflow[1];
    assert_eq!(record.paths.delivered_bytes[1], arrived * PAYLOAD);
}

#[test]
fn a_path_that_recovers_does_not_hold_up_what_the_other_lost() {
    // A is down for good from 0.7 s; its last acknowledgement comes at 1 s and its timer runs out
    // at 1.3 s. B is down for a moment at 1 s; its timer runs out at about 1.25 s. So its data is
    // first among what is to be reinjected, over A, which takes nothing any more. What A lost comes
    // next.
    let dead = "rate_mbps = 12, delay_ms = 150, down = [{ from_s = 0.7, to_s = 100 }]";
    let back = format!("{LINK}, down = [{{ from_s = 1, to_s = 1.1 }}]");
    for links in [[dead, &back], [&back, dead]] {
        let tcp = format!("{CALM}, join_handshake = false");
        let record = two_paths(links, "duration_s = 50", &tcp, &file(3000));
        assert_eq!(record.transfers.len(), 1);
        // At most 3 s of B, and the outage.
        let duration_s = record.transfers.duration_s[0];
        assert!((2.0..3.5).contains(&duration_s), "{duration_s} s");
    }
}

#[test]
fn a_path_that_comes_up_again_is_used_again() {
    // Down from 2 to 4 s: timeouts at about 2.25, 2.7, 3.6 and 5.4 s, the last of which gets
    // through.
    let outage = format!("{LINK}, down = [{{ from_s = 2, to_s = 4 }}]");
    let record = two_paths([&outage, LINK], "duration_s = 30, warmup_s = 10", CALM, "");
    let share = record.paths.goodput_mbps[0] / full(12.0);
    assert!((0.9..=1.01).contains(&share), "{share}");
}

/// Packets sent over each path by a user whose receive buffer, of 20 packets, is all that holds it
/// back once its windows have grown. The first path has a round trip of 200 ms, the second of 10.
fn sent(scheduler: &str) -> [u64; 2] {
    let links = [
        "rate_mbps = 1000, delay_ms = 100",
        "rate_mbps = 1000, delay_ms = 5",
    ];
    let tcp = format!("receive_buffer_packets = 20, scheduler = \"{scheduler}\"");
    let record = two_paths(links, "duration_s = 20, warmup_s = 10", &tcp, "");
    println!("{:?}", record.paths);
    record.paths.sent_packets.try_into().expect("two paths")
}

#[test]
fn min_rtt_takes_the_shorter_path_while_it_has_room() {
    // 20 packets per 10 ms, for 10 s, less those whose windows straddle the ends.
    let [long, short] = sent("min-rtt");
    assert_eq!(long, 0);
    assert!((19_900..=20_000).contains(&short), "{short}");
}

#[test]
fn round_robin_takes_the_paths_in_turn() {
    let [long, short] = sent("round-robin");
    assert!(long.abs_diff(short) <= 1, "{long} and {short}");
    assert!(long > 400, "{long}");
}

#[test]
fn a_short_file_takes_one_path_or_the_paths_in_turn() {
    // 10 packets are one initial window.
    let at_once = "join_handshake = false";
    let record = two_paths([LINK, LINK], "duration_s = 5", at_once, &file(10));
    assert_eq!(record.paths.sent_packets, [10, 0]);
    let record = two_paths(
        [LINK, LINK],
        "duration_s = 5",
        &format!("scheduler = \"round-robin\", {at_once}"),
        &file(10),
    );
    assert_eq!(record.paths.sent_packets, [5, 5]);
}

/// Linux' scheduler, with a first path that never carries anything.
fn assigned_to_a_dead_path(duration: &str) -> Record {
    let dead = format!("{LINK}, down = [{{ from_s = 0, to_s = 100 }}]");
    two_paths(
        [&dead, LINK],
        duration,
        "scheduler = \"linux\", min_rto_ms = 200, rto_floor = \"variance\", join_handshake = false",
        &file(66),
    )
}

#[test]
fn all_wait_for_the_data_that_linux_assigned_to_a_path() {
    // A path's first buffer has room for 10 packets twice, of 2304 bytes: 31 payloads. Two
    // fragments of 22 go there, because the first leaves room. The connection's buffer, 4096 bytes
    // more than its paths' together, has room for 66 payloads: 22 are left for the other path. The
    // first can send a window of its 44.
    let record = assigned_to_a_dead_path("duration_s = 0.2");
    assert_eq!(record.paths.sent_packets, [10, 22]);
    assert_eq!(record.flows.delivered_bytes, [0]);
}

#[test]
fn with_linux_scheduler_an_idle_path_sends_the_oldest_data_again() {
    // The dead path's timer, which is the connection's, runs out 200 ms and the handshake's 20 ms
    // after the start, and the other sends the first fragment again. All data is assigned, so that
    // the connection's timer starts with the same 220 ms at its last acknowledgement, and then the
    // other sends the second. It starts at 20 packets per round trip of 21 ms, or more: 22 take up
    // to 50 ms.
    let record = assigned_to_a_dead_path("duration_s = 10");
    assert_eq!(record.transfers.len(), 1);
    let duration_s = record.transfers.duration_s[0];
    println!("{duration_s} s");
    assert!((0.44..0.59).contains(&duration_s), "{duration_s} s");
    assert_eq!(record.paths.retransmitted_packets[1], 44);
}

/// Share of a bottleneck that users with two paths over it get beside as many with one path.
fn share_beside(other: &str, algorithm: &str) -> f64 {
    let text = format!(
        r#"
        measure = {{ duration_s = 200, warmup_s = 20 }}
        [links.L]
        rate_mbps = 10
        delay_ms = 40
        queue.red = {{}}
        [[flows]]
        name = "two paths"
        count = 5
        algorithm = "{algorithm}"
        paths = [["L"], ["L"]]
        start_spread_s = 1
        [[flows]]
        name = "one path"
        count = 5
        algorithm = "{other}"
        paths = [["L"]]
        start_spread_s = 1
        "#
    );
    let record = run(&text, 1);
    let goodput = |flow: u32| -> f64 {
        let rows = record.flows.flow.iter().zip(&record.flows.goodput_mbps);
        rows.filter(|(row, _)| **row == flow)
            .map(|(_, mbps)| mbps)
            .sum()
    };
    let share = goodput(0) / (goodput(0) + goodput(1));
    println!("{algorithm} beside {other}: {share:.3}");
    share
}

#[test]
fn coupled_paths_share_a_bottleneck_with_one_reno_and_uncoupled_ones_do_not() {
    for algorithm in ["lia", "olia", "balia"] {
        let share = share_beside("reno", algorithm);
        assert!((0.42..0.58).contains(&share), "{algorithm}: {share}");
    }
    let share = share_beside("reno", "reno");
    assert!((0.61..0.72).contains(&share), "reno: {share}");
}

/// At equal losses the two subflows have `C s_r s^3 = C/16` and together what one CUBIC has. They
/// do not lose at the same time, so that the larger share s is above a half.
#[test]
fn coupled_cubic_shares_a_bottleneck_with_one_cubic_and_cubic_does_not() {
    let share = share_beside("cubic", "coupled-cubic");
    assert!((0.45..0.58).contains(&share), "coupled-cubic: {share}");
    let share = share_beside("cubic", "cubic");
    assert!((0.61..0.72).contains(&share), "cubic: {share}");
}

/// RFC 6356's first goal: at least what the best path alone would give. One CUBIC beside one gets a
/// half of each link. The losses of the worse link, half as fast and so with more of them, hold its
/// window down, but it adds to what the better one gives.
#[test]
fn coupled_cubic_over_two_links_has_at_least_its_half_of_the_better_one() {
    let text = r#"
        measure = { duration_s = 200, warmup_s = 20 }
        links.fast = { rate_mbps = 20, delay_ms = 20, queue.red = {} }
        links.slow = { rate_mbps = 10, delay_ms = 20, queue.red = {} }
        [[flows]]
        name = "two paths"
        algorithm = "coupled-cubic"
        paths = [["fast"], ["slow"]]
        [[flows]]
        name = "fast"
        algorithm = "cubic"
        paths = [["fast"]]
        start_spread_s = 1
        [[flows]]
        name = "slow"
        algorithm = "cubic"
        paths = [["slow"]]
        start_spread_s = 1
        "#;
    let goodput = run(text, 1).flows.goodput_mbps;
    println!("{goodput:?}");
    assert!(goodput[0] > 0.95 * 10.0, "{goodput:?}");
}

#[test]
fn wvegas_keeps_queues_short() {
    // The default queues hold 100 ms: 83 packets. wVegas wants 10 packets per user in both queues
    // together: 10 in each for 2 users, and a step of one packet above for each.
    let links = [
        "rate_mbps = 10, delay_ms = 20",
        "rate_mbps = 10, delay_ms = 20",
    ];
    let queues = |algorithm: &str| -> Vec<f64> {
        let users = format!("count = 2\nstart_spread_s = 1\nalgorithm = \"{algorithm}\"");
        let record = two_paths(links, "duration_s = 60, warmup_s = 20", "", &users);
        println!(
            "{algorithm}: {:?} {:?}",
            record.links.queue_packets, record.links.utilization
        );
        assert!(
            record.links.utilization.iter().all(|&share| share > 0.9),
            "{algorithm}"
        );
        record.links.queue_packets
    };
    assert!(queues("wvegas").iter().all(|&packets| packets < 12.0));
    assert!(queues("lia").iter().all(|&packets| packets > 50.0));
}

/// The goodput of a user with this rule, Mbps, the mean of four runs from 30 to 100 s. Path A drops
/// everything from the 6th second on, and path B loses 1 %.
fn after_the_death_of_a_path(rule: &str, tcp: &str, paths: &str) -> f64 {
    let text = format!(
        r#"
        algorithm = "{rule}"
        measure = {{ duration_s = 100, warmup_s = 30 }}
        tcp = {{ {tcp} }}
        links.A = {{ rate_mbps = 20, delay_ms = 10, down = [{{ from_s = 6, to_s = 200 }}] }}
        links.B = {{ rate_mbps = 20, delay_ms = 30, loss.bernoulli = {{ probability = 0.01 }} }}
        flows = [{{ name = "user", paths = [{paths}] }}]
        "#
    );
    (1..=4).map(|seed| goodput(&run(&text, seed))).sum::<f64>() / 4.0
}

const BOTH: &str = "['A'], ['B']";

/// NewReno's rate at 1 % is sqrt(1.5/0.01) = 12.2 windows of a packet per 60.6 ms, 2.34 Mbps of
/// payload; timeouts take 5 % of that. A rule that does not count the silent path has as much with
/// both paths as with path B alone. Where it was counted, OLIA had 9 % and LIA 93 %.
#[test]
fn a_path_beside_a_dead_one_has_what_the_rule_has_alone() {
    for rule in ["lia", "olia", "balia", "coupled", "coupled-cubic", "wvegas"] {
        let alone = after_the_death_of_a_path(rule, "", "['B']");
        assert!(alone < 4.7, "{rule}: {alone} Mbps: twice NewReno's at most");
        let ratio = after_the_death_of_a_path(rule, "", BOTH) / alone;
        assert!((0.97..1.03).contains(&ratio), "{rule}: {ratio} of alone");
    }
}

/// On Linux the scheduler still assigns data to the dead path, whichever the rule: NewReno, which
/// couples nothing, has 95 % of what it has alone. OLIA had 2 % where the dead path was counted.
#[test]
fn a_path_beside_a_dead_one_has_on_linux_what_reno_has() {
    let linux = "profile = 'linux'";
    let reno = after_the_death_of_a_path("reno", linux, BOTH);
    for rule in ["lia", "olia", "balia"] {
        let ratio = after_the_death_of_a_path(rule, linux, BOTH) / reno;
        assert!(ratio > 0.9, "{rule}: {ratio} of Reno's");
    }
}
