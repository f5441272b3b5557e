//! Rewords the messages of serde and of the TOML parser: first what was expected, then what was
//! found.

use crate::error::expected_one_of;
use crate::file::key::{Fault, Key};

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
    key.fault(match message {
        "wanted string or table" => "expected a string or a table",
        _ if message.starts_with("wanted exactly 1 element") => "expected a table with one key",
        _ => message,
    })
}

fn expectation(serde: &str) -> &str {
    match serde {
        "f64" => "a number",
        "u32" | "u64" => "a whole number of at least 0",
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
