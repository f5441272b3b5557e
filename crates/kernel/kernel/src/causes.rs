//! Ids, words and remedies of what can be wrong on a host or with a connection: `causes.toml`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

/// Words of one cause. [`fill`] replaces those in braces.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Words {
    /// Condition that `doctor` checks.
    #[serde(default)]
    pub check: String,
    /// Purpose of the condition.
    #[serde(default)]
    pub needed_for: String,
    /// Whether it is a requirement; otherwise it is advice.
    #[serde(default)]
    pub required: bool,
    /// Effect on a connection.
    #[serde(default)]
    pub sentence: String,
    /// Command or step against it.
    pub remedy: String,
}

static CAUSES: LazyLock<BTreeMap<String, Words>> = LazyLock::new(|| {
    toml::from_str(include_str!("causes.toml")).expect("a test reads causes.toml")
});

/// Words of the cause with this id.
pub(crate) fn words(id: &str) -> &'static Words {
    CAUSES.get(id).expect("causes.toml has every id")
}

/// A template with its words in braces replaced by values.
pub(crate) fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = template.to_owned();
    for (name, value) in values {
        text = text.replace(&format!("{{{name}}}"), value);
    }
    text
}

/// Finding about a connection: a limit, or a path that holds it up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// Id in `causes.toml`.
    pub id: &'static str,
    /// Finding in words, with its evidence.
    pub sentence: String,
    /// Command or step against it.
    pub remedy: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_words_for_doctor_or_status() {
        assert!(CAUSES.len() > 20);
        for (id, words) in CAUSES.iter() {
            let checked = !words.check.is_empty() && !words.needed_for.is_empty();
            assert!(checked || !words.sentence.is_empty(), "{id}");
            assert_eq!(words.check.is_empty(), words.needed_for.is_empty(), "{id}");
        }
    }
}
