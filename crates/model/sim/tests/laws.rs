//! Laws of every scenario: counters agree, everything sent arrives, windows stay in range,
//! and a seed determines every bit.

pub mod checks;
mod jitter;
mod random;
mod timeouts;

use std::thread;

use anabranch_scenario::{Record, Recovery, Scenario, Virtual};
use anabranch_sim::Simulation;
use proptest::prelude::*;

use crate::common::{bits, cases, scenario};
use checks::{
    check_capacity, check_counters, check_everything_arrived, check_nobody_stops, check_queues,
    check_rates, check_samples,
};

fn run(scenario: &Scenario) -> Record {
    Simulation::new(scenario, 1).finish()
}

proptest! {
    #![proptest_config(cases(32))]

    #[test]
    fn everything_sent_arrives_once_and_the_counters_agree(text in random::ending()) {
        let scenario = scenario(&text);
        let record = run(&scenario);
        check_counters(&scenario, &record);
        check_samples(&scenario, &record);
        check_rates(&scenario, &record);
        check_queues(&scenario, &record);
        check_everything_arrived(&scenario, &record);
    }

    #[test]
    fn everything_sent_arrives_once_where_acknowledgements_are_queued_and_lost(
        text in random::two_way(),
    ) {
        let scenario = scenario(&text);
        let record = run(&scenario);
        check_samples(&scenario, &record);
        check_rates(&scenario, &record);
        check_queues(&scenario, &record);
        check_everything_arrived(&scenario, &record);
        let sum = |column: &[u64]| column.iter().sum::<u64>();
        let (paths, links) = (&record.paths, &record.links);
        prop_assert!(sum(&paths.lost_overflow) <= sum(&links.dropped_overflow));
        prop_assert!(sum(&paths.lost_random) <= sum(&links.dropped_random));
        let sent = sum(&paths.sent_packets);
        let hops = scenario.flows.iter().flat_map(|flow| &flow.paths).map(|path| path.links.len());
        let most = hops.max().unwrap_or(0) as u64 + 1;
        prop_assert!(sum(&links.arrived_packets) <= most * sent, "an ACK per packet at most");
    }

    #[test]
    fn endless_transfers_never_stop(text in random::endless()) {
        let scenario = scenario(&text);
        let record = run(&scenario);
        check_counters(&scenario, &record);
        check_samples(&scenario, &record);
        check_rates(&scenario, &record);
        check_queues(&scenario, &record);
        check_nobody_stops(&record);
    }

    #[test]
    fn goodput_of_any_window_is_at_most_what_its_links_carry(
        text in random::endless(),
        warmup_s in 0.0..59.0,
    ) {
        let warm = format!("sample_ms = 200, warmup_s = {warmup_s}");
        let scenario = scenario(&text.replace("sample_ms = 200", &warm));
        check_capacity(&scenario, &run(&scenario));
    }

    #[test]
    fn without_a_late_sample_there_is_no_timeout(text in timeouts::bounded_delay()) {
        let scenario = scenario(&text);
        let record = run(&scenario);
        let flows = &record.flows;
        prop_assert!(flows.lost_packets.iter().all(|&lost| lost == 0));
        prop_assert!(flows.timeouts.iter().all(|&timeouts| timeouts == 0), "{:?}", flows.timeouts);
        let again = &flows.retransmitted_packets;
        prop_assert!(record.paths.loss_events.iter().all(|&losses| losses == 0));
        let probes = scenario.tcp.recovery == Recovery::Rack;
        let resends = probes || scenario.tcp.scheduler.repeats();
        prop_assert!(resends || again.iter().all(|&packets| packets == 0), "again: {again:?}");
    }

    #[test]
    fn every_timeout_without_a_loss_is_undone(text in timeouts::unbounded_delay()) {
        let scenario = scenario(&text);
        let paths = run(&scenario).paths;
        prop_assert_eq!(&paths.spurious_timeouts, &paths.timeouts);
        prop_assert!(paths.loss_events.iter().all(|&losses| losses == 0));
        for path in 0..paths.len() {
            // Each timeout sends one packet again, besides probes and data sent over another path.
            let alone = scenario.flows[paths.flow[path] as usize].paths.len() == 1;
            let exact = alone && scenario.tcp.recovery == Recovery::Sack;
            let (again, timeouts) = (paths.retransmitted_packets[path], paths.timeouts[path]);
            prop_assert!(again == timeouts || !exact, "path {path}: {again}");
            prop_assert!(again >= timeouts, "path {path}: {again}");
        }
    }

    #[test]
    fn slices_and_threads_change_no_bit(
        text in random::ending(),
        mut stops in prop::collection::vec(0.0..4.0, 0..20),
        seed in any::<u64>(),
    ) {
        let scenario = scenario(&text);
        let whole = || bits(Simulation::new(&scenario, seed).finish());
        let once = whole();
        stops.sort_by(f64::total_cmp);
        let mut sliced = Simulation::new(&scenario, seed);
        for time_s in stops {
            sliced.run_until(time_s);
            prop_assert!((sliced.now_s() - time_s).abs() < 1e-9);
        }
        prop_assert!(bits(sliced.finish()) == once, "cut into slices");
        let threads = thread::scope(|scope| {
            let threads = [(); 2].map(|()| scope.spawn(whole));
            threads.map(|thread| thread.join().expect("the run ends"))
        });
        prop_assert!(threads.iter().all(|other| *other == once), "in threads");
    }
}

#[test]
fn another_seed_is_another_run() {
    let text = |loss: &str, spread_s: f64| {
        format!(
            r#"
            algorithm = "olia"
            measure.duration_s = 5
            links.L = {{ rate_mbps = 10, delay_ms = 10, {loss} }}
            [[flows]]
            name = "users"
            paths = [["L"]]
            start_spread_s = {spread_s}
            "#
        )
    };
    let with = |text: &str, seed| bits(Simulation::new(&scenario(text), seed).finish());
    let calm = text("queue.drop_tail = { packets = 50 }", 0.0);
    assert!(with(&calm, 1) == with(&calm, 2), "nothing in it is random");
    let random = [
        text("loss.bernoulli = { probability = 0.01 }", 0.0),
        text("queue.red = {}", 0.0),
        text("queue.drop_tail = { packets = 50 }", 1.0),
    ];
    for text in &random {
        assert!(with(text, 1) != with(text, 2), "{text}");
        assert!(with(text, 1) == with(text, 1), "{text}");
    }
}
