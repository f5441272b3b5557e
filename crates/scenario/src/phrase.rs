//! The messages of serde and of the TOML parser, in the words of this crate: first what was
//! expected, then what was found.

use crate::error::{Fault, list, suggestion};
use crate::key::Key;

/// Says of a message of serde, met at `key`, what was expected and what was found.
pub(crate) fn fault(key: Key, message: &str) -> Fault {
    let quoted = quoted(message);
    let known = || quoted.iter().skip(1).copied();
    if message.starts_with("missing field") {
        return key
            .key(quoted[0])
            .fault("expected a value, but the key is missing");
    }
    if message.starts_with("unknown field") {
        let suggestion = suggestion(quoted[0], known());
        return key.fault(format!(
            "unknown key{suggestion}, expected {}",
            list(known())
        ));
    }
    if message.starts_with("unknown variant") {
        let suggestion = suggestion(quoted[0], known());
        return key.fault(format!(
            "unknown word {:?}{suggestion}, expected {}",
            quoted[0],
            list(known())
        ));
    }
    let found_expected = message
        .strip_prefix("invalid type: ")
        .or_else(|| message.strip_prefix("invalid value: "))
        .and_then(|rest| rest.rsplit_once(", expected "));
    match found_expected {
        Some((found, expected)) => key.fault(format!(
            "expected {}, got {}",
            expectation(expected),
            finding(found)
        )),
        None => key.fault(message),
    }
}

/// The words within backquotes.
fn quoted(message: &str) -> Vec<&str> {
    message.split('`').skip(1).step_by(2).collect()
}

fn expectation(serde: &str) -> &str {
    match serde {
        "f64" => "a number",
        "u32" | "u64" => "a whole number of at least 0",
        "a sequence" => "a list",
        "a map" => "a table",
        _ if serde.starts_with("struct ") => "a table",
        _ => serde,
    }
}

fn finding(serde: &str) -> &str {
    match serde {
        "sequence" => "a list",
        "map" => "a table",
        _ => ["integer ", "floating point ", "boolean ", "string "]
            .iter()
            .find_map(|kind| serde.strip_prefix(kind))
            .unwrap_or(serde)
            .trim_matches('`'),
    }
}
