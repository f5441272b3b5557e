//! Files are read up to a bound, so that no file name can exhaust the memory.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

/// A larger file is neither a scenario nor a trace.
const LARGEST_MIB: u64 = 16;

/// The content of a file, or what it is instead of readable.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    if path.is_dir() {
        return Err("a directory".to_owned());
    }
    let mut content = Vec::new();
    let limit = LARGEST_MIB << 20;
    File::open(path)
        .and_then(|file| file.take(limit + 1).read_to_end(&mut content))
        .map_err(|error| match error.kind() {
            ErrorKind::NotFound => "missing".to_owned(),
            _ => format!("unreadable: {error}"),
        })?;
    if content.len() as u64 > limit {
        return Err(format!("larger than {LARGEST_MIB} MiB"));
    }
    Ok(content)
}
