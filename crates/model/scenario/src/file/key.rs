//! Positions of values in a scenario: `links.R1.rate_mbps`, `flows[1].paths[0][2]`.

use std::fmt;

/// A fault at a key whose line in the text is not known yet.
#[derive(Debug)]
pub struct Fault {
    /// Where it is.
    pub key: Key,
    /// Expectation and finding.
    pub message: String,
}

impl Fault {
    /// The same fault, seen from the table or list that this step leads into.
    pub(super) fn below(mut self, step: Step) -> Fault {
        self.key.0.insert(0, step);
        self
    }
}

/// One step down into a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Into a table.
    Key(String),
    /// Into a list.
    Index(usize),
}

/// The path from the root of a document to a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Key(pub Vec<Step>);

impl Key {
    /// The top-level key of that name.
    pub fn root(name: &str) -> Key {
        Key::default().key(name)
    }

    /// The entry of that name in the table this key leads to.
    pub fn key(&self, name: &str) -> Key {
        self.step(Step::Key(name.to_owned()))
    }

    /// The entry of that number in the list this key leads to.
    pub fn index(&self, index: usize) -> Key {
        self.step(Step::Index(index))
    }

    /// A fault at this key.
    pub fn fault(&self, message: impl Into<String>) -> Fault {
        Fault {
            key: self.clone(),
            message: message.into(),
        }
    }

    fn step(&self, step: Step) -> Key {
        Key(self.0.iter().cloned().chain([step]).collect())
    }

    /// Reads `links.R1.rate_mbps`, `links."a b".delay_ms`, `flows[1].count`.
    pub fn parse(text: &str) -> Option<Key> {
        let mut key = Key::default();
        let mut rest = text.trim();
        loop {
            let (name, after) = match rest.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"')?,
                None => rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len())),
            };
            if name.is_empty() {
                return None;
            }
            key = key.key(name);
            rest = after;
            while let Some(open) = rest.strip_prefix('[') {
                let (index, after) = open.split_once(']')?;
                key = key.index(index.parse().ok()?);
                rest = after;
            }
            if rest.is_empty() {
                return Some(key);
            }
            rest = rest.strip_prefix('.')?;
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, step) in self.0.iter().enumerate() {
            let dot = if depth == 0 { "" } else { "." };
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(name) if is_bare(name) => write!(f, "{dot}{name}")?,
                Step::Key(name) => write!(f, "{dot}{name:?}")?,
            }
        }
        Ok(())
    }
}

fn is_bare(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}
