//! Shared by the tests of the simulator.

pub mod links;

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

/// What a run of a TOML text with one seed measures.
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

fn number_bits(value: f64) -> u64 {
    if value.is_nan() {
        f64::NAN.to_bits()
    } else {
        value.to_bits()
    }
}
