//! Queues that hold their delay, and ECN, with endpoints.

mod scalable;

use anabranch_scenario::Record;

use crate::common::run;

/// Flows `[name, number of users, workload]` over a link of 12 Mbps, where a packet takes 1 ms,
/// with this queue, and round trips of 40 ms without it.
fn over(queue: &str, tcp: &str, flows: &[[&str; 3]], duration_s: f64) -> Record {
    at_distance(20.0, queue, tcp, flows, duration_s)
}

/// The same with a propagation delay of `delay_ms` each way.
fn at_distance(
    delay_ms: f64,
    queue: &str,
    tcp: &str,
    flows: &[[&str; 3]],
    duration_s: f64,
) -> Record {
    let flows = flows.iter().map(|[name, count, workload]| {
        format!("[[flows]]\nname = '{name}'\ncount = {count}\npaths = [['L']]\n{workload}\n")
    });
    let text = format!(
        "algorithm = 'reno'\nmeasure = {{ duration_s = {duration_s}, warmup_s = 10, sample_ms = 50 }}\n\
         tcp = {{ {tcp} }}\nlinks.L = {{ rate_mbps = 12, delay_ms = {delay_ms}, {queue} }}\n{}",
        flows.collect::<String>()
    );
    run(&text, 1)
}

const BULK: [&str; 3] = ["bulk", "1", ""];

/// The median over the samples after the warm-up of the mean wait of a flow's packets, ms: the
/// one-way delay without propagation, `delay_ms`, and transmission.
fn median_wait_ms(record: &Record, flow: u32, delay_ms: f64) -> f64 {
    let samples = &record.path_samples;
    let mine = (0..samples.len()).filter(|&i| samples.flow[i] == flow && samples.time_s[i] > 10.0);
    let mut waits: Vec<f64> = mine
        .map(|i| samples.one_way_delay_ms[i] - delay_ms - 1.0)
        .filter(|wait| wait.is_finite())
        .collect();
    waits.sort_by(f64::total_cmp);
    waits[waits.len() / 2]
}

/// One long flow keeps a drop-tail queue of 200 packets between half full and full: above 90 ms.
///
/// CoDel with round trips of 11 ms: the queue grows by a packet, 1 ms, per round trip. It drops an
/// interval of 100 ms after the delay passed 5 ms, 6 round trips of 16 to 22 ms later, and one more
/// until the sender knows: at a delay of 12 ms, with a window of 11 + 12. Half of it is what the
/// path holds, so the delay falls to 0 and rises again. A round trip takes 11 + q ms, so the median
/// q has (11 q + q^2 / 2) = (11 * 12 + 12^2 / 2) / 2: 6.6 ms.
#[test]
fn codel_holds_its_target_with_a_long_flow() {
    let full = at_distance(5.0, "queue.drop_tail.packets = 200", "", &[BULK], 60.0);
    let full_ms = median_wait_ms(&full, 0, 5.0);
    assert!(full_ms > 90.0, "{full_ms} ms");
    let held = at_distance(5.0, "queue.codel = {}", "", &[BULK], 60.0);
    let wait_ms = median_wait_ms(&held, 0, 5.0);
    assert!((5.0..8.0).contains(&wait_ms), "{wait_ms} ms");
    let utilization = held.links.utilization[0];
    assert!(utilization > 0.95, "{utilization}");
    assert!(held.links.dropped_aqm[0] > 0);
    assert_eq!(held.links.dropped_overflow[0], 0);
}

/// Ten long flows keep PIE's queue busy: its delay is regulated to 15 ms.
#[test]
fn pie_holds_its_target_with_long_flows() {
    let held = over("queue.pie = {}", "", &[["bulk", "10", ""]], 100.0);
    let wait_ms = median_wait_ms(&held, 0, 20.0);
    assert!((12.0..18.0).contains(&wait_ms), "{wait_ms} ms");
    assert!(
        held.links.utilization[0] > 0.95,
        "{}",
        held.links.utilization[0]
    );
    assert_eq!(held.links.dropped_overflow[0], 0);
}

/// Files of one packet, 5 per second, beside four long flows. Their packets wait for the
/// transmission in progress, at most 1 ms, and not for those of other flows, or at most for another
/// new flow's; with drop-tail they wait behind all.
#[test]
fn fq_codel_isolates_a_thin_flow() {
    let bytes =
        "workload.poisson = { rate_per_s = 5, size.pareto = { mean_bytes = 1000, shape = 1000 } }";
    let flows = [["bulk", "4", ""], ["thin", "1", bytes]];
    let apart = over("queue.fq_codel = {}", "", &flows, 60.0);
    let wait_ms = median_wait_ms(&apart, 1, 20.0);
    assert!(wait_ms < 2.0, "{wait_ms} ms");
    let users = || (0..4).map(|user| apart.flows.goodput_mbps[user]);
    let (least, most) = (
        users().fold(f64::MAX, f64::min),
        users().fold(0.0, f64::max),
    );
    assert!(most < 1.05 * least, "{least} and {most} Mbps");
    let behind = over("queue.drop_tail.packets = 200", "", &flows, 60.0);
    assert!(median_wait_ms(&behind, 1, 20.0) > 50.0);
}

/// After slow start no queue overflows: every reduction is by a mark, so nothing is lost or sent
/// again, and the delay is held as by drops.
#[test]
fn marks_cause_no_retransmissions() {
    for queue in [
        "queue.codel = {}",
        "queue.fq_codel = {}",
        "queue.pie = {}",
        "queue.red = { min_packets = 5, mid_packets = 15, max_packets = 500 }",
    ] {
        let marked = over(queue, "ecn = true", &[["bulk", "3", ""]], 60.0);
        let (links, paths) = (&marked.links, &marked.paths);
        assert!(
            links.marked_packets[0] > 10,
            "{queue}: {}",
            links.marked_packets[0]
        );
        for user in 0..3 {
            assert!(paths.mark_events[user] > 0, "{queue}");
            assert_eq!(paths.retransmitted_packets[user], 0, "{queue}");
            assert_eq!(marked.flows.lost_packets[user], 0, "{queue}");
        }
        // FQ-CoDel halves each window at its fair share: between half and full, 3/4 on average.
        assert!(
            links.utilization[0] > 0.7,
            "{queue}: {}",
            links.utilization[0]
        );
        assert!(
            links.queue_ms[0] < 40.0,
            "{queue}: {} ms",
            links.queue_ms[0]
        );
    }
}

/// A window is reduced at most once per round trip: 50 s of round trips of at least 41 ms. RED that
/// marks every packet from 2 waiting on would otherwise reduce it for each acknowledgement.
#[test]
fn a_window_is_reduced_at_most_once_per_round_trip() {
    let queue = "queue.red = { min_packets = 1, mid_packets = 2, max_packets = 900, \
                 mid_probability = 0.99 }";
    let record = over(queue, "ecn = true", &[BULK], 60.0);
    let events = record.paths.mark_events[0];
    assert!(events > 10 && events as f64 <= 50.0 / 0.041, "{events}");
    assert!(record.paths.marked_packets[0] > events, "{events}");
    // A window halved where the path is full; halved for each echo it would be a few packets.
    assert!(
        record.links.utilization[0] > 0.5,
        "{}",
        record.links.utilization[0]
    );
}

/// A mark that is echoed until the sender says that it reduced its window (CWR, RFC 3168, section
/// 6.1.2) is one reduction. CoDel marks one packet at a time; one mark may be before the
/// measurement and its reduction within.
#[test]
fn an_echoed_mark_reduces_the_window_once() {
    for acks in ["", ", delayed_acks = true"] {
        let record = over(
            "queue.codel = {}",
            &format!("ecn = true{acks}"),
            &[BULK],
            60.0,
        );
        let (events, marks) = (record.paths.mark_events[0], record.paths.marked_packets[0]);
        assert!(events > 10 && events <= marks + 1, "{events} for {marks}");
        assert_eq!(record.paths.retransmitted_packets[0], 0);
    }
}

/// The same packets, dropped instead: an endpoint without ECN is never marked.
#[test]
fn an_endpoint_without_ecn_is_not_marked() {
    let record = over("queue.codel = {}", "", &[BULK], 30.0);
    assert_eq!(
        (record.links.marked_packets[0], record.paths.mark_events[0]),
        (0, 0)
    );
    assert!(record.links.dropped_aqm[0] > 0);
}

/// Retransmissions are not ECN-capable (RFC 3168, section 6.1.5): RED, which acts on 3 in 10
/// packets that find another waiting, marks what is new and drops what is sent again.
#[test]
fn retransmissions_are_dropped_where_new_packets_are_marked() {
    let queue = "loss.bernoulli.probability = 0.01, queue.red = { min_packets = 0.5, \
                 mid_packets = 1, max_packets = 900, mid_probability = 0.3 }";
    let record = at_distance(1.0, queue, "ecn = true", &[BULK], 60.0);
    let (lost, again) = (
        record.paths.lost_red[0],
        record.paths.retransmitted_packets[0],
    );
    assert!(0 < lost && lost < again, "{lost} of {again}");
    assert!(record.links.marked_packets[0] > 10 * lost);
}
