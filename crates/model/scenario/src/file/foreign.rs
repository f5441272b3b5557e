//! Files that are often given in the place of a scenario.

use anabranch_net::Trace;

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
