//! The JSON Schema of a scenario file, for editors and for programs that write scenarios.

use anabranch_control::RULES;
use schemars::{Schema, schema_for};

use crate::file;

/// The JSON Schema (draft 2020-12) of a scenario file, generated from the types that read it.
pub fn schema() -> String {
    let schema = schema_for!(file::Scenario);
    serde_json::to_string_pretty(&schema).expect("a schema is plain JSON")
}

/// Names the algorithms there are as examples; more than a name is allowed (`balia:cap=inf`).
pub(crate) fn algorithms(schema: &mut Schema) {
    let names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
    schema.insert("examples".to_owned(), names.into());
}
