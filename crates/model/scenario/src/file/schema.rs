//! The JSON Schema of a scenario file, for editors and for programs that write scenarios.

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{Schema, SchemaGenerator};
use serde_json::Value;

use crate::file::written;

/// The JSON Schema (draft 2020-12) of a scenario file, generated from the types that read it.
pub fn schema() -> String {
    serde_json::to_string_pretty(tree()).expect("a schema is plain JSON")
}

/// The same as a tree.
pub(crate) fn tree() -> &'static Value {
    static TREE: LazyLock<Value> = LazyLock::new(generate);
    &TREE
}

fn generate() -> Value {
    let generator = SchemaGenerator::new(SchemaSettings::draft2020_12());
    let mut schema = generator.into_root_schema_for::<written::Scenario>();
    RecursiveTransform(without_null).transform(&mut schema);
    schema.into()
}

/// Removes null from the types of optional keys: TOML has no null.
fn without_null(schema: &mut Schema) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(choices)) = schema.get_mut("anyOf") {
        choices.retain(|choice| choice["type"] != "null");
        if let [Value::Object(only)] = choices.as_slice() {
            let only = only.clone();
            schema.remove("anyOf");
            for (key, value) in only {
                schema.insert(key, value);
            }
        }
    }
}
