//! Scalable congestion control: DCTCP with counted marks, in DualPI2 and at a step.

use anabranch_scenario::Record;

use crate::common::run;

/// Flows `[name, keys]` over a link of 40 Mbps, where a packet takes 0.3 ms, with this queue and
/// round trips of 20 ms without it, for 60 s.
fn over(queue: &str, flows: &[[&str; 2]]) -> Record {
    let flows = flows
        .iter()
        .map(|[name, keys]| format!("[[flows]]\nname = '{name}'\npaths = [['L']]\n{keys}\n"));
    let text = format!(
        "algorithm = 'dctcp'\nmeasure = {{ duration_s = 60, warmup_s = 10, sample_ms = 2 }}\n\
         tcp = {{ ecn = 'accurate' }}\nlinks.L = {{ rate_mbps = 40, delay_ms = 10, {queue} }}\n{}",
        flows.collect::<String>()
    );
    run(&text, 1)
}

const DCTCP: [&str; 2] = ["dctcp", ""];

/// The waits of a flow's packets after the warm-up, ms, in order of size: means over 2 ms of the
/// one-way delay without propagation, 10 ms, and transmission, 0.3 ms.
fn waits_ms(record: &Record, flow: u32) -> Vec<f64> {
    let samples = &record.path_samples;
    let mine = (0..samples.len()).filter(|&i| samples.flow[i] == flow && samples.time_s[i] > 10.0);
    let mut waits: Vec<f64> = mine
        .map(|i| samples.one_way_delay_ms[i] - 10.3)
        .filter(|wait| wait.is_finite())
        .collect();
    waits.sort_by(f64::total_cmp);
    waits
}

fn quantile(sorted: &[f64], q: f64) -> f64 {
    sorted[(q * (sorted.len() - 1) as f64) as usize]
}

/// With the base probability p' the L queue marks 2 p' of DCTCP's packets and the classic queue
/// p'^2 of the other's: windows of 2 / (2 p') = 1/p' and of 1.22/p' packets (CUBIC is no faster
/// than Reno at these RTTs), over round trips of 20.6 and, with the target of 15 ms, 35.3 ms. Rates
/// are therefore as 1.4 to 1: RFC 9332, section 2.1, makes windows equal. Both windows are small
/// and vary, so half to twice is asked for.
#[test]
fn dctcp_and_a_classic_flow_share_dualpi2_and_keep_their_delays() {
    for other in ["reno", "cubic"] {
        let other = format!("algorithm = '{other}'");
        let record = over("queue.dualpi2 = {}", &[DCTCP, ["classic", &other]]);
        let goodput = &record.flows.goodput_mbps;
        let ratio = goodput[0] / goodput[1];
        assert!((0.5..2.0).contains(&ratio), "{other}: {ratio}");
        let utilization = record.links.utilization[0];
        assert!(utilization > 0.97, "{other}: {utilization}");
        let (low, classic) = (waits_ms(&record, 0), waits_ms(&record, 1));
        let p95_ms = quantile(&low, 0.95);
        assert!(p95_ms < 2.0, "{other}: {p95_ms} ms of the L queue");
        let median_ms = quantile(&classic, 0.5);
        assert!((12.0..18.0).contains(&median_ms), "{other}: {median_ms} ms");
        assert_eq!(
            record.links.dropped_aqm[0] + record.links.dropped_overflow[0],
            0
        );
        // The window, by the rate and round trips of 20.6 ms, times the share of marks: 2.
        let packets_per_s = goodput[0] * 1e6 / 8.0 / 1448.0;
        let share = record.paths.marked_packets[0] as f64 / (packets_per_s * 50.0);
        let twice = 0.0206 * packets_per_s * share;
        assert!((1.7..2.5).contains(&twice), "{other}: {twice}");
    }
}

/// RED that marks nearly all from 10 waiting packets on, 3 ms. DCTCP fills 67 packets of path and
/// 10 of queue, and a packet more per round trip; the mark takes effect within two. It then takes
/// the share sqrt(2/78) / 2 = 0.08 of the window, 6 packets (Alizadeh et al., SIGMETRICS 2011,
/// equation 9), so that the queue stays above 0 and the link busy. Reno takes half, 38 packets,
/// which empties the queue. With ABE it takes a fifth, from 78 packets to 62: of the 16 round trips
/// until the next mark the first five lack 5 to 1 of 67 packets, 1.4 % of what the link carries.
#[test]
fn dctcp_holds_the_queue_at_a_step_where_reno_empties_it() {
    let step = "queue.red = { min_packets = 9.9, mid_packets = 10, max_packets = 500, \
                mid_probability = 0.999999 }";
    let held = over(step, &[DCTCP]);
    let waits = waits_ms(&held, 0);
    let (p5_ms, median_ms, p95_ms) = (
        quantile(&waits, 0.05),
        quantile(&waits, 0.5),
        quantile(&waits, 0.95),
    );
    assert!(
        p5_ms > 0.1 && (1.2..3.0).contains(&median_ms),
        "{p5_ms} and {median_ms} ms"
    );
    assert!((2.7..3.9).contains(&p95_ms), "{p95_ms} ms");
    assert!(
        held.links.utilization[0] > 0.995,
        "{}",
        held.links.utilization[0]
    );
    assert_eq!(held.paths.retransmitted_packets[0], 0);
    let used = |rule: &str| {
        let algorithm = format!("algorithm = '{rule}'");
        over(step, &[["classic", &algorithm]]).links.utilization[0]
    };
    let (reno, abe) = (used("reno"), used("reno:beta_ecn=0.8"));
    assert!(reno < 0.9, "{reno}");
    assert!((0.97..0.995).contains(&abe), "{abe}");
}

/// Several flows of DCTCP alone in DualPI2 keep the L queue near its step of 1 ms.
#[test]
fn flows_of_dctcp_alone_keep_the_low_delay_of_dualpi2() {
    let record = over("queue.dualpi2 = {}", &[["dctcp", "count = 4"]]);
    let p95_ms = quantile(&waits_ms(&record, 0), 0.95);
    assert!(p95_ms < 2.0, "{p95_ms} ms");
    assert!(
        record.links.utilization[0] > 0.95,
        "{}",
        record.links.utilization[0]
    );
    assert_eq!(record.links.dropped_aqm[0], 0);
}

/// Without counted marks it is Reno: the same losses give the same run.
#[test]
fn dctcp_without_counted_marks_is_reno() {
    let with = |algorithm: &str, ecn: &str| {
        let text = format!(
            "algorithm = '{algorithm}'\nmeasure.duration_s = 20\ntcp.ecn = {ecn}\n\
             links.L = {{ rate_mbps = 10, delay_ms = 10, queue.codel = {{}}, \
             loss.bernoulli.probability = 0.001 }}\n\
             [[flows]]\nname = 'f'\npaths = [['L'], ['L']]\n"
        );
        let record = run(&text, 1);
        (
            record.flows.goodput_mbps,
            record.paths.mark_events,
            record.paths.loss_events,
        )
    };
    for ecn in ["false", "true"] {
        assert_eq!(with("dctcp", ecn), with("reno", ecn), "ecn = {ecn}");
    }
    assert_ne!(with("dctcp", "'accurate'"), with("reno", "'accurate'"));
}

/// A rule that takes marks as losses reduces once per round trip with new marks. They are ECT(0),
/// so that DualPI2 holds them at the classic target.
#[test]
fn counted_marks_of_reno_are_losses_and_wait_in_the_classic_queue() {
    let record = over(
        "queue.dualpi2 = {}",
        &[["reno", "algorithm = 'reno'\ncount = 4"]],
    );
    let median_ms = quantile(&waits_ms(&record, 0), 0.5);
    assert!((12.0..18.0).contains(&median_ms), "{median_ms} ms");
    for user in 0..4 {
        let (events, marks) = (
            record.paths.mark_events[user],
            record.paths.marked_packets[user],
        );
        assert!(0 < events && events <= marks, "{events} for {marks} marks");
        assert_eq!(record.paths.retransmitted_packets[user], 0);
    }
}
