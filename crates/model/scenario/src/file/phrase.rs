//! Serde's errors as faults, in the words of this crate: what was expected, then what was found.

use std::fmt::{Display, Formatter, Result};

use serde::de::{Error, Expected, Unexpected};
use toml::de::DeValue;

use crate::error::expected_one_of;
use crate::file::key::{Fault, Key, Step};

/// The key of a fault is relative to the value that is read; who reads what is around that value
/// adds the steps to it.
impl Error for Fault {
    fn custom<T: Display>(message: T) -> Fault {
        Key::default().fault(message.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Fault {
        let found = match found {
            Unexpected::Bool(truth) => truth.to_string(),
            Unexpected::Unsigned(number) => number.to_string(),
            Unexpected::Signed(number) => number.to_string(),
            Unexpected::Float(number) => number.to_string(),
            Unexpected::Str(text) => format!("{text:?}"),
            Unexpected::Seq => LIST.to_owned(),
            Unexpected::Map => TABLE.to_owned(),
            other => other.to_string(),
        };
        Fault::custom(format!("expected {expected}, got {found}"))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Fault {
        Fault::invalid_type(found, expected)
    }

    fn unknown_variant(found: &str, known: &'static [&'static str]) -> Fault {
        let expected = expected_one_of(found, known);
        Fault::custom(format!("unknown value {found:?}, {expected}"))
    }

    fn unknown_field(found: &str, known: &'static [&'static str]) -> Fault {
        Key::root(found).fault(format!("unknown key, {}", expected_one_of(found, known)))
    }

    fn missing_field(name: &'static str) -> Fault {
        Key::root(name).fault("missing key")
    }
}

impl std::error::Error for Fault {}

impl Display for Fault {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

const LIST: &str = "a list";
const TABLE: &str = "a table";

/// Description of a written value, as the end of a sentence.
pub(super) fn found(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(truth) => truth.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(_) => LIST.to_owned(),
        DeValue::Table(_) => TABLE.to_owned(),
    }
}

/// Name of a table at `key`, with an example where it has one entry, its kind.
pub(super) fn table(key: &Key) -> String {
    format!("{TABLE}{}", such_as(key))
}

/// Name of a table with one entry, its kind.
pub(super) fn table_with_one_key(key: &Key) -> String {
    format!("{TABLE} with one key{}", such_as(key))
}

/// Whether the value at `key` is a table with one entry, its kind.
pub(super) fn has_a_kind(key: &Key) -> bool {
    example(key).is_some()
}

fn such_as(key: &Key) -> String {
    example(key).map_or(String::new(), |example| format!(", such as {example}"))
}

fn example(key: &Key) -> Option<&'static str> {
    let mut examples = EXAMPLES.iter();
    let example = examples.find(|(name, _)| key.0.last() == Some(&Step::Key((*name).to_owned())));
    example.map(|(_, example)| *example)
}

/// Examples by the last word of the key.
const EXAMPLES: [(&str, &str); 4] = [
    ("loss", "loss.bernoulli = { probability = 0.01 }"),
    ("queue", "queue.drop_tail = { packets = 100 }"),
    ("size", "size.exponential = { mean_bytes = 100000 }"),
    ("workload", "workload.file = { bytes = 1000000 }"),
];
