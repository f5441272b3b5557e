//! Origin of a scenario: its text and files, so that it can be read again elsewhere.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::file::bounded;

/// The contents of the files that a scenario names, by their names in the scenario.
pub type Inputs = BTreeMap<String, Arc<[u8]>>;

/// The text of a scenario, the values that replaced others, and the files that it names.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) text: Arc<str>,
    pub(crate) set: Vec<(String, String)>,
    pub(crate) inputs: Inputs,
}

impl Origin {
    /// The algorithm of flows without one of their own.
    pub(crate) fn replace_algorithm(&mut self, spec: &str) {
        let value = toml::Value::from(spec).to_string();
        self.set.push(("algorithm".to_owned(), value));
    }
}

/// Scenarios that mean the same are equal, however they were written.
impl PartialEq for Origin {
    fn eq(&self, _: &Origin) -> bool {
        true
    }
}

/// Where the files that a scenario names are found: among those given, else in the directory.
pub(crate) struct Files<'a> {
    given: &'a Inputs,
    directory: &'a Path,
    /// Contents read so far.
    pub(crate) read: Inputs,
}

impl<'a> Files<'a> {
    pub(crate) fn new(directory: &'a Path, given: &'a Inputs) -> Files<'a> {
        let read = Inputs::new();
        Files {
            given,
            directory,
            read,
        }
    }

    /// The content of a file.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(crate) fn content(&mut self, name: &str) -> Result<Arc<[u8]>, String> {
        let known = self.read.get(name).or_else(|| self.given.get(name));
        let content = match known {
            Some(content) => Arc::clone(content),
            None => bounded::read(&self.directory.join(name))?.into(),
        };
        self.read.insert(name.to_owned(), Arc::clone(&content));
        Ok(content)
    }
}

/// A name for each input that is unique within one folder, by its name in the scenario: the file's
/// name, with `.trace` appended where a result has files of that kind.
pub(crate) fn names_in_one_folder(inputs: &Inputs) -> BTreeMap<&str, String> {
    let mut taken: BTreeMap<String, &[u8]> = BTreeMap::new();
    let mut names = BTreeMap::new();
    for (written, content) in inputs {
        let file = Path::new(written).file_name().unwrap_or_default();
        let mut base = file.to_string_lossy().into_owned();
        if [".toml", ".json", ".parquet", ".svg", ".png"]
            .iter()
            .any(|kind| base.ends_with(kind))
        {
            base += ".trace";
        }
        let numbered = (2..).map(|n| format!("{n}-{base}"));
        let name = std::iter::once(base.clone())
            .chain(numbered)
            .find(|name| taken.get(name).is_none_or(|other| *other == &content[..]))
            .expect("there are more numbers than inputs");
        taken.insert(name.clone(), content);
        names.insert(written.as_str(), name);
    }
    names
}
