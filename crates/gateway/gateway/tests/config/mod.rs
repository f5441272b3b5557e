//! Configurations: refusals and their messages, changes that a reload finds, warnings.

use std::fs;
use std::path::Path;

use anabranch_gateway::config::read::either;
use anabranch_gateway::keys::KeyPair;

use tables::Table;

mod refusals;
mod reloads;
mod tables;
mod warnings;

/// File of a role with one value replaced, and the table and key of each line.
struct Written {
    lines: Vec<String>,
}

impl Written {
    pub fn new(tables: &[Table], peer: &str) -> Written {
        let mut lines = Vec::new();
        for (header, keys) in tables {
            if !header.is_empty() {
                lines.push((*header).to_owned());
            }
            for [key, valid, ..] in keys {
                lines.push(format!("{key} = {valid}").replace("PEER", peer));
            }
        }
        Written { lines }
    }

    pub fn refusal(&self, folder: &Path) -> Vec<String> {
        let file = folder.join("gateway.toml");
        fs::write(&file, self.lines.join("\n")).expect("own folder");
        let errors = either(&file).err().unwrap_or_default();
        let prefix = format!("{}/", folder.display());
        errors
            .iter()
            .map(|error| error.to_string().replace(&prefix, ""))
            .collect()
    }
}

fn folder() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let pair = || KeyPair::generate().expect("random numbers");
    pair()
        .write(&folder.path().join("own.key"))
        .expect("a new file");
    (folder, pair().public().to_string())
}
