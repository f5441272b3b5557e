//! Properties of every input: for the tests and for `fuzz/main.rs`.

use std::str::from_utf8;

use anabranch_net::Trace;
use anabranch_scenario::{Inputs, Scenario, Virtual};
use anabranch_sim::Simulation;

use super::generated::{self, Input};
use crate::common::bits;
use crate::laws::checks::{
    check_counters, check_everything_arrived, check_queues, check_rates, check_samples,
};

/// Checks an input.
pub type Check = fn(&[u8]);

/// Every check, by the name of its folder in `fuzz/corpus.tar.gz`.
pub const TARGETS: [(&str, Check); 5] = [
    ("scenario", read_scenario),
    ("trace", read_trace),
    ("ending", ending),
    ("two_way", two_way),
    ("endless", endless),
];

/// A scenario, which may name a trace of a burst.
fn read(text: &[u8]) -> Result<Scenario, anabranch_scenario::Error> {
    let trace = b"1\n5\n6\n7\n7\n7\n7\n7\n7\n7\n8\n8\n8\n";
    let inputs = Inputs::from([("lte.trace".to_owned(), trace[..].into())]);
    Scenario::parse_with(text, "file", &[], &inputs, None)
}

/// The scenario that the bytes choose.
fn chosen(bytes: &[u8], ending: bool, two_way: bool) -> Scenario {
    let text = generated::scenario(&mut Input(bytes), ending, two_way);
    read(text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The text of a scenario: an error is one line, and what is read is written and read the same.
fn read_scenario(bytes: &[u8]) {
    match read(bytes) {
        Ok(scenario) => {
            let text = scenario.to_toml();
            assert_eq!(read(text.as_bytes()).as_ref(), Ok(&scenario), "{text}");
        }
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
}

/// The text of a trace: a period has as many opportunities as lines, whatever the times.
fn read_trace(bytes: &[u8]) {
    let Ok(text) = from_utf8(bytes) else { return };
    match Trace::parse(text) {
        Ok(trace) => {
            // 12 000 bits per line, in a time in ps.
            let period = trace.period();
            let expected = text.lines().count() as f64 * 12e9 / period as f64;
            for mbps in [trace.mean_mbps(), trace.mbps_between(period, 2 * period)] {
                assert!(
                    (mbps / expected - 1.0).abs() < 1e-9,
                    "{mbps}, not {expected}"
                );
            }
        }
        Err(error) => {
            let lines = text.lines().count().max(1);
            assert!((1..=lines).contains(&error.line), "{error}");
        }
    }
}

/// Everything arrives, once, and links and paths count the same.
fn ending(bytes: &[u8]) {
    let scenario = chosen(bytes, true, false);
    let record = Simulation::new(&scenario, 1).finish();
    check_counters(&scenario, &record);
    check_samples(&scenario, &record);
    check_rates(&scenario, &record);
    check_queues(&scenario, &record);
    check_everything_arrived(&scenario, &record);
}

/// The same where acknowledgements are packets of links.
fn two_way(bytes: &[u8]) {
    let scenario = chosen(bytes, true, true);
    let record = Simulation::new(&scenario, 1).finish();
    check_samples(&scenario, &record);
    check_rates(&scenario, &record);
    check_queues(&scenario, &record);
    check_everything_arrived(&scenario, &record);
}

/// Transfers without end, cut into slices: the same bits.
fn endless(bytes: &[u8]) {
    let scenario = chosen(bytes, false, false);
    let record = Simulation::new(&scenario, 1).finish();
    check_counters(&scenario, &record);
    check_samples(&scenario, &record);
    check_rates(&scenario, &record);
    check_queues(&scenario, &record);
    let mut sliced = Simulation::new(&scenario, 1);
    for tenth in 1..10 {
        let end_s = sliced.duration_s() * f64::from(tenth) / 10.0;
        sliced.run_until(end_s);
    }
    assert!(bits(sliced.finish()) == bits(record), "cut into slices");
}
