//! Refuses lists and numbers where the schema has tables: serde would read the fields of a struct
//! from a list in order.

use serde_json::Value as Json;
use toml::Spanned;
use toml::de::DeValue;

use crate::file::key::{Fault, Key};
use crate::file::phrase;
use crate::file::schema::tree;

/// Checks a value of the document against the schema, and all that is in it.
///
/// # Errors
/// The first value in the place of a table that is neither a table nor a string.
pub(crate) fn check(value: &Spanned<DeValue<'_>>) -> Result<(), Fault> {
    walk(value.get_ref(), &[tree()], &Key::default())
}

/// `schemas`: one of them describes `value`.
fn walk(value: &DeValue<'_>, schemas: &[&'static Json], key: &Key) -> Result<(), Fault> {
    let choices: Vec<&Json> = schemas.iter().flat_map(|schema| choices(schema)).collect();
    let may_be = |kind: &str| choices.iter().any(|choice| choice["type"] == kind);
    if let Some((kinds, found)) = not_a_table(value)
        && may_be("object")
        && !kinds.iter().any(|kind| may_be(kind))
    {
        return Err(phrase::not_a_table(key, &found));
    }
    match value {
        DeValue::Array(array) => {
            let items: Vec<&Json> = choices.iter().filter_map(|c| c.get("items")).collect();
            let mut entries = array.iter().enumerate();
            entries.try_for_each(|(i, entry)| walk(entry.get_ref(), &items, &key.index(i)))
        }
        DeValue::Table(table) => table.iter().try_for_each(|(name, entry)| {
            let name = name.get_ref().as_ref();
            if choices.iter().any(|choice| choice["const"] == name) {
                return Err(phrase::not_a_name(key, name));
            }
            let below: Vec<&Json> = choices.iter().filter_map(|c| property(c, name)).collect();
            walk(entry.get_ref(), &below, &key.key(name))
        }),
        _ => Ok(()),
    }
}

/// The names in a schema of a value that is neither a table nor a string, and how it is written.
fn not_a_table(value: &DeValue<'_>) -> Option<(&'static [&'static str], String)> {
    match value {
        DeValue::Array(_) => Some((&["array"], "a list".to_owned())),
        DeValue::Integer(number) => Some((&["integer", "number"], number.to_string())),
        DeValue::Float(number) => Some((&["number"], number.to_string())),
        DeValue::Boolean(truth) => Some((&["boolean"], truth.to_string())),
        DeValue::Datetime(time) => Some((&[], time.to_string())),
        DeValue::String(_) | DeValue::Table(_) => None,
    }
}

/// The schemas of which one holds, without references.
fn choices(schema: &'static Json) -> Vec<&'static Json> {
    if let Some(reference) = schema["$ref"].as_str() {
        let pointer = reference.trim_start_matches('#');
        return choices(
            tree()
                .pointer(pointer)
                .expect("the schema has what it names"),
        );
    }
    let several = schema.get("anyOf").or_else(|| schema.get("oneOf"));
    match several.and_then(Json::as_array) {
        Some(several) => several.iter().flat_map(choices).collect(),
        None => vec![schema],
    }
}

/// The schema of an entry of a table: that of its name, or of every name.
fn property(table: &'static Json, name: &str) -> Option<&'static Json> {
    let named = table.get("properties").and_then(|all| all.get(name));
    named.or_else(|| {
        table
            .get("additionalProperties")
            .filter(|any| any.is_object())
    })
}
