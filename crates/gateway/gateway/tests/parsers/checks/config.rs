//! The configuration of either gateway.

use std::fs;

use anabranch_gateway::config::difference::difference;
use anabranch_gateway::config::read::{Either, either};
use anabranch_gateway::keys::KeyPair;

/// A file with this content: a configuration that is the same as itself, or errors of a line each.
pub fn config(bytes: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder");
    let key = KeyPair::generate().expect("random numbers");
    key.write(&folder.path().join("own.key"))
        .expect("a new file");
    let file = folder.path().join("gateway.toml");
    fs::write(&file, bytes).expect("own folder");
    let is_line = |said: &str| !said.is_empty() && !said.contains(['\n', '\r', '\u{1b}']);
    match either(&file) {
        Err(errors) => {
            assert!(!errors.is_empty());
            for error in errors {
                let error = error.to_string();
                assert!(
                    is_line(&error) && error.contains("gateway.toml"),
                    "{error:?}"
                );
            }
        }
        Ok(valid) => {
            assert!(valid.warnings().iter().all(|warning| is_line(warning)));
            let changed = match &valid {
                Either::Near(near) => difference(near, near),
                Either::Far(far) => difference(far, far),
            };
            assert!(changed.is_empty(), "{changed:?}");
        }
    }
}
