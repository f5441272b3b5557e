//! Shared by the tests of the simulator.

use anabranch_scenario::columns::Column;
use anabranch_scenario::{Record, Scenario, Virtual};
use anabranch_sim::Simulation;

/// Payload of a full packet, bytes: 1500 and a header of 52, the defaults.
pub const PAYLOAD: u64 = 1448;

/// The scenario of a TOML text, with the examples' traces.
pub fn scenario(text: &str) -> Scenario {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../examples/a test of the simulator"
    );
    Scenario::parse(text.as_bytes(), file, &[]).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The record of a run of a TOML text with one seed.
pub fn run(text: &str, seed: u64) -> Record {
    Simulation::new(&scenario(text), seed).finish()
}

/// Every number of a record, bit by bit. Unlike with `==`, not-a-number equals itself; which of its
/// many forms it takes is up to the machine.
pub fn bits(record: Record) -> Vec<u64> {
    bits_of(record, |_| true)
}

/// The same for the columns with these names.
pub fn bits_of(record: Record, chosen: impl Fn(&str) -> bool) -> Vec<u64> {
    let columns = record.tables().into_iter().flat_map(|(_, columns)| columns);
    columns
        .filter(|(name, _)| chosen(name))
        .flat_map(|(_, column)| match column {
            Column::U32(values) => values.into_iter().map(u64::from).collect(),
            Column::U64(values) => values,
            Column::F64(values) => values.into_iter().map(number_bits).collect::<Vec<_>>(),
        })
        .collect()
}

/// This many cases of a property, unless `PROPTEST_CASES` chooses others, as in `make test-all`.
#[cfg(test)] // `fuzz/main.rs` has no proptest.
pub fn cases(cases: u32) -> proptest::test_runner::Config {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => proptest::test_runner::Config::default(),
        None => proptest::test_runner::Config::with_cases(cases),
    }
}

fn number_bits(value: f64) -> u64 {
    if value.is_nan() {
        f64::NAN.to_bits()
    } else {
        value.to_bits()
    }
}

// One user, which starts at time 0, on links for which the expected behaviour is derived by hand.
// At 12 Mbps a full packet of 1500 bytes takes 1 ms. Acknowledgements take no time to transmit.

/// One user that sends to the end of the run over a link of 12 Mbps (or what `more` says).
pub fn bulk(link: &str, tcp: &str, more: &str, duration_s: f64, sample_ms: f64) -> Record {
    let text = format!(
        r#"
        algorithm = "reno"
        measure = {{ duration_s = {duration_s}, sample_ms = {sample_ms} }}
        tcp = {{ {tcp} }}
        links.L = {{ {link} }}
        [[flows]]
        name = "user"
        paths = [["L"]]
        start_spread_s = 0
        {more}
        "#
    );
    run(&text, 1)
}

/// A file of `bytes` over links of these descriptions, one after the other.
pub fn file(bytes: u64, links: &[&str], tcp: &str) -> Record {
    let names: Vec<String> = (0..links.len()).map(|i| format!("L{i}")).collect();
    let tables = names
        .iter()
        .zip(links)
        .map(|(name, link)| format!("links.{name} = {{ {link} }}"));
    let text = format!(
        r#"
        algorithm = "reno"
        measure.duration_s = 10
        tcp = {{ {tcp} }}
        {}
        [[flows]]
        name = "user"
        paths = [{names:?}]
        start_spread_s = 0
        workload.file = {{ bytes = {bytes} }}
        "#,
        tables.collect::<Vec<_>>().join("\n")
    );
    run(&text, 1)
}

/// Duration of the only file, ms.
pub fn duration_ms(record: &Record) -> f64 {
    let &[duration_s] = record.transfers.duration_s.as_slice() else {
        panic!("expected one finished file, got {:?}", record.transfers);
    };
    1e3 * duration_s
}

pub fn assert_takes_ms(record: &Record, expected: f64) {
    let duration_ms = duration_ms(record);
    assert!(
        (duration_ms - expected).abs() < 1e-6,
        "{duration_ms} ms, expected {expected} ms"
    );
}

/// The congestion window of the only path at a sample, packets.
pub fn window_at(record: &Record, time_s: f64) -> f64 {
    let samples = &record.path_samples;
    let row = samples
        .time_s
        .iter()
        .position(|t| (t - time_s).abs() < 1e-9);
    samples.window_packets[row.expect("a sample at that time")]
}

pub const SLOW: &str = "rate_mbps = 12, delay_ms = 10";
pub const FAST: &str = "rate_mbps = 10000, delay_ms = 50, queue.drop_tail = { packets = 1000000 }";
