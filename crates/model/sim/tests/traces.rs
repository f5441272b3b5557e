//! Links whose rate, delay and loss follow a trace.

use anabranch_scenario::{Inputs, Record, Scenario, Virtual};
use anabranch_sim::Simulation;

use crate::common::bits;

/// A user over a link with these keys, and a trace of this content named `t.csv`.
fn run(link: &str, trace: &str) -> Record {
    let text = format!(
        "algorithm = 'cubic'\nmeasure.duration_s = 40\n\
         [links.L]\n{link}\n\
         [[flows]]\nname = 'user'\npaths = [['L']]\nstart_spread_s = 0\n"
    );
    let inputs = Inputs::from([("t.csv".to_owned(), trace.as_bytes().into())]);
    let scenario = Scenario::parse_with(text.as_bytes(), "traces", &[], &inputs, None);
    Simulation::new(&scenario.expect("valid"), 1).finish()
}

/// The columns of a trace that do not change are the keys of the link.
#[test]
fn constant_columns_are_the_constant_link_to_the_bit() {
    let keys = "queue.drop_tail.packets = 50\nrate_mbps = 7.3\ndelay_ms = 23\nloss.bernoulli.probability = 0.002";
    let constant = run(keys, "");
    assert!(constant.flows.lost_packets[0] > 10);
    let trace = "time_s,rate_mbps,delay_ms,loss\n0,7.3,3,0.002\n1.5,7.3,3,0.002\n9,7.3,3,0.002\n";
    // The way back is 20 ms where the trace has 3 ms, and 23 ms otherwise.
    let link = "trace_file = 't.csv'\ndelay_ms = 20";
    let text = |path: &str| {
        format!(
            "algorithm = 'cubic'\nmeasure.duration_s = 40\n[links.L]\n\
                 queue.drop_tail.packets = 50\n{link}\n[[flows]]\nname = 'user'\npaths = [{path}]\nstart_spread_s = 0\n"
        )
    };
    let path = text("{ links = ['L'], return_delay_ms = 23 }");
    let inputs = Inputs::from([("t.csv".to_owned(), trace.as_bytes().into())]);
    let scenario = Scenario::parse_with(path.as_bytes(), "traces", &[], &inputs, None);
    let traced = Simulation::new(&scenario.expect("valid"), 1).finish();
    assert_eq!(bits(traced), bits(constant));
}

/// A handover every 15 s moves the delay from 20 to 60 ms and back. The RTT follows, nothing is out
/// of order, and so nothing is sent again but what the queue drops. The queue of 10 packets is
/// empty after a loss, because 33 and 10 packets, less 0.3 of them, are less than 33; 67 and 10
/// likewise.
#[test]
fn the_round_trip_follows_the_delay() {
    let trace = "time_s,delay_ms\n0,0\n15,40\n30,0\n";
    let link = "queue.drop_tail.packets = 10\ntrace_file = 't.csv'\nrate_mbps = 10\ndelay_ms = 20";
    let record = run(link, trace);
    let flows = &record.flows;
    assert_eq!(flows.retransmitted_packets[0], flows.lost_packets[0]);
    let samples = &record.path_samples;
    let smallest = |from_s: f64, to_s: f64| {
        let within = (0..samples.len()).filter(|&i| (from_s..to_s).contains(&samples.time_s[i]));
        within
            .map(|i| samples.rtt_ms[i])
            .fold(f64::INFINITY, f64::min)
    };
    assert!((41.2..60.0).contains(&smallest(2.0, 15.0)));
    assert!((81.2..100.0).contains(&smallest(17.0, 30.0)));
    assert!((41.2..60.0).contains(&smallest(32.0, 40.0)));
}

/// 10 Mbps, then 2, then nothing for 5 s, then 10: the link is full, but for the restart.
#[test]
fn goodput_follows_the_rate() {
    let trace = "time_s,rate_mbps,loss\n0,10,0\n10,2,0\n20,0,0\n25,10,0\n";
    let record = run("trace_file = 't.csv'\ndelay_ms = 20", trace);
    let samples = &record.link_samples;
    let mean = |from_s: f64, to_s: f64| {
        let within = (0..samples.len()).filter(|&i| (from_s..to_s).contains(&samples.time_s[i]));
        let values: Vec<f64> = within.map(|i| samples.throughput_mbps[i]).collect();
        values.iter().sum::<f64>() / values.len() as f64
    };
    assert!(mean(5.0, 10.0) > 9.5);
    assert!((1.9..2.001).contains(&mean(11.0, 20.0)));
    assert!(mean(20.2, 25.0) < 1e-9);
    assert!(mean(35.0, 40.0) > 9.0);
    let rate_mbps = (10.0 * 10.0 + 10.0 * 2.0) / 25.0;
    assert!((record.links.rate_mbps[0] - rate_mbps).abs() < 1e-9);
}
