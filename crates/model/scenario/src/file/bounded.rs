//! Reads files up to a size limit, so that no file can exhaust the memory.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

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
