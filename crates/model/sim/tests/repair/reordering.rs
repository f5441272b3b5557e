//! Packets that overtake one another: what endpoints take for losses.

use anabranch_scenario::{Inputs, Record, Scenario, Virtual};
use anabranch_sim::Simulation;
use proptest::prelude::*;

use crate::common::{PAYLOAD, bits, run};

/// A file of 60 packets, all sent at once. A packet takes 1 ms; those whose transmission ends
/// between these times, ms, are sent again by the link, and arrive 4.5 ms later, behind the next
/// four, without delaying any. Acknowledgements take 10 ms as packets do.
fn with_late(late_ms: &[(f64, f64)], recovery: &str) -> Record {
    let mut trace = String::from("time_s,loss\n0,0\n");
    for (from, to) in late_ms {
        trace += &format!("{},1\n{},0\n", from * 1e-3, to * 1e-3);
    }
    let text = format!(
        r#"
        algorithm = "reno"
        measure.duration_s = 10
        tcp = {{ recovery = "{recovery}", initial_window_packets = 60 }}
        [links.L]
        rate_mbps = 12
        delay_ms = 10
        trace_file = "late.csv"
        arq = {{ retries = 1, delay_ms = 4.5 }}
        keeps_order = false
        [[flows]]
        name = "user"
        paths = [["L"]]
        start_spread_s = 0
        workload.file = {{ bytes = {} }}
        "#,
        60 * PAYLOAD
    );
    let inputs = Inputs::from([("late.csv".to_owned(), trace.as_bytes().into())]);
    let scenario = Scenario::parse_with(text.as_bytes(), "late", &[], &inputs, None);
    Simulation::new(&scenario.expect("valid"), 1).finish()
}

/// The packets that end at 3 and at 41 ms. The third acknowledgement above the first of them comes
/// at 26 ms, that of itself at 27.5: by then it is declared lost and sent again, by RFC 6675 and by
/// RFC 8985, which has not seen reordering yet. It has at 41 ms: a packet may be late by a quarter
/// of 21 ms, and is by 4.5.
#[test]
fn a_packet_that_four_overtake_is_taken_for_lost_until_reordering_is_known() {
    let late = [(2.5, 3.5), (40.5, 41.5)];
    for (recovery, sent_again) in [("sack", 2), ("rack", 1)] {
        let paths = with_late(&late, recovery).paths;
        assert_eq!(paths.lost_random, [0], "{recovery}");
        assert_eq!(paths.retransmitted_packets, [sent_again], "{recovery}");
        // The second is within the recovery of the first, which ends with the file.
        assert_eq!(paths.loss_events, [1], "{recovery}");
        assert_eq!(paths.timeouts, [0], "{recovery}");
    }
}

/// RFC 6675 waits for three: a packet that two overtake is never taken for lost.
#[test]
fn a_packet_that_few_overtake_is_not_taken_for_lost() {
    for (packets, spurious) in [(2, false), (3, true)] {
        let text = displacing(packets, "rfc");
        let paths = run(&text, 1).paths;
        assert_eq!(paths.lost_random, [0]);
        // Two displaced packets in a row are overtaken by two each, but may be four places late.
        assert_eq!(
            paths.loss_events[0] > 20,
            spurious,
            "{packets}: {:?}",
            paths.loss_events
        );
    }
}

/// RACK sees the reordering in the first recovery, and takes nothing for lost later.
#[test]
fn rack_learns_that_a_path_reorders() {
    let paths = run(&displacing(5, "linux"), 1).paths;
    assert!(paths.loss_events[0] <= 2, "{:?}", paths.loss_events);
    assert!(
        paths.retransmitted_packets[0] <= 5,
        "{:?}",
        paths.retransmitted_packets
    );
}

fn displacing(packets: u32, profile: &str) -> String {
    format!(
        r#"
        algorithm = "reno"
        measure.duration_s = 30
        tcp.profile = "{profile}"
        links.L = {{ rate_mbps = 10, delay_ms = 20, queue.drop_tail.packets = 1000,
                     reorder = {{ share = 0.01, packets = {packets} }} }}
        [[flows]]
        name = "user"
        paths = [["L"]]
        "#
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    /// Keys that are not written change nothing, to the bit; nor does jitter of nothing.
    #[test]
    fn a_jitter_of_0_is_the_link_without_it(seed in any::<u64>(), loss in 0.0..0.02f64) {
        let text = |keys: &str| format!(
            "algorithm = 'cubic'\nmeasure.duration_s = 5\n[links.L]\nrate_mbps = 10\n\
             delay_ms = 20\nloss.bernoulli.probability = {loss}\n{keys}\n\
             [[flows]]\nname = 'user'\npaths = [['L']]\n"
        );
        prop_assert_eq!(bits(run(&text("jitter_ms = 0"), seed)), bits(run(&text(""), seed)));
    }
}
