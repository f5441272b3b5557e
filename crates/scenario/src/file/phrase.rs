//! Rewords the messages of serde and of the TOML parser: first what was expected, then what was
//! found.

use crate::error::expected_one_of;
use crate::file::key::{Fault, Key, Step};

/// Rewords a message of serde about `key`.
pub(crate) fn fault(key: Key, message: &str) -> Fault {
    if let Some(names) = message.strip_prefix("unexpected keys in table: ") {
        let (found, known) = names
            .split_once(", available keys: ")
            .unwrap_or((names, ""));
        let found = found.split(", ").next().unwrap_or_default();
        let known: Vec<&str> = known.split(", ").collect();
        return key
            .key(found)
            .fault(format!("unknown key, {}", expected_one_of(found, &known)));
    }
    let (before, after) = message.rsplit_once(", expected ").unwrap_or((message, ""));
    let known: Vec<&str> = after.split('`').skip(1).step_by(2).collect();
    let found = before
        .split_once('`')
        .map_or("", |(_, found)| found.trim_end_matches('`'));
    if message.starts_with("missing field") {
        return key.key(found).fault("missing key");
    }
    if message.starts_with("unknown field") {
        return key.fault(format!("unknown key, {}", expected_one_of(found, &known)));
    }
    if message.starts_with("unknown variant") {
        let expected = expected_one_of(found, &known);
        return key.fault(format!("unknown value {found:?}, {expected}"));
    }
    let found_expected = message
        .strip_prefix("invalid type: ")
        .or_else(|| message.strip_prefix("invalid value: "))
        .and_then(|rest| rest.rsplit_once(", expected "));
    if let Some((found, expected)) = found_expected {
        return key.fault(format!(
            "expected {}, got {}",
            expectation(expected),
            finding(found)
        ));
    }
    let such_as = such_as(&key);
    key.fault(match message {
        // A value in the place of a table has been refused before.
        "wanted string or table" => "expected a string".to_owned(),
        _ if message.starts_with("wanted exactly 1 element") => {
            format!("expected a table with one key{such_as}")
        }
        _ => message.to_owned(),
    })
}

/// The fault of what is not a table.
pub(crate) fn not_a_table(key: &Key, found: &str) -> Fault {
    key.fault(format!("expected a table{}, got {found}", such_as(key)))
}

/// The fault of a table with an entry where its name alone is a value.
pub(crate) fn not_a_name(key: &Key, name: &str) -> Fault {
    let kind = key.0.last().map(|step| Key(vec![step.clone()]));
    let kind = kind.unwrap_or_default();
    key.key(name).fault(format!("expected {kind} = {name:?}"))
}

/// ", such as ..." where the table has one entry, its kind.
fn such_as(key: &Key) -> String {
    let example = EXAMPLES
        .iter()
        .find(|(name, _)| key.0.last() == Some(&Step::Key((*name).to_owned())));
    example.map_or(String::new(), |(_, example)| format!(", such as {example}"))
}

/// By the last word of the key.
const EXAMPLES: [(&str, &str); 4] = [
    ("loss", "loss.bernoulli = { probability = 0.01 }"),
    ("queue", "queue.drop_tail = { packets = 100 }"),
    ("size", "size.exponential = { mean_bytes = 100000 }"),
    ("workload", "workload.file = { bytes = 1000000 }"),
];

fn expectation(serde: &str) -> &str {
    match serde {
        "f64" => "a number",
        "u32" | "u64" | "usize" => "a whole number of at least 0",
        "a sequence" => "a list",
        "a map" | "newtype variant" => "a table",
        _ if serde.starts_with("struct ") => "a table",
        _ => serde,
    }
}

fn finding(serde: &str) -> &str {
    match serde {
        "sequence" => "a list",
        "map" => "a table",
        "unit variant" => "a string",
        _ => match serde.strip_prefix("string ") {
            Some(text) => text,
            None => serde.split('`').nth(1).unwrap_or(serde),
        },
    }
}
