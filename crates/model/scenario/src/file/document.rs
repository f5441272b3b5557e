//! A scenario's text as a tree with source positions, overrides applied.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use anabranch_net::Trace;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{Error, expected_one_of};
use crate::file::key::{Fault, Key, Step};
use crate::file::reader::Reader;

/// Maximum length of a key guessed from text that is not TOML, characters.
const LONGEST_KEY_LIKE: usize = 60;

type Value<'t> = Spanned<DeValue<'t>>;

/// A parsed TOML file, overrides included, that knows the line of each key.
pub struct Document<'t> {
    file: &'t str,
    text: &'t str,
    root: Value<'t>,
    overrides: Vec<Override<'t>>,
}

/// `--set key=value`.
struct Override<'t> {
    key: Key,
    /// The number of its steps that the document had before.
    known: usize,
    given: &'t (String, String),
}

impl<'t> Document<'t> {
    /// Parses `text` and applies the overrides, each a dotted key and a TOML value. A value that is
    /// not TOML, such as a bare word, is a string.
    ///
    /// # Errors
    /// If `text` is not TOML, or the key of an override cannot be parsed.
    pub fn parse(
        file: &'t str,
        text: &'t str,
        overrides: &'t [(String, String)],
    ) -> Result<Self, Error> {
        let table = DeTable::parse(text).map_err(|error| {
            let offset = error.span().map_or(text.len(), |span| span.start);
            let remedy = repeated_table(text, offset, error.message());
            syntax(file, text, offset, &format!("{}{remedy}", error.message()))
        })?;
        let root = Spanned::new(table.span(), DeValue::Table(table.into_inner()));
        let mut document = Document {
            file,
            text,
            root,
            overrides: Vec::new(),
        };
        for given in overrides {
            let (key, known) = document
                .set(given)
                .map_err(|message| set_error(file, given, message))?;
            document.overrides.push(Override { key, known, given });
        }
        Ok(document)
    }

    /// Whether nothing is written in it.
    pub fn is_empty(&self) -> bool {
        matches!(self.root.get_ref(), DeValue::Table(table) if table.is_empty())
    }

    /// Whether the document has this key at the top level.
    pub fn has(&self, name: &str) -> bool {
        has(&self.root, &Step::Key(name.to_owned()))
    }

    /// Deserializes the whole document.
    ///
    /// # Errors
    /// The first fault, with its key.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        T::deserialize(Reader::new(&self.root))
    }

    /// Locates a fault: the line of its key or of the nearest enclosing one, or the override.
    pub fn error(&self, fault: Fault) -> Error {
        let key = &fault.key;
        if let Some(by) = self.overrides.iter().rev().find(|by| by.made(key)) {
            let message = if by.key == *key {
                fault.message
            } else {
                format!("{key}: {}", fault.message)
            };
            return set_error(self.file, by.given, message);
        }
        Error {
            file: self.file.to_owned(),
            line: Some(line(self.text, offset(&self.root, key))),
            key: Some(key.to_string()),
            message: fault.message,
        }
    }

    /// Applies an override. Returns its key, with a flow's name replaced by its index, and the
    /// number of its steps that the document had.
    fn set(&mut self, (key, value): &'t (String, String)) -> Result<(Key, usize), String> {
        let written = Key::parse(key)
            .ok_or("expected a dotted key, such as links.R1.rate_mbps or flows.type1.count")?;
        let value = DeValue::parse(value)
            .unwrap_or_else(|_| Spanned::new(0..value.len(), DeValue::String(value.into())));
        let mut key = Key::default();
        let mut place = &mut self.root;
        let mut known = 0;
        for (depth, step) in written.0.iter().enumerate() {
            let last = depth + 1 == written.0.len();
            check_link(&key, place, step, last)?;
            known += usize::from(has(place, step));
            (key, place) = enter(key, place, step)?;
        }
        *place = value;
        Ok((key, known))
    }
}

impl Override<'_> {
    /// Whether `key` is the value of this override, or in a table that it added.
    fn made(&self, key: &Key) -> bool {
        let ours = self.key.0.iter().zip(&key.0);
        let common = ours.take_while(|(ours, theirs)| ours == theirs).count();
        common == self.key.0.len() || common > self.known
    }
}

/// Whether `place` has an entry of this name; a list has every entry that can be entered.
fn has(place: &Value<'_>, step: &Step) -> bool {
    match (place.get_ref(), step) {
        (DeValue::Table(table), Step::Key(name)) => table.contains_key(name.as_str()),
        _ => true,
    }
}

/// A key within a link needs the link: one that is added needs its whole table.
fn check_link(key: &Key, place: &Value<'_>, step: &Step, last: bool) -> Result<(), String> {
    let (DeValue::Table(links), Step::Key(name)) = (place.get_ref(), step) else {
        return Ok(());
    };
    if last || *key != Key::root("links") || has(place, step) {
        return Ok(());
    }
    let known: Vec<&str> = links.keys().map(|known| known.get_ref().as_ref()).collect();
    Err(format!(
        "unknown link {name:?}, {}",
        expected_one_of(name, &known)
    ))
}

/// Descends one step; a missing entry of a table is added.
fn enter<'a, 't>(
    key: Key,
    place: &'a mut Value<'t>,
    step: &Step,
) -> Result<(Key, &'a mut Value<'t>), String> {
    let span = place.span();
    match (place.get_mut(), step) {
        (DeValue::Table(table), Step::Key(name)) => {
            let empty = Spanned::new(span.clone(), DeValue::Table(DeTable::new()));
            let entry = table.entry(Spanned::new(span, name.clone().into()));
            Ok((key.key(name), entry.or_insert(empty)))
        }
        (DeValue::Array(array), step) => {
            let index = match step {
                Step::Index(index) => *index,
                Step::Key(name) => named(array, name)?,
            };
            let len = array.len();
            match array.get_mut(index) {
                Some(place) => Ok((key.index(index), place)),
                None => Err(format!(
                    "expected an index below {len}, the length of {key}, got {index}"
                )),
            }
        }
        (DeValue::Table(_), Step::Index(_)) => Err(format!("expected a key, but {key} is a table")),
        _ => Err(format!(
            "expected the end of the key, but {key} is neither a table nor a list"
        )),
    }
}

/// The index of the table with that `name` in a list of tables.
fn named(array: &[Value<'_>], name: &str) -> Result<usize, String> {
    let name_of =
        |entry: &'_ Value<'_>| Some(entry.get_ref().get("name")?.get_ref().as_str()?.to_owned());
    let names: Vec<Option<String>> = array.iter().map(name_of).collect();
    names
        .iter()
        .position(|known| known.as_deref() == Some(name))
        .ok_or_else(|| {
            let known: Vec<&str> = names.iter().flatten().map(String::as_str).collect();
            format!("unknown name {name:?}, {}", expected_one_of(name, &known))
        })
}

/// A syntax error, at the key at `offset` or the nearest one that encloses it. The text after that
/// line is ignored.
pub(crate) fn syntax(file: &str, text: &str, offset: usize, message: &str) -> Error {
    let rest = text.bytes().skip(offset).position(|byte| byte == b'\n');
    let text = rest.map_or(text, |rest| &text[..offset + rest]);
    let (table, _) = DeTable::parse_recoverable(text);
    let root = Spanned::new(table.span(), DeValue::Table(table.into_inner()));
    let here = line(text, offset);
    let key = last_key(&root, offset, Key::default())
        .filter(|found| found.end >= offset || line(text, found.start) == here)
        .map(|found| found.key.to_string())
        .or_else(|| key_like(text, offset));
    Error {
        file: file.to_owned(),
        line: Some(here),
        key,
        message: message.to_owned(),
    }
}

/// The remedy where `[flows]` is there twice: it is a list.
fn repeated_table(text: &str, offset: usize, message: &str) -> &'static str {
    let here = text.lines().nth(line(text, offset) - 1).unwrap_or_default();
    match here.trim_end() == "[flows]" && message == "duplicate key" {
        true => ": write [[flows]] above each if there are several",
        false => "",
    }
}

/// A key and the places in the text where it starts and where its value ends.
struct Found {
    key: Key,
    start: usize,
    end: usize,
}

/// The deepest key that starts at or before `offset`.
fn last_key(value: &Value<'_>, offset: usize, key: Key) -> Option<Found> {
    let children: Vec<(usize, &Value<'_>, Key)> = match value.get_ref() {
        DeValue::Table(table) => table
            .iter()
            .map(|(name, value)| (name.span().start, value, key.key(name.get_ref())))
            .collect(),
        DeValue::Array(array) => array
            .iter()
            .enumerate()
            .map(|(i, value)| (value.span().start, value, key.index(i)))
            .collect(),
        _ => Vec::new(),
    };
    children
        .into_iter()
        .filter(|(start, _, _)| *start <= offset)
        .flat_map(|(start, value, key)| {
            let below = last_key(value, offset, key.clone());
            [
                Some(Found {
                    key,
                    start,
                    end: value.span().end,
                }),
                below,
            ]
        })
        .flatten()
        .max_by_key(|found| (found.start, found.key.0.len()))
}

/// The key on the line of `offset`, guessed from the text, below the header above it: the parser
/// drops a key without a value. It keeps headers, valid or not.
fn key_like(text: &str, offset: usize) -> Option<String> {
    let word = |line: &str| {
        let (before, _) = line.split_once('=').unwrap_or((line, ""));
        let word = before.trim_matches(|c: char| c.is_whitespace() || "[]\"'".contains(c));
        word.chars().take(LONGEST_KEY_LIKE).collect::<String>()
    };
    let lines: Vec<&str> = text.lines().take(line(text, offset)).collect();
    let (here, above) = lines.split_last()?;
    let is_header = |line: &&&str| line.starts_with('[');
    let header = above.iter().rfind(is_header).filter(|_| !is_header(&here));
    let key = Some(word(here)).filter(|key| !key.is_empty())?;
    Some(header.map_or(key.clone(), |header| format!("{}.{key}", word(header))))
}

/// Where `key`, or the nearest one that encloses it, starts in the text.
fn offset(root: &Value<'_>, key: &Key) -> usize {
    let mut value = root;
    let mut start = 0;
    for step in &key.0 {
        let next = match (value.get_ref(), step) {
            (DeValue::Table(table), Step::Key(name)) => table
                .iter()
                .find(|(known, _)| known.get_ref() == name)
                .map(|(known, value)| (known.span().start, value)),
            (DeValue::Array(array), Step::Index(index)) => {
                array.get(*index).map(|value| (value.span().start, value))
            }
            _ => None,
        };
        let Some(next) = next else { break };
        (start, value) = next;
    }
    start
}

fn line(text: &str, offset: usize) -> usize {
    1 + text
        .bytes()
        .take(offset)
        .filter(|byte| *byte == b'\n')
        .count()
}

fn set_error(file: &str, (key, value): &(String, String), message: String) -> Error {
    Error {
        file: file.to_owned(),
        line: None,
        key: Some(format!("--set {key}={value}")),
        message,
    }
}

// Reads files up to a size limit, so that no file can exhaust the memory.

/// Scenarios and traces are smaller.
const LARGEST_MIB: u64 = 16;

/// The content of a file.
///
/// # Errors
/// Why it cannot be read.
pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    if path.is_dir() {
        return Err("expected a file, got a directory".to_owned());
    }
    let mut content = Vec::new();
    let limit = LARGEST_MIB << 20;
    File::open(path)
        .and_then(|file| file.take(limit + 1).read_to_end(&mut content))
        .map_err(|error| match error.kind() {
            ErrorKind::NotFound => "file not found".to_owned(),
            _ => format!("cannot read the file: {error}"),
        })?;
    if content.len() as u64 > limit {
        return Err(format!(
            "expected at most {LARGEST_MIB} MiB, got a larger file"
        ));
    }
    Ok(content)
}

// Files that are often given in the place of a scenario.

/// How the files of some kinds begin.
const KINDS: [(&[u8], &str); 5] = [
    (b"PAR1", "a Parquet file"),
    (b"\x89PNG", "a PNG image"),
    (b"%PDF", "a PDF file"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "a gzip file"),
];

/// Error that names the kind of the content; `None` if it may be a scenario.
pub(crate) fn error(content: &[u8]) -> Option<String> {
    let mut kinds = KINDS.iter();
    if let Some((_, kind)) = kinds.find(|(start, _)| content.starts_with(start)) {
        return Some(format!("not TOML: this is {kind}"));
    }
    if content
        .iter()
        .take_while(|byte| **byte != b'\n')
        .any(|byte| *byte == 0)
    {
        return Some("not TOML: this is a binary file or UTF-16: expected UTF-8 text".to_owned());
    }
    let text = std::str::from_utf8(content).ok()?;
    Trace::parse(text)
        .is_ok()
        .then(|| "this is a mahimahi trace: name it by links.NAME.trace_file".to_owned())
}
