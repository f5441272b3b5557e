//! The scenario file: its text, its keys, what may be written in it, and its JSON Schema.

pub(crate) mod document;
pub(crate) mod key;
mod reader;
pub(crate) mod written;
