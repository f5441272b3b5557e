//! Faults of scenarios, as messages of one line.

use std::fmt;

use anabranch_control::{Algorithm, SpecError};

/// A fault of a scenario: `file.toml:12: links.R1.rate_mbps: expected a number above 0, got -3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The scenario file.
    pub file: String,
    /// The line, counted from 1; `None` if the fault is not in the file's text.
    pub line: Option<usize>,
    /// The dotted key, or the option of the command line (`--set links.R1.rate_mbps=-3`).
    pub key: Option<String>,
    /// Expectation and finding.
    pub message: String,
}

impl Error {
    /// A fault of the whole file.
    pub fn of_file(file: &str, message: impl Into<String>) -> Error {
        Error {
            file: file.to_owned(),
            line: None,
            key: None,
            message: message.into(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.line.map(|line| format!(":{line}")).unwrap_or_default();
        let key = self
            .key
            .as_ref()
            .map(|key| format!(": {key}"))
            .unwrap_or_default();
        let text = format!("{}{line}{key}: {}", self.file, self.message);
        for c in text.chars() {
            if c.is_control() {
                write!(f, "{}", c.escape_default())?
            } else {
                write!(f, "{c}")?
            }
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

/// Maximum number of names in a list.
const LONGEST_LIST: usize = 20;

/// The algorithm of a specification such as `olia` or `balia:cap=inf`.
///
/// # Errors
/// One line that says what was expected, and suggests a similar word.
pub fn algorithm(spec: &str) -> Result<Algorithm, String> {
    Algorithm::parse(spec).map_err(|error| with_suggestion(&error))
}

/// The line of an error of a specification, with a suggestion.
pub(crate) fn with_suggestion(error: &SpecError) -> String {
    format!("{error}{}", suggestion(&error.word, &error.known))
}

/// "expected one of a, b, c (did you mean b?)", for a word that is not one of `known`.
pub fn expected_one_of(word: &str, known: &[&str]) -> String {
    let one_of = if known.len() > 1 { "one of " } else { "" };
    let shown = known[..known.len().min(LONGEST_LIST)].join(", ");
    let more = match known.len().saturating_sub(LONGEST_LIST) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("expected {one_of}{shown}{more}{}", suggestion(word, known))
}

/// The backends that a refusal recommends.
const OF_PACKETS: &[&str] = &["sim", "quic", "kernel"];

/// The sentence by which `backend` refuses what the backends `on` have: the key, the name, and the
/// remedy, a backend of packets, because equations are about something else.
pub fn refusal(key: &str, name: &str, backend: &str, on: &[&str]) -> String {
    let able: Vec<&str> = on
        .iter()
        .copied()
        .filter(|it| OF_PACKETS.contains(it))
        .collect();
    let able = match &able[..] {
        [all @ .., last] if !all.is_empty() => format!("{} or {last}", all.join(", ")),
        _ => able.concat(),
    };
    format!("{key}: {name} is not available on {backend}; run it with --on {able}")
}

/// " (did you mean b?)" if one of the known words is similar.
fn suggestion(word: &str, known: &[&str]) -> String {
    let lower = word.to_lowercase();
    let near = known
        .iter()
        .map(|known| {
            (
                strsim::damerau_levenshtein(&lower, &known.to_lowercase()),
                known,
            )
        })
        .filter(|(distance, known)| *distance <= known.len() / 3)
        .min();
    near.map(|(_, known)| format!(" (did you mean {known}?)"))
        .unwrap_or_default()
}
